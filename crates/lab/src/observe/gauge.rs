//! The processes of one side, and what was seen of them so far.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcplane_process::observe::{Tree, Usage};

use super::cpu::{cpu_since, cpu_time};
use super::{Seen, Spent};
use crate::control::Control;
use crate::results::ResourceSecond;

/// A look with the PSS, which keeps the process from mapping memory, is followed by so many times its
/// CPU time without one.
const PSS_PAUSE: u32 = 200;

/// How often the PSS is read at most.
const PSS_EVERY: Duration = Duration::from_secs(1);

/// Shared by the generator, which looks before and after each slice, and the observer, which looks in
/// between. Nobody holds the lock while reading `/proc`.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    pids: Vec<u32>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seen: Seen,
    /// The last look of the slice that runs; `None` between slices.
    last: Option<(Instant, Usage)>,
    /// The last row that is over, until the observer shows it.
    fresh: Option<ResourceSecond>,
}

impl Gauge {
    pub(crate) fn new(pids: Vec<u32>) -> Arc<Self> {
        Arc::new(Self { pids, state: Mutex::default() })
    }

    /// What the processes use now; `None` if there is none or no `/proc`.
    fn usage(&self, of: fn(u32) -> Option<Usage>) -> Option<Usage> {
        let usage = self.pids.iter().map(|pid| of(*pid)).sum::<Option<Usage>>();
        usage.filter(|_| !self.pids.is_empty())
    }

    /// A slice begins.
    pub(crate) fn begin(&self) -> Option<Usage> {
        let usage = self.usage(Tree::glance);
        // Reading took time, before the slice.
        self.state().last = usage.map(|usage| (Instant::now(), usage));
        usage
    }

    /// The slice is over.
    pub(crate) fn end(&self) -> Option<Usage> {
        let at = Instant::now();
        let usage = self.usage(Tree::glance);
        let mut state = self.state();
        if let Some(usage) = &usage {
            state.step(at, usage);
        }
        state.last = None;
        usage
    }

    /// A look of the observer; a row that is over goes to whoever watches.
    pub(super) fn look(&self, pss: &mut Pss, control: Option<&Control>) {
        let at = Instant::now();
        let usage = match pss.is_due(at) {
            true => pss.pay(at, || self.usage(Tree::sample)),
            false => self.usage(Tree::glance),
        };
        let Some(usage) = usage else { return };
        let mut state = self.state();
        state.seen.look(&usage);
        state.step(at, &usage);
        let row = state.fresh.take();
        drop(state);
        if let (Some(row), Some(control)) = (row, control) {
            control.show_resources(&row);
        }
    }

    /// What was seen; from now on it is seen anew.
    pub(super) fn take(&self) -> Seen {
        std::mem::take(&mut self.state().seen)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Time has passed since the last look, if a slice runs.
    fn step(&mut self, at: Instant, usage: &Usage) {
        let Some((before, was)) = self.last else { return };
        // A look that began before the last one has nothing to add.
        let time = at.saturating_duration_since(before);
        if time.is_zero() {
            return;
        }
        self.last = Some((at, *usage));
        let row = self.seen.course.add(time, &Spent::between(&was, usage), usage);
        self.fresh = row.or(self.fresh);
    }
}

/// When the PSS of a side may be read again.
#[derive(Debug, Default)]
pub(super) struct Pss {
    next: Option<Instant>,
}

impl Pss {
    fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| now >= next)
    }

    /// Reads, and puts off the next time by what this one cost.
    fn pay<T>(&mut self, now: Instant, read: impl FnOnce() -> T) -> T {
        let before = cpu_time();
        let read = read();
        let cost = cpu_since(before).unwrap_or_default();
        self.next = now.checked_add(cost.saturating_mul(PSS_PAUSE).max(PSS_EVERY));
        read
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_of_slices_counts() {
        let gauge = Gauge::new(vec![std::process::id()]);
        let look = || gauge.look(&mut Pss::default(), None);
        let pause = || std::thread::sleep(Duration::from_millis(30));
        look();
        pause();
        let before = Instant::now();
        gauge.begin();
        pause();
        look();
        pause();
        gauge.end();
        let took = before.elapsed();
        pause();
        look();
        let rows = gauge.take().course.all();
        assert_eq!(rows.len(), 1);
        let length = Duration::from_nanos(rows[0].length_ns);
        assert!(length >= Duration::from_millis(60) && length <= took, "{length:?} {took:?}");
        assert!(rows[0].rss_bytes > 0 && rows[0].fds > 0 && rows[0].processes > 0, "{rows:?}");
        assert!(rows[0].pss_bytes > Some(0), "{rows:?}");
        assert!(gauge.take().course.all().is_empty());
    }

    #[test]
    fn the_pss_is_read_once_a_second_and_less_often_where_it_costs() {
        let (mut pss, now) = (Pss::default(), Instant::now());
        let after = |ms| now + Duration::from_millis(ms);
        assert!(pss.is_due(now));
        pss.pay(now, || {});
        assert!(!pss.is_due(after(999)) && pss.is_due(after(1000)));
        let work = || {
            let before = cpu_time();
            while cpu_since(before) < Some(Duration::from_millis(20)) {}
        };
        pss.pay(now, work);
        assert!(!pss.is_due(after(3999)) && pss.is_due(after(60_000)));
    }
}
