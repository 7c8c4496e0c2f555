//! The processes of one side, and what was seen of them so far.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcplane_process::observe::{Tree, Usage};

use super::{ResourceSecond, Resources, Spent};
use crate::control::Control;

/// The part of the time that reading the PSS may take: it keeps the process from mapping memory.
const PSS_SHARE: u32 = 500;

/// How often it is read at most.
const PSS_EVERY: Duration = Duration::from_secs(1);

/// Shared by the generator, which looks before and after each slice, and the observer, which looks in
/// between. Nobody holds the lock while reading `/proc`.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    pids: Vec<u32>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    resources: Resources,
    /// The last look of the slice that runs; `None` between slices.
    last: Option<(Instant, Usage)>,
    /// The last row that is over, until the observer shows it.
    fresh: Option<ResourceSecond>,
}

impl Gauge {
    pub(crate) fn new(pids: Vec<u32>) -> Arc<Self> {
        Arc::new(Self { pids, seen: Mutex::default() })
    }

    /// What the processes use now; `None` if there is none or no `/proc`.
    fn usage(&self) -> Option<Usage> {
        let usage = self.pids.iter().map(|pid| Tree::glance(*pid)).sum::<Option<Usage>>();
        usage.filter(|_| !self.pids.is_empty())
    }

    /// A slice begins.
    pub(crate) fn begin(&self) -> Option<Usage> {
        let usage = self.usage();
        // Reading took time, before the slice.
        self.seen().last = usage.map(|usage| (Instant::now(), usage));
        usage
    }

    /// The slice is over.
    pub(crate) fn end(&self) -> Option<Usage> {
        let at = Instant::now();
        let usage = self.usage();
        let mut seen = self.seen();
        if let Some(usage) = &usage {
            seen.step(at, usage);
        }
        seen.last = None;
        usage
    }

    /// A look of the observer; a row that is over goes to whoever watches.
    pub(super) fn look(&self, pss: &mut Pss, control: Option<&Control>) {
        let at = Instant::now();
        let Some(mut usage) = self.usage() else { return };
        usage.pss_bytes = pss.read(&self.pids, at);
        let mut seen = self.seen();
        seen.resources.see(&usage);
        seen.step(at, &usage);
        let row = seen.fresh.take();
        drop(seen);
        if let (Some(row), Some(control)) = (row, control) {
            control.show_resources(&row);
        }
    }

    /// What was seen; from now on it is seen anew.
    pub(super) fn take(&self) -> Resources {
        std::mem::take(&mut self.seen().resources)
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// Time has passed since the last look, if a slice runs.
    fn step(&mut self, at: Instant, usage: &Usage) {
        let Some((before, was)) = self.last else { return };
        // A look that began before the last one has nothing to add.
        let time = at.saturating_duration_since(before);
        if time.is_zero() {
            return;
        }
        self.last = Some((at, *usage));
        let row = self.resources.course.add(time, &Spent::between(&was, usage), usage);
        self.fresh = row.or(self.fresh);
    }
}

/// When the PSS of a side may be read again.
#[derive(Debug, Default)]
pub(super) struct Pss {
    next: Option<Instant>,
}

impl Pss {
    fn read(&mut self, pids: &[u32], now: Instant) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        let began = Instant::now();
        let usage = pids.iter().map(|pid| Tree::sample(*pid)).sum::<Option<Usage>>();
        let pause = began.elapsed().saturating_mul(PSS_SHARE).max(PSS_EVERY);
        self.next = now.checked_add(pause);
        usage?.pss_bytes
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
    fn the_pss_is_not_read_all_the_time() {
        let (mut pss, now) = (Pss::default(), Instant::now());
        let pids = [std::process::id()];
        assert!(pss.read(&pids, now).is_some());
        assert!(pss.read(&pids, now + Duration::from_millis(900)).is_none());
        assert!(pss.read(&pids, now + Duration::from_secs(100)).is_some());
    }
}
