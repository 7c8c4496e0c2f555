//! What a search for the highest rate that holds came to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a search came to.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Found {
    /// The conditions, as they were written.
    pub conditions: String,
    /// The highest rate that held, in calls per second; `None` if none did. Of random arrivals this
    /// and every other rate is that of the calls that were due.
    pub limit_per_s: Option<f64>,
    /// The lowest rate that did not, in calls per second; `None` if all did.
    pub fails_at_per_s: Option<f64>,
    /// The conditions that failed there, with what was measured.
    pub failed: Vec<Checked>,
    /// Why the search ended before the two were within 3 %, if it did.
    pub unfinished: Option<String>,
    /// Every probe, in order.
    pub probes: Vec<Probe>,
}

/// One measurement at one rate.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Probe {
    /// Calls per second.
    pub rate_per_s: f64,
    /// How long calls were begun for, in nanoseconds.
    pub duration_ns: u64,
    /// Whether every condition held; `None` if one cannot be told.
    pub holds: Option<bool>,
    /// Each condition, and at the end that the server kept up.
    pub checked: Vec<Checked>,
}

/// What became of one limit.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Checked {
    /// The assertion as it was written.
    pub text: String,
    /// What was measured, with its unit; `n/a` if it was not, or from too few samples.
    pub measured: String,
    /// Whether it holds; `None` if that cannot be told.
    pub holds: Option<bool>,
}
