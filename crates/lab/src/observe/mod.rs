//! What the processes under test use: read by the generator before and after each slice, and from a
//! thread of its own while it runs.
//!
//! * [`Observer`], [`Resources`] — that thread, and the figures of the whole run (this file).
//! * `gauge`  — the processes of one side.
//! * `course` — the figures second by second.

mod course;
mod gauge;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mcplane_process::observe::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::course::Course;
use self::gauge::Pss;
use crate::control::Control;
use crate::load::{cpu_since, cpu_time};
use crate::pin::Affinity;

pub use self::course::ResourceSecond;
pub(crate) use self::gauge::Gauge;

/// How often the processes are looked at during the measurement.
const EVERY: Duration = Duration::from_millis(250);

/// The greatest figures seen, and the last ones.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
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
    /// The part of one core's time, 0 to 1, that looking took: at this side and at every other that
    /// was measured in turns with it.
    #[serde(default)]
    pub observer_cpu_share: Option<f64>,
    /// What [`super::report::Results::resources_seconds`] says.
    #[serde(skip)]
    pub(crate) course: Course,
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
        self.observer_cpu_share = later.observer_cpu_share.or(self.observer_cpu_share);
        self.course.join(&later.course);
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
    sides: Vec<Arc<Gauge>>,
    thread: Option<JoinHandle<Option<f64>>>,
}

impl Observer {
    /// Starts looking. What is seen of the first side, and of every other after that, is shown to
    /// `control`: they are targets, and the others their floors. `affinity` keeps the observer off a
    /// core that the load is pinned to.
    pub(crate) fn start(
        sides: Vec<Arc<Gauge>>,
        control: &Arc<Control>,
        affinity: Option<Affinity>,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, looked_at) = (Arc::clone(&stop), sides.clone());
        let control = Arc::clone(control);
        let look = move || {
            if let Some(affinity) = affinity {
                affinity.restore();
            }
            let (start, cpu) = (Instant::now(), cpu_time());
            let mut sides: Vec<_> =
                looked_at.into_iter().map(|side| (side, Pss::default())).collect();
            let mut look_once = || {
                for (index, (side, pss)) in sides.iter_mut().enumerate() {
                    side.look(pss, (index % 2 == 0).then_some(&*control));
                }
            };
            while !stopped.load(Ordering::Relaxed) {
                look_once();
                thread::park_timeout(EVERY);
            }
            look_once();
            cpu_since(cpu).map(|cpu| cpu.as_secs_f64() / start.elapsed().as_secs_f64().max(1e-9))
        };
        let builder = thread::Builder::new().name("mcplane-observe".to_owned());
        // Without a thread there are no figures, and the report says n/a.
        Self { stop, sides, thread: builder.spawn(look).ok() }
    }

    /// A last look, and what was seen of each side.
    pub(crate) fn finish(self) -> Vec<Resources> {
        self.stop.store(true, Ordering::Relaxed);
        let share = self.thread.and_then(|thread| {
            thread.thread().unpark();
            thread.join().ok().flatten()
        });
        let told = |side: &Arc<Gauge>| {
            let seen = side.take();
            let observer_cpu_share = share.filter(|_| seen.samples > 0);
            Resources { observer_cpu_share, ..seen }
        };
        self.sides.iter().map(told).collect()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen() {
        let sides = vec![Gauge::new(vec![std::process::id()]), Arc::default()];
        let observer = Observer::start(sides, &Arc::default(), None);
        let seen = observer.finish();
        assert!(seen[0].rss_bytes_max > Some(0) && seen[0].threads_max >= Some(1));
        assert!(seen[0].samples >= 1);
        let share = seen[0].observer_cpu_share.unwrap();
        assert!(share > 0.0 && share < 1.5, "{share}");
        assert_eq!(seen[1], Resources::default());
    }

    #[test]
    fn a_difference_never_goes_below_zero() {
        let before = Gauge::new(vec![std::process::id()]).begin().unwrap();
        let spent = Spent::between(&before, &Usage::default());
        assert_eq!((spent.cpu_ns, spent.switches), (0, 0));
    }
}
