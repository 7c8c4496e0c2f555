//! What a ladder of loads came to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Errors, LoadUnit};
use crate::stats::Knee;

/// What came of a ladder.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ladder {
    /// What the loads are.
    pub load: LoadUnit,
    /// One for each run, in the same order: lightest first.
    pub rungs: Vec<Step>,
    /// How often each rung was measured, in turns upwards and downwards, so that a drift of the
    /// machine or the server is in all of them.
    pub visits: usize,
    /// Where more load stops giving more throughput; `None` if that was not reached.
    pub knee: Option<Knee>,
}

/// One load of a ladder.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Step {
    /// The load.
    pub load: f64,
    /// Successful calls per second.
    pub throughput_per_s: f64,
    /// Median latency in nanoseconds, from the intended start.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// Failures by kind.
    pub errors: Errors,
}
