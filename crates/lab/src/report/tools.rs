//! The figures of each tool of a mix.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load::Kind;
use crate::record::{Errors, Latency, PerTool};

/// The calls of one tool of a mix.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResults {
    /// The tool.
    pub name: String,
    /// Its weight beside the others.
    pub weight: f64,
    /// How its results were compared: `equal` to the first, `stamped` (equal to it but for the number
    /// of the call), `varies` (results differ with their arguments or by themselves, so that only
    /// ids and errors count), or `off`.
    pub check: String,
    /// Calls begun.
    pub calls_sent: u64,
    /// Calls that succeeded.
    pub calls_ok: u64,
    /// Failures by kind.
    pub errors: Errors,
    /// Latency of the successful calls, from their intended start.
    pub latency: Latency,
    /// Their histogram, in the form of [`super::Results::latency_histogram`].
    pub latency_histogram: String,
}

impl ToolResults {
    /// One for each kind of call, in the order of the plan.
    pub(crate) fn all(kinds: &[Kind], seen: &[PerTool]) -> Vec<Self> {
        let none = PerTool::default();
        let of = |(index, kind): (usize, &Kind)| {
            let seen = seen.get(index).unwrap_or(&none);
            Self {
                name: kind.tool.clone(),
                weight: kind.weight,
                check: kind.check.to_owned(),
                calls_sent: seen.sent,
                calls_ok: seen.latencies.count(),
                errors: seen.errors,
                latency: seen.latencies.summary(),
                latency_histogram: seen.latencies.encode(),
            }
        };
        kinds.iter().enumerate().map(of).collect()
    }
}
