//! What the processes under test use: read by the generator before and after each slice, and from a
//! thread of its own while it runs.
//!
//! * [`Observer`], [`Seen`] — that thread, and what it saw (this file).
//! * `gauge`  — the processes of one side.
//! * `course` — the figures second by second.
//! * `cpu`    — the time that a thread of ours works.

mod course;
mod cpu;
mod gauge;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mcplane_process::observe::Usage;

use self::course::Course;
use self::gauge::Pss;
use crate::control::Control;
use crate::pin::Affinity;

pub(crate) use self::cpu::{cpu_since, cpu_time};
pub(crate) use self::gauge::Gauge;
use crate::results::Resources;

/// How often the processes are looked at during the measurement.
const EVERY: Duration = Duration::from_millis(250);

/// What was seen of one side: over the whole run, and second by second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) whole: Resources,
    pub(crate) course: Course,
}

impl Seen {
    fn look(&mut self, usage: &Usage) {
        let whole = &mut self.whole;
        let raise = |seen: &mut Option<u64>, now| *seen = Some(seen.unwrap_or(0).max(now));
        raise(&mut whole.rss_bytes_max, usage.rss_bytes);
        raise(&mut whole.fds_max, usage.fds);
        raise(&mut whole.threads_max, usage.threads);
        raise(&mut whole.processes_max, usage.processes);
        whole.rss_bytes_end = Some(usage.rss_bytes);
        whole.samples += 1;
    }

    /// Adds what was seen later.
    pub(crate) fn join(&mut self, later: &Self) {
        self.course.join(&later.course);
        let (whole, later) = (&mut self.whole, &later.whole);
        whole.rss_bytes_max = whole.rss_bytes_max.max(later.rss_bytes_max);
        whole.fds_max = whole.fds_max.max(later.fds_max);
        whole.threads_max = whole.threads_max.max(later.threads_max);
        whole.processes_max = whole.processes_max.max(later.processes_max);
        whole.rss_bytes_end = later.rss_bytes_end.or(whole.rss_bytes_end);
        whole.samples += later.samples;
        whole.observer_cpu_share = later.observer_cpu_share.or(whole.observer_cpu_share);
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
    pub(crate) fn finish(self) -> Vec<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        let share = self.thread.and_then(|thread| {
            thread.thread().unpark();
            thread.join().ok().flatten()
        });
        let told = |side: &Arc<Gauge>| {
            let mut seen = side.take();
            seen.whole.observer_cpu_share = share.filter(|_| seen.whole.samples > 0);
            seen
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
        let whole = &seen[0].whole;
        assert!(whole.rss_bytes_max > Some(0) && whole.threads_max >= Some(1));
        assert!(whole.samples >= 1);
        let share = whole.observer_cpu_share.unwrap();
        assert!(share > 0.0 && share < 1.5, "{share}");
        assert_eq!(seen[1], Seen::default());
    }

    #[test]
    fn a_difference_never_goes_below_zero() {
        let before = Gauge::new(vec![std::process::id()]).begin().unwrap();
        let spent = Spent::between(&before, &Usage::default());
        assert_eq!((spent.cpu_ns, spent.switches), (0, 0));
    }
}
