//! No orphan when this process dies, even by SIGKILL.
//!
//! One *guard* per process, shared by all children: a small shell script in its own process group,
//! started with the first child and kept until we end. It is told on its stdin which groups live.
//! Only we hold the other end of that pipe (it is close-on-exec, so no child inherits it); when it
//! closes we are dead, however that happened, and the guard stops every group that is left:
//! SIGTERM, up to two seconds of grace, SIGKILL. Then it sends SIGKILL to what has left its group,
//! which it finds by our part of the marks (see `mark`), and ends. Until then it sleeps in `read`
//! and costs no CPU.
//!
//! What it does not cover: a child started in the microseconds before our death whose line was not
//! written yet (its stdin closes all the same), and a system without `/bin/sh`, where children are
//! started without a guard. Groups are told off the list before their leader is reaped, so the list
//! never names a stranger; after our death the guard looks ten times a second which groups remain,
//! and signals no group that it has once seen gone. A shell cannot hold a process as a sweep of
//! ours does: it looks once more right before the signal, and between the two the race remains.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::mark;
use crate::os;

/// `g` is the list of living groups: their numbers, each between two spaces. `m` is what their
/// marks begin with; it comes through the pipe because everybody may read a list of arguments. The
/// second loop runs at most 21 times, a tenth of a second apart: SIGTERM first, SIGKILL last, a
/// look in between. The last one runs at most ten times and at least twice, because a process in
/// the middle of `exec` is not seen. With `-z`, `grep` takes the variables of an environment for
/// lines and reads all processes at once; where it does not know that (some BusyBox), each is read
/// by a `tr` of its own. The guard and what it runs have no mark.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
g=' ' m=
while read -r op id; do case "$op$g" in
  =*) m="^MCPLANE_GROUP=$id\." ;;
  +*) g="$g$id " ;;
  -*" $id "*) g="${g%% "$id" *} ${g#* "$id" }" ;;
esac; done
n=0; while [ "$g" != ' ' ] && [ $n -le 20 ]; do
  case $n in 0) s=TERM ;; 20) s=KILL ;; *) s=0 ;; esac
  left=' '; for id in $g; do kill -s $s -- "-$id" && left="$left$id "; done
  g=$left; n=$((n + 1)); [ "$g" = ' ' ] || sleep 0.1 || sleep 1
done 2>/dev/null
has_mark() { tr '\0' '\n' <"$1" | grep -q "$m"; }
if printf 'a\0b' | grep -qz '^b'; then
  marked() { grep -lz "$m" /proc/[0-9]*/environ; }
else
  marked() { for id in /proc/[0-9]*/environ; do has_mark "$id" && echo "$id"; done; }
fi 2>/dev/null
n=0; while [ -n "$m" ] && [ $n -lt 10 ]; do
  left=$(marked)
  for id in $left; do
    has_mark "$id" && id=${id#/proc/} && kill -s KILL "${id%/environ}"
  done
  n=$((n + 1)); [ -z "$left" ] && [ $n -ge 2 ] && break
  sleep 0.1 || sleep 1
done 2>/dev/null
"#;

static GUARD: Mutex<Guard> = Mutex::new(Guard { groups: BTreeSet::new(), shell: Shell::Unborn });

struct Guard {
    groups: BTreeSet<u32>,
    shell: Shell,
}

enum Shell {
    Unborn,
    Alive(Child, ChildStdin),
    /// It could not be started; children run without it.
    Absent,
}

/// Starts the guard before the first child, so that a child is on its list at once.
pub(crate) fn prepare() {
    let mut guard = lock();
    if matches!(guard.shell, Shell::Unborn) {
        guard.start();
    }
}

/// Puts a group on the guard's list, starting the guard if need be.
pub(crate) fn register(group: u32) {
    let mut guard = lock();
    guard.groups.insert(group);
    if !guard.tell('+', group) {
        guard.start();
    }
}

/// Takes a group off the list, before its leader is reaped.
pub(crate) fn release(group: u32) {
    let mut guard = lock();
    guard.groups.remove(&group);
    guard.tell('-', group);
}

fn lock() -> MutexGuard<'static, Guard> {
    GUARD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guard {
    /// Writes one line. A line is shorter than `PIPE_BUF`, so that it is written whole or not.
    fn tell(&mut self, sign: char, what: impl fmt::Display) -> bool {
        match &mut self.shell {
            Shell::Alive(_, stdin) => {
                stdin.write_all(format!("{sign} {what}\n").as_bytes()).is_ok()
            }
            Shell::Unborn | Shell::Absent => false,
        }
    }

    /// Starts the guard, or replaces one that somebody has killed or stopped.
    fn start(&mut self) {
        match std::mem::replace(&mut self.shell, Shell::Absent) {
            Shell::Absent => return,
            Shell::Unborn => {}
            // Killed before its stdin closes: its list is old, and it must not act on it.
            Shell::Alive(mut old, stdin) => {
                let _ = old.kill().and_then(|()| old.wait());
                drop(stdin);
            }
        }
        let Ok((shell, stdin)) = shell() else { return };
        self.shell = Shell::Alive(shell, stdin);
        if let Some(ours) = mark::ours() {
            self.tell('=', ours);
        }
        for group in self.groups.clone() {
            self.tell('+', group);
        }
    }
}

/// It holds on to nothing of ours: not our output, whose reader may wait for its end, and not our
/// folder, whose file system somebody may want to unmount.
fn shell() -> io::Result<(Child, ChildStdin)> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT, "mcplane-guard"]).current_dir("/");
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    os::isolate(&mut command);
    let mut shell = command.spawn()?;
    let stdin = shell.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    os::never_block(&stdin)?;
    Ok((shell, stdin))
}
