//! What was measured, as data: the documents that are written and read, and what is in them.
//!
//! Every field carries its unit in its name. `None` (`null`, `n/a`) means not measured or too few
//! samples, never zero.
//!
//! * `report`      — everything that one command measured; `file` reads it back.
//! * `run`         — one measurement: what was asked for, of what, and the figures.
//! * `latency`, `errors`, `resources`, `trend` — the figures.
//! * `evidence`    — what lets a reader judge them; `ratio` — target by floor.
//! * `load`        — the load of a run; `shape` — of an open loop; `words` — how it is told.
//! * `kinds`       — what fields of one word may say.
//! * `ladder`, `limit`, `cold` — what else came of it.
//! * `contest`     — targets that were measured in turns, compared by `metric`.
//! * `environment` — the machine.

mod cold;
mod contest;
mod environment;
mod errors;
mod evidence;
mod file;
mod kinds;
mod ladder;
mod latency;
mod limit;
mod load;
mod metric;
mod ratio;
mod report;
mod resources;
mod run;
pub mod shape;
mod trend;
mod words;

pub use cold::{ColdStart, Spread};
use contest::COMPARE_SCHEMA;
pub use contest::{Comparison, Contest, Role, Side, Verdict};
pub use environment::{Binary, Environment};
pub use errors::Errors;
pub use evidence::{Headroom, Limit, Little, Open, Second, Warmup};
pub use file::{Counts, File, Unread, campaign, text};
pub use kinds::{Checking, Era, LoadUnit, Loop, Transport};
pub use ladder::{Ladder, Step};
pub(crate) use latency::QUANTILES;
pub use latency::{Latencies, Latency, samples_min};
pub use limit::{Checked, Found, Probe};
pub use load::{Arrivals, Spacing, Think};
pub use metric::Metric;
pub use ratio::{Ratio, Ratios};
pub use report::{Measured, Missing, Report, SCHEMA};
pub use resources::{ResourceSecond, Resources};
pub use run::{
    Knobs, MixedCall, PlanInfo, Results, Run, Slice, Sockets, StartInfo, TargetInfo, ToolResults,
};
pub use shape::{DURATION_MAX, RATE_PER_S_MAX, Shape};
pub use trend::{Drifting, Series};
pub(crate) use words::Words;

#[cfg(test)]
pub(crate) mod tests;
