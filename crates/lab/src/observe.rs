//! What the processes under test use: read before, after and from a thread of its own during the
//! measurement, never from the thread that makes the load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mcplane_process::observe::{Tree, Usage};
use serde::{Deserialize, Serialize};

use crate::pin::Affinity;

/// How often the processes are looked at during the measurement.
const EVERY: Duration = Duration::from_millis(250);

/// What the processes of one side use together now; `None` if there is no process or no `/proc`.
pub(crate) fn usage(pids: &[u32]) -> Option<Usage> {
    pids.iter().map(|pid| Tree::glance(*pid)).sum::<Option<Usage>>()
}

/// The greatest figures seen, and the last ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Resources {
    /// CPU time, user and system, of the whole process tree per call, in nanoseconds.
    pub cpu_ns_per_call: Option<f64>,
    /// The part of it in user mode, in nanoseconds per call.
    pub cpu_user_ns_per_call: Option<f64>,
    /// The part of it in the kernel, in nanoseconds per call.
    pub cpu_system_ns_per_call: Option<f64>,
    /// Context switches of the tree per call.
    pub ctx_switches_per_call: Option<f64>,
    /// Greatest resident memory, in bytes.
    pub rss_bytes_max: Option<u64>,
    /// Resident memory at the end, in bytes.
    pub rss_bytes_end: Option<u64>,
    /// Most open file descriptors.
    pub fds_max: Option<u64>,
    /// Most threads.
    pub threads_max: Option<u64>,
    /// Most processes.
    pub processes_max: Option<u64>,
    /// How often the processes were looked at.
    pub samples: u64,
}

impl Resources {
    pub(crate) fn see(&mut self, usage: &Usage) {
        let raise = |seen: &mut Option<u64>, now| *seen = Some(seen.unwrap_or(0).max(now));
        raise(&mut self.rss_bytes_max, usage.rss_bytes);
        raise(&mut self.fds_max, usage.fds);
        raise(&mut self.threads_max, usage.threads);
        raise(&mut self.processes_max, usage.processes);
        self.rss_bytes_end = Some(usage.rss_bytes);
        self.samples += 1;
    }

    /// Adds what was seen later.
    pub(crate) fn join(&mut self, later: &Self) {
        self.rss_bytes_max = self.rss_bytes_max.max(later.rss_bytes_max);
        self.fds_max = self.fds_max.max(later.fds_max);
        self.threads_max = self.threads_max.max(later.threads_max);
        self.processes_max = self.processes_max.max(later.processes_max);
        self.rss_bytes_end = later.rss_bytes_end.or(self.rss_bytes_end);
        self.samples += later.samples;
    }
}

/// The difference of two samples, spread over calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) cpu_ns: u64,
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    pub(crate) switches: u64,
}

impl Spent {
    pub(crate) fn between(before: &Usage, after: &Usage) -> Self {
        let switches =
            |usage: &Usage| usage.ctx_switches_voluntary + usage.ctx_switches_involuntary;
        Self {
            cpu_ns: after.cpu_ns().saturating_sub(before.cpu_ns()),
            user_ns: after.cpu_ns_user.saturating_sub(before.cpu_ns_user),
            system_ns: after.cpu_ns_system.saturating_sub(before.cpu_ns_system),
            switches: switches(after).saturating_sub(switches(before)),
        }
    }

    pub(crate) const fn add(&mut self, other: &Self) {
        self.cpu_ns += other.cpu_ns;
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.switches += other.switches;
    }
}

/// A thread that looks at several sides.
pub(crate) struct Observer {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<Resources>>>,
    thread: Option<JoinHandle<()>>,
}

impl Observer {
    /// Starts looking at sides, each a list of processes. `affinity` keeps the observer off a core
    /// that the load is pinned to.
    pub(crate) fn start(sides: Vec<Vec<u32>>, affinity: Option<Affinity>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(Mutex::new(vec![Resources::default(); sides.len()]));
        let (stopped, shared) = (Arc::clone(&stop), Arc::clone(&seen));
        let look = move || {
            if let Some(affinity) = affinity {
                affinity.restore();
            }
            while !stopped.load(Ordering::Relaxed) {
                look_once(&sides, &shared);
                thread::park_timeout(EVERY);
            }
            look_once(&sides, &shared);
        };
        let builder = thread::Builder::new().name("mcplane-observe".to_owned());
        // Without a thread there are no figures, and the report says n/a.
        Self { stop, seen, thread: builder.spawn(look).ok() }
    }

    /// A last look, and what was seen of each side.
    pub(crate) fn finish(self) -> Vec<Resources> {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn look_once(sides: &[Vec<u32>], seen: &Mutex<Vec<Resources>>) {
    let now: Vec<_> = sides.iter().map(|pids| usage(pids).filter(|_| !pids.is_empty())).collect();
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    for (resources, usage) in seen.iter_mut().zip(&now) {
        usage.iter().for_each(|usage| resources.see(usage));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen() {
        let observer = Observer::start(vec![vec![std::process::id()], vec![]], None);
        let seen = observer.finish();
        assert!(seen[0].rss_bytes_max > Some(0) && seen[0].threads_max >= Some(1));
        assert!(seen[0].samples >= 1);
        assert_eq!(seen[1], Resources::default());
    }

    #[test]
    fn a_difference_never_goes_below_zero() {
        let before = usage(&[std::process::id()]).unwrap();
        let spent = Spent::between(&before, &Usage::default());
        assert_eq!((spent.cpu_ns, spent.switches), (0, 0));
    }
}
