//! Processes that have left their group and still belong to it.
//!
//! A process that calls `setsid` (a browser that a server starts detached, a daemon that forks
//! twice) is in no group of ours. So each group is started with an unguessable value of
//! [`VARIABLE`] in its environment, which descendants inherit. When the group is closed, a *sweep*
//! sends SIGKILL to every process that was started with its value. The guard does the same for all
//! our groups at once when we die, by the part before the dot.
//!
//! A process that is to outlive its server is started without the variable
//! (`env -u MCPLANE_GROUP …`). One that starts groups with this crate gives them marks of its own,
//! and its own guard ends them when it is killed.
//!
//! What it does not cover: a system without `/proc/PID/environ` (only Linux has it), a process that
//! has written over its first environment, that may not be read (it runs as another user), or
//! whose first thread has ended.
//!
//! A pass of a sweep reads one small file for each process of the machine, about 20 µs each. Sweeps
//! run on a thread of their own, at most one at a time: what is asked for meanwhile waits for the
//! next one and shares it.

use std::collections::BTreeSet;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::os;

/// The variable that a group is known by.
pub(crate) const VARIABLE: &str = "MCPLANE_GROUP";

/// Passes of one sweep. A second one finds what was started during the first; more are needed only
/// for what starts processes faster than they are looked at.
const PASSES_MAX: u32 = 16;

/// Passes because of processes whose environment is empty: in the middle of `exec`, for some
/// microseconds, it is; of a few it always is.
const PASSES_UNSURE_MAX: u32 = 3;

/// Between two passes, in milliseconds: killed processes need a moment to die.
const PASS_MS: u64 = 1;

/// The value of [`VARIABLE`] of one group.
#[derive(Debug, Clone)]
pub(crate) struct Mark(String);

/// What one pass has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux finds something"))]
pub(crate) enum Found {
    Nothing,
    /// Nothing for sure, but a process without any environment.
    Unsure,
    /// A process that was killed.
    Some,
}

impl Mark {
    /// A new one; `None` if the system has no randomness, and groups go without.
    pub(crate) fn new() -> Option<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        ours().map(|ours| Self(format!("{ours}.{number}")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Has a thread kill every process with this mark. The answer comes, as an error, when it is
    /// done.
    pub(crate) fn sweep(self) -> oneshot::Receiver<()> {
        let (done, swept) = oneshot::channel();
        if !cfg!(target_os = "linux") {
            return swept;
        }
        let mut sweeper = lock();
        sweeper.asked.push((self, done));
        let is_running = mem::replace(&mut sweeper.is_running, true);
        drop(sweeper);
        let start = || thread::Builder::new().name("mcplane-sweep".to_owned()).spawn(sweep_all);
        if !is_running && start().is_err() {
            sweep_all();
        }
        swept
    }
}

/// What the marks of all our groups begin with: 128 random bits, in hexadecimal digits.
pub(crate) fn ours() -> Option<&'static str> {
    static OURS: OnceLock<Option<String>> = OnceLock::new();
    let random = || {
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        Some(format!("{:032x}", u128::from_be_bytes(random)))
    };
    OURS.get_or_init(random).as_deref()
}

static SWEEPER: Mutex<Sweeper> = Mutex::new(Sweeper { asked: Vec::new(), is_running: false });

struct Sweeper {
    /// One for each group that was closed since the last sweep began.
    asked: Vec<(Mark, oneshot::Sender<()>)>,
    is_running: bool,
}

fn lock() -> MutexGuard<'static, Sweeper> {
    SWEEPER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sweep_all() {
    loop {
        let mut sweeper = lock();
        let asked = mem::take(&mut sweeper.asked);
        sweeper.is_running = !asked.is_empty();
        drop(sweeper);
        if asked.is_empty() {
            return;
        }
        sweep(&asked.iter().map(|(mark, _)| mark.as_str().as_bytes()).collect());
    }
}

fn sweep(marks: &BTreeSet<&[u8]>) {
    let mut unsure = 0;
    for _ in 0..PASSES_MAX {
        match os::kill_marked(VARIABLE, marks) {
            Found::Some => {}
            Found::Unsure if unsure < PASSES_UNSURE_MAX => unsure += 1,
            Found::Unsure | Found::Nothing => return,
        }
        thread::sleep(Duration::from_millis(PASS_MS));
    }
}
