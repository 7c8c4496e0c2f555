//! What a fault is done to: a process of ours that listens, and the neighbours who use it meanwhile.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mcplane_process::observe::{Tree, Usage};
use mcplane_process::{Child, Command};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::runtime::Runtime;

use super::peer::{Place, echo};

/// How long it may take to say where it listens, and to stop.
const START: Duration = Duration::from_secs(20);
/// How long nothing may change before it counts as steady, and how long that is waited for.
const STEADY: Duration = Duration::from_millis(500);
const STEADY_MAX: Duration = Duration::from_secs(5);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);

const GRACE: Duration = Duration::from_millis(500);

/// A process that listens.
pub(super) struct Subject {
    runtime: Runtime,
    child: Child,
    pub(super) place: Place,
}

impl Subject {
    /// Starts it, and waits until a call is answered.
    ///
    /// # Errors
    /// Why that did not come to pass.
    pub(super) fn start(command: &Command) -> Result<Self, String> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime =
            runtime.worker_threads(1).enable_all().build().map_err(|error| error.to_string())?;
        let entered = runtime.enter();
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let stdout = child.take_stdout().ok_or("its stdout is no pipe")?;
        let mut line = String::new();
        let mut reader = BufReader::new(stdout);
        let said = runtime
            .block_on(async { tokio::time::timeout(START, reader.read_line(&mut line)).await });
        runtime.spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
        drop(entered);
        let Some(place) = said.ok().and_then(|_| Place::parse(&line)) else {
            let report = child.report(8).to_string();
            runtime.block_on(child.kill());
            return Err(format!("`{command}` did not say where it listens: {report}"));
        };
        let subject = Self { runtime, child, place };
        let until = Instant::now() + START;
        loop {
            match subject.place.echo(0) {
                Ok(()) => return Ok(subject),
                Err(why) if Instant::now() > until => {
                    subject.stop();
                    return Err(format!("`{command}` does not answer: {why}"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// What its processes use.
    pub(super) fn usage(&self) -> Option<Usage> {
        Tree::glance(self.child.pid())
    }

    /// The same once it has not opened, closed or started anything for a while: workers come one by one.
    pub(super) fn steady(&self) -> Option<Usage> {
        let (mut last, mut since) = (self.usage()?, Instant::now());
        let until = since + STEADY_MAX;
        while since.elapsed() < STEADY && Instant::now() < until {
            std::thread::sleep(LOOK);
            let now = self.usage()?;
            if (now.fds, now.processes) != (last.fds, last.processes) {
                since = Instant::now();
            }
            last = now;
        }
        Some(last)
    }

    /// The most memory that its processes have until something is over, in bytes.
    pub(super) fn most_memory(&self, is_over: &AtomicBool) -> u64 {
        let mut most = 0;
        while !is_over.load(Ordering::Relaxed) {
            most = most.max(self.usage().map_or(0, |usage| usage.rss_bytes));
            std::thread::sleep(LOOK);
        }
        most
    }

    /// The processes below it.
    pub(super) fn children(&self) -> Vec<u32> {
        let tree = Tree::of(self.child.pid());
        let pids = tree.map(|tree| tree.pids().to_vec()).unwrap_or_default();
        pids.into_iter().filter(|pid| *pid != self.child.pid()).collect()
    }

    pub(super) fn stop(mut self) {
        drop(self.child.take_stdin());
        self.runtime.block_on(self.child.stop(GRACE));
    }
}

/// A client that behaves well while something happens to another one.
pub(super) struct Neighbour {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Calls>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What became of a neighbour's calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    pub(super) answered: u64,
    /// What came in the place of a right answer.
    pub(super) lost: Vec<String>,
    /// The longest time of one call.
    pub(super) longest: Duration,
}

impl Neighbour {
    /// Calls from now on, one after another on one connection, and on a new one after an error.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(super) fn start(place: Place, number: u64) -> io::Result<Self> {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let (stopped, calls) = (Arc::clone(&stop), Arc::clone(&seen));
        let work = move || {
            let mut stream = None;
            let mut id = number << 32;
            while !stopped.load(Ordering::Relaxed) {
                id += 1;
                let began = Instant::now();
                let called = match &mut stream {
                    Some(stream) => echo(&place, stream, id),
                    None => match place.connect() {
                        Ok(new) => echo(&place, stream.insert(new), id),
                        Err(error) => Err(format!("cannot connect: {error}")),
                    },
                };
                let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
                let calls: &mut Calls = &mut calls;
                calls.longest = calls.longest.max(began.elapsed());
                match called {
                    Ok(()) => calls.answered += 1,
                    Err(why) => {
                        calls.lost.push(why);
                        stream = None;
                    }
                }
                // A person's pace, not a load: what is measured is whether it is served.
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        let thread = std::thread::Builder::new().name("chaos-neighbour".to_owned()).spawn(work)?;
        Ok(Self { stop, seen, thread: Some(thread) })
    }

    /// What became of its calls up to now.
    pub(super) fn stop(mut self) -> Calls {
        self.stop.store(true, Ordering::Relaxed);
        // A panic there would be seen as no answer.
        let _ = self.thread.take().map(JoinHandle::join);
        let calls = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        calls.clone()
    }
}
