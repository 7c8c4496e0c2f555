//! What was measured, as data: the documents that are written and read, and what is in them.
//!
//! Every field carries its unit in its name. `None` (`null`, `n/a`) means not measured or too few
//! samples, never zero.
//!
//! * [`Report`]    — everything that one command measured (this file).
//! * `run`         — one measurement: what was asked for, of what, and the figures.
//! * `latency`, `errors`, `resources`, `trend` — the figures.
//! * `evidence`    — what lets a reader judge them; `ratio` — target by floor.
//! * `load`        — the load of a run.
//! * `kinds`       — what fields of one word may say.
//! * `ladder`, `limit`, `cold` — what else came of it.
//! * `contest`     — targets that were measured in turns, compared by `metric`.
//! * `environment` — the machine.

mod cold;
mod contest;
mod environment;
mod errors;
mod evidence;
mod kinds;
mod ladder;
mod latency;
mod limit;
mod load;
mod metric;
mod ratio;
mod resources;
mod run;
mod trend;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use cold::{ColdStart, Spread};
pub(crate) use contest::COMPARE_SCHEMA;
pub use contest::{Comparison, Contest, Role, Side, Verdict};
pub use environment::{Binary, Environment};
pub use errors::Errors;
pub use evidence::{Headroom, Limit, Little, Open, Second, Warmup};
pub use kinds::{Checking, Era, LoadUnit, Loop, Transport};
pub use ladder::{Ladder, Step};
pub(crate) use latency::QUANTILES;
pub use latency::{Latencies, Latency, samples_min};
pub use limit::{Checked, Found, Probe};
pub(crate) use load::Words;
pub use load::{Arrivals, Shape, Spacing, Think};
pub use metric::Metric;
pub use ratio::{Ratio, Ratios};
pub use resources::{ResourceSecond, Resources};
pub use run::{
    Knobs, MixedCall, PlanInfo, Results, Run, Slice, StartInfo, TargetInfo, ToolResults,
};
pub use trend::{Drifting, Series};

/// The format of the JSON that this version writes.
pub const SCHEMA: &str = "mcplane.bench/1";

/// Everything that one command measured.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The machine.
    pub environment: Environment,
    /// One entry for each measurement.
    pub runs: Vec<Run>,
    /// Whether the runs with the same load were measured together, slice by slice in turns, so that
    /// they may be compared with each other.
    #[serde(default)]
    pub together: bool,
    /// What was to be measured and could not be.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// What came of a ladder; its rungs are the runs.
    #[serde(default)]
    pub ladder: Option<Ladder>,
    /// The highest rate that holds; the runs are those at it and at the lowest that does not.
    #[serde(default)]
    pub limit: Option<Found>,
    /// What starting costs.
    #[serde(default)]
    pub cold_start: Option<ColdStart>,
    /// What became of the assertions about each run, in the order of the runs.
    #[serde(default)]
    pub asserted: Vec<Vec<Checked>>,
}

/// Something that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Missing {
    /// What: a transport and a revision.
    pub target: String,
    /// How many calls were to be in flight.
    pub concurrency: usize,
    /// Why not.
    pub why: String,
}

impl Report {
    /// A report of these runs.
    #[must_use]
    pub fn new(environment: Environment, runs: Vec<Run>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            environment,
            runs,
            together: false,
            missing: Vec::new(),
            ladder: None,
            limit: None,
            cold_start: None,
            asserted: Vec::new(),
        }
    }

    /// A report of runs that were measured together, and of what could not be.
    #[must_use]
    pub fn together(environment: Environment, runs: Vec<Run>, missing: Vec<Missing>) -> Self {
        Self { together: true, missing, ..Self::new(environment, runs) }
    }

    /// This and what a later report has.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        self.runs.extend(later.runs);
        self.missing.extend(later.missing);
        self
    }

    /// Whether all assertions hold; `None` if none fails and one cannot be told, a run was
    /// interrupted, or something could not be measured.
    #[must_use]
    pub fn holds(&self) -> Option<bool> {
        let mut all = self.asserted.iter().flatten().map(|checked| checked.holds);
        let whole = self.missing.is_empty() && !self.runs.iter().any(|run| run.interrupted);
        match all.clone().any(|holds| holds == Some(false)) {
            true => Some(false),
            false => (whole && all.all(|holds| holds.is_some())).then_some(true),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
