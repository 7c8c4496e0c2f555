//! What lets a reader judge the figures: how the schedule was kept, and whether the instrument or the
//! server was measured.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Errors, Latency, Run, Transport};
use crate::text;

/// How the schedule of an open loop was kept.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Open {
    /// Calls that were due: those begun and those missed.
    pub calls_due: u64,
    /// Calls that never began: as many as allowed were in flight until the end. They are in no
    /// other figure.
    pub calls_missed: u64,
    /// Calls that were due while as many as allowed were in flight, and began later.
    #[serde(default)]
    pub calls_blocked: u64,
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
    /// Calls that were due per second: of random arrivals a few more or fewer than their rate.
    #[allow(clippy::cast_precision_loss, reason = "a rate needs three digits")]
    pub(crate) fn due_per_s(&self, length: Duration) -> f64 {
        self.calls_due as f64 / length.as_secs_f64().max(1e-9)
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
        let why = if 2 * self.calls_blocked >= self.calls_late {
            "calls waited to be sent while the server held up those before them"
        } else {
            "calls began late though there was room for them: this machine was busy"
        };
        let time = |ns| text::time(text::ns(Some(ns)));
        Some(format!(
            "Counted from the intended start, {name} is {}; from the actual start only {}: {why}, which \
             raw figures hide.",
            time(from_intended),
            time(from_sent)
        ))
    }
}

/// How the warm-up ended.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Warmup {
    /// Calls that succeeded and were thrown away.
    pub calls_ok: u64,
    /// How long it took, in nanoseconds.
    pub wall_ns: u64,
    /// Whether latencies showed no trend at its end; `None` if it was too short to tell.
    pub steady: Option<bool>,
}

/// One interval of the measured time of a side, its slices joined end to end.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Second {
    /// When it began, in nanoseconds of measured time.
    pub start_ns: u64,
    /// How long it was, in nanoseconds: a second, or 2, 4, … in a run of more than 600, 1,200, …
    /// seconds, or of fewer with very many different latencies. The last one is cut off by the end.
    pub length_ns: u64,
    /// Calls that succeeded in it.
    pub calls_ok: u64,
    /// Failures by kind.
    pub errors: Errors,
    /// Median latency in nanoseconds of the calls that ended in it.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// Their histogram, in the form of [`super::Results::latency_histogram`]. The sum over the run
    /// is that one.
    pub latency_histogram: String,
}

/// Little's law (1961), which holds for any server: calls in flight = rate × time in flight. What is
/// seen of the two sides comes from different counters, so that a ratio far from 1 means that the
/// instrument is wrong.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Little {
    /// Calls in flight, averaged over the measured time.
    pub in_flight_mean: f64,
    /// Calls per second × their mean time in flight, from the actual start; those that failed with
    /// the time until they did.
    pub rate_times_latency: f64,
    /// The first by the second; `None` if nothing was in flight.
    pub ratio: Option<f64>,
}

/// The part of the generator's own limit above which a result is marked.
const BOUND: f64 = 0.7;

/// How much of what the generator itself can do the run used.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Headroom {
    /// What it was measured by.
    pub by: Limit,
    /// The part of the limit that was used: 1 is all of it.
    pub utilisation: f64,
    /// Whether that is more than 0.70: the figures then say as much about the generator as about
    /// the server.
    pub generator_bound: bool,
}

/// What the generator's limit is measured by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// The rate that the floor reached under the same load (closed loop).
    Floor,
    /// The time that the generator's thread was busy, of the measured time (open loop, or no floor).
    Cpu,
}

impl Headroom {
    pub(crate) fn of(run: &Run) -> Option<Self> {
        let by_floor = run.ratios.and_then(|ratios| ratios.throughput).map(|ratio| ratio.value());
        let (by, utilisation) = match (by_floor, run.plan.arrivals) {
            (Some(ratio), None) => (Limit::Floor, ratio),
            // A server on the generator's thread is busy there, too.
            _ if run.target.transport == Transport::Memory => return None,
            _ => (Limit::Cpu, run.results.generator_cpu_share?),
        };
        Some(Self { by, utilisation, generator_bound: utilisation > BOUND })
    }

    /// The sentence about it.
    pub(crate) fn text(&self) -> String {
        let of = match self.by {
            Limit::Floor => "of the rate that the floor reached",
            Limit::Cpu => "of the generator's time",
        };
        let used = format!("{:.0} % {of} was used", 100.0 * self.utilisation);
        match self.generator_bound {
            true => format!(
                "generator-bound: {used}, more than 70 %: these figures say as much about the generator \
                 as about the server"
            ),
            false => used,
        }
    }
}
