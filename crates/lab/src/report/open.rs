//! What only an open loop has: how its schedule was kept, and latencies from the actual start.

use std::fmt;

use super::document::Document;
use super::found::Cell;
use super::terminal::Page;
use crate::results::{Results, Run};
use crate::text::{count, ns, time};

/// Titles of [`cells`].
pub(super) const TITLES: [&str; 2] = ["raw p99", "missed"];

/// The 99th percentile from the actual start, and the calls that never began; empty of a closed
/// loop.
pub(super) fn cells(of: &Results) -> [Cell; 2] {
    let Some(open) = &of.open else { return Default::default() };
    let raw = time(ns(open.latency_raw.p99_ns));
    [(raw, false), (count(open.calls_missed), open.calls_missed > 0)]
}

impl Document {
    /// [`TITLES`] if any run is an open loop.
    pub(super) fn open_titles(&self) -> &'static [&'static str] {
        let open = self.runs().any(|(.., run)| run.results.open.is_some());
        if open { &TITLES } else { &[] }
    }
}

impl Page<'_> {
    /// How the schedule of an open loop was kept.
    pub(super) fn schedule(&mut self, run: &Run) -> fmt::Result {
        let Some(open) = &run.results.open else { return Ok(()) };
        let missed = format!("{} missed", count(open.calls_missed));
        let missed = if open.calls_missed > 0 { self.style.red(&missed) } else { missed };
        let at = |value| time(ns(value));
        self.field(
            "schedule",
            &format!(
                "{} calls due, {} late by more than 1 ms ({:.1} %, the worst by {}), {missed}; calls \
                 with a free place began {} after their time (p99 {})",
                count(open.calls_due),
                count(open.calls_late),
                100.0 * open.late_share,
                at(Some(open.lateness_max_ns)),
                at(open.pacing_error_p50_ns),
                at(open.pacing_error_p99_ns)
            ),
        )
    }

    /// Latencies of an open loop from the actual start, below those from the intended one.
    pub(super) fn raw(&mut self, run: &Run) -> fmt::Result {
        let of = |results: &Results| {
            let raw = &results.open.as_ref()?.latency_raw;
            Some([raw.p50_ns, raw.p99_ns, raw.max_ns].map(|value| time(ns(value))))
        };
        let Some(target) = of(&run.results) else { return Ok(()) };
        let floor = run.floor.as_ref().and_then(of).unwrap_or_default();
        for ((name, value), other) in ["p50", "p99", "max"].iter().zip(target).zip(floor) {
            self.row(&format!("from the send {name}"), [value, other], None)?;
        }
        Ok(())
    }
}
