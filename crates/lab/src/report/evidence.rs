//! What lets a reader judge the figures: how the schedule was kept, and whether the instrument or the
//! server was measured.

use serde::{Deserialize, Serialize};

use crate::record::{Latency, Paced, Total};
use crate::run::ns;

/// How the schedule of an open loop was kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Open {
    /// Calls that were due: those begun and those missed.
    pub calls_due: u64,
    /// Calls that never began: as many as allowed were in flight until the end. They are in no
    /// other figure.
    pub calls_missed: u64,
    /// Calls begun more than 1 ms after their intended start.
    pub calls_late: u64,
    /// The part of the calls begun that these are, 0 to 1.
    pub late_share: f64,
    /// The longest time from an intended start to the actual one, in nanoseconds.
    pub lateness_max_ns: u64,
    /// Median time from the intended start to the actual one of calls that did not wait for others
    /// to end, in nanoseconds: what the generator's clock and core are good for.
    pub pacing_error_p50_ns: Option<u64>,
    /// Its 99th percentile.
    pub pacing_error_p99_ns: Option<u64>,
    /// Latency from the actual start: what a closed loop would have seen of the same calls.
    pub latency_raw: Latency,
    /// Its histogram, in the form of [`super::Results::latency_histogram`].
    pub latency_raw_histogram: String,
}

impl Open {
    #[allow(clippy::cast_precision_loss, reason = "a report needs three digits")]
    pub(crate) fn of(total: &Total, paced: &Paced) -> Self {
        Self {
            calls_due: total.sent + paced.missed,
            calls_missed: paced.missed,
            calls_late: paced.late,
            late_share: paced.late as f64 / total.sent.max(1) as f64,
            lateness_max_ns: ns(paced.lateness_max),
            pacing_error_p50_ns: paced.pacing.quantile_ns(0.5),
            pacing_error_p99_ns: paced.pacing.quantile_ns(0.99),
            latency_raw: paced.raw.summary(),
            latency_raw_histogram: paced.raw.encode(),
        }
    }

    /// What the corrected figures show and the raw ones hide, in words.
    pub(crate) fn hidden(&self, corrected: &Latency) -> Option<String> {
        let raw = &self.latency_raw;
        let pairs = [
            ("p50", corrected.p50_ns, raw.p50_ns),
            ("p90", corrected.p90_ns, raw.p90_ns),
            ("p99", corrected.p99_ns, raw.p99_ns),
        ];
        let (name, from_intended, from_sent) =
            pairs.into_iter().find_map(|(name, corrected, raw)| {
                Some((name, corrected?, raw?)).filter(|(_, corrected, raw)| *corrected > 2 * raw)
            })?;
        let time = |ns| super::terminal::time(super::terminal::ns(Some(ns)));
        Some(format!(
            "Counted from the intended start, {name} is {}; from the actual start only {}: calls waited \
             to be sent while the server held up those before them, which raw figures hide.",
            time(from_intended),
            time(from_sent)
        ))
    }
}
