//! What passes between a run and whoever watches it: progress one way, the wish to stop the other.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::error::Error;
use crate::record::Interval;
use crate::results::{Errors, ResourceSecond};

/// How often a wait looks whether it should stop.
const LOOK_MS: u64 = 25;

/// Shared by a run and its watcher. Relaxed counters: a progress bar may lag by a batch.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    stage: AtomicU8,
    permille: AtomicU64,
    calls: AtomicU64,
    errors: AtomicU64,
    watched: AtomicBool,
    title: Mutex<String>,
    /// Written once a second, and only if somebody watches.
    moment: Mutex<Moment>,
}

/// The target in the last second of its measured time that is over.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Moment {
    /// When that was told; `None` before the first second is over.
    pub at: Option<Instant>,
    /// How long the second was, in nanoseconds: a long run has longer ones.
    pub length_ns: u64,
    /// Calls that succeeded in it.
    pub calls_ok: u64,
    /// Median latency in nanoseconds.
    pub p50_ns: Option<u64>,
    /// 99th percentile in nanoseconds.
    pub p99_ns: Option<u64>,
    /// Latencies that occurred, in nanoseconds, rising, and how often.
    pub latencies: Vec<(u64, u64)>,
    /// Failures by kind, up to the end of that second.
    pub errors: Errors,
    /// What the target's processes used in their last second.
    pub resources: Option<ResourceSecond>,
}

impl Moment {
    /// Successful calls per second.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
    pub fn rate_per_s(&self) -> f64 {
        if self.length_ns == 0 { 0.0 } else { self.calls_ok as f64 / (self.length_ns as f64 / 1e9) }
    }
}

/// What a run is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Starting the server and shaking hands.
    Starting,
    /// Calling the tool to see that it works.
    Validating,
    /// Making calls that are thrown away.
    WarmingUp,
    /// Measuring.
    Measuring,
    /// Stopping the processes.
    Finishing,
}

impl Control {
    /// Ends the run early: what was measured so far is reported, marked as interrupted.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked for an end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What the run is doing.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::Starting,
            1 => Stage::Validating,
            2 => Stage::WarmingUp,
            3 => Stage::Measuring,
            _ => Stage::Finishing,
        }
    }

    /// What is measured, in a few words; empty if there is one thing only.
    #[must_use]
    pub fn title(&self) -> String {
        self.title.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How much of the measurement is done, 0 to 1000.
    #[must_use]
    pub fn permille(&self) -> u64 {
        self.permille.load(Ordering::Relaxed).min(1000)
    }

    /// Calls of the target that were answered so far, warm-up excluded.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Errors of the target so far, warm-up excluded.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Asks for [`Control::moment`] to be kept up to date: that costs the generator some ten
    /// microseconds a second.
    pub fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    /// What was seen last.
    #[must_use]
    pub fn moment(&self) -> Moment {
        self.moment.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says what is measured from now on.
    pub fn show(&self, title: impl Into<String>) {
        *self.title.lock().unwrap_or_else(PoisonError::into_inner) = title.into();
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// A second of the target is over. Left out while somebody reads the last one: the generator
    /// waits for nobody.
    pub(crate) fn show_calls(&self, length: Duration, interval: &Interval) {
        let Ok(mut moment) = self.moment.try_lock() else { return };
        let latencies = interval.latencies();
        moment.at = Some(Instant::now());
        moment.length_ns = crate::record::ns(length);
        moment.calls_ok = latencies.count();
        moment.p50_ns = latencies.quantile_ns(0.5);
        moment.p99_ns = latencies.quantile_ns(0.99);
        moment.latencies.clear();
        moment.latencies.extend(interval.counts().iter());
        moment.errors.merge(&interval.errors);
    }

    /// Likewise of its processes.
    pub(crate) fn show_resources(&self, row: &ResourceSecond) {
        if self.is_watched() {
            self.moment.lock().unwrap_or_else(PoisonError::into_inner).resources = Some(*row);
        }
    }

    /// Forgets the progress of an earlier run; the wish to stop stays.
    pub(crate) fn begin(&self) {
        self.enter(Stage::Starting);
        self.set_permille(0);
        self.calls.store(0, Ordering::Relaxed);
        self.errors.store(0, Ordering::Relaxed);
        *self.moment.lock().unwrap_or_else(PoisonError::into_inner) = Moment::default();
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    pub(crate) fn set_permille(&self, permille: u64) {
        self.permille.store(permille, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, calls: u64, errors: u64) {
        self.calls.fetch_add(calls, Ordering::Relaxed);
        if errors > 0 {
            self.errors.fetch_add(errors, Ordering::Relaxed);
        }
    }

    /// Returns when somebody has asked for an end. Cancel safe.
    pub(crate) async fn stopped(&self) {
        while !self.is_stopped() {
            sleep(Duration::from_millis(LOOK_MS)).await;
        }
    }
}

/// The result of `work`, unless the user stops it first.
pub(crate) async fn unless_stopped<T>(
    control: &Control,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut work = std::pin::pin!(work);
    let mut stopped = std::pin::pin!(control.stopped());
    std::future::poll_fn(|cx| {
        if let std::task::Poll::Ready(done) = work.as_mut().poll(cx) {
            return std::task::Poll::Ready(done);
        }
        stopped.as_mut().poll(cx).map(|()| Err(Error::Interrupted))
    })
    .await
}
