//! How a figure goes over the run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of one figure over the run, by [`crate::verdict::drift`].
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Drifting {
    /// Which figure, and by that its unit: calls per second, nanoseconds, bytes, or a count.
    pub metric: Series,
    /// Theil and Sen's slope in that unit per minute.
    pub slope_per_min: f64,
    /// Its 95 % interval.
    pub interval: [f64; 2],
    /// The slope by the median of the figure, as a fraction per minute.
    pub slope_relative_per_min: Option<f64>,
    /// The probability of such a trend by chance, by Mann and Kendall's test.
    pub p: f64,
    /// Whether a limit was passed.
    pub flagged: bool,
    /// Which ones, in words.
    pub why: Option<String>,
}

/// Which figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "the five that have limits")]
pub enum Series {
    /// Successful calls per second.
    Throughput,
    /// The 99th percentile in nanoseconds.
    P99,
    /// Resident memory in bytes.
    Rss,
    /// Open file descriptors.
    Fds,
    /// Threads.
    Threads,
}
