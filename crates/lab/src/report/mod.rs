//! What a run says: one model for the terminal and for JSON.
//!
//! Every field carries its unit in its name. `None` (`null`, `n/a`) means not measured or too few
//! samples, never zero.
//!
//! * [`Report`] and what it holds — this file.
//! * `evidence` — what lets a reader judge the figures; `knobs` — what lets one repeat the run.
//! * `drift`    — whether figures change over the run.
//! * `terminal` — the text for people.
//! * `tools`    — the figures of each tool of a mix.
//! * `lines`    — runs on one line each; `open` — what only open loops have.
//! * `rungs`    — the same of a ladder, of a search for a limit, of assertions.
//! * `found`    — what these come to in sentences and tables, for every form.
//! * `table`    — the same of several targets that were measured in turns.
//! * `document` — result files, read back, as they are shown; `words` — what they say in sentences.
//! * `html`, `svg`, `markup` — one page with charts.
//! * `schema`   — the JSON Schema of results.
//! * `csv`, `erlmcp`, `junit`, `markdown`, `prometheus` — records for others to read.

mod csv;
mod document;
mod drift;
mod erlmcp;
mod evidence;
mod found;
mod html;
mod junit;
mod knobs;
mod lines;
mod markdown;
mod markup;
mod open;
mod prometheus;
mod rungs;
mod schema;
mod svg;
mod table;
pub(crate) mod terminal;
mod tools;
mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::environment::Binary;
pub use document::{Document, FILES_MAX, ReadError};
pub(crate) use document::{load, size};
pub use drift::Drifting;
pub use evidence::{Headroom, Limit, Little, Open, Second, Warmup};
pub use knobs::{Knobs, MixedCall};
pub use schema::schema;
#[cfg(test)]
pub(crate) use schema::tests::assert_published;
pub use terminal::Style;
pub use tools::ToolResults;

use crate::cold::ColdStart;
use crate::environment::Environment;
use crate::ladder::Ladder;
use crate::limit::Found;
use crate::load::{Arrivals, Think};
use crate::observe::{ResourceSecond, Resources};
use crate::record::{Errors, Latency};
use crate::verdict::{Assertions, Checked, Facts};

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

    /// The same, with assertions about each run.
    #[must_use]
    pub fn asserting(mut self, assertions: &Assertions) -> Self {
        if !assertions.is_empty() {
            let check = |run: &Run| assertions.check(&Facts::from(&run.results));
            self.asserted = self.runs.iter().map(check).collect();
        }
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

/// One measurement of one target.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Run {
    /// What was asked for.
    pub plan: PlanInfo,
    /// What was measured.
    pub target: TargetInfo,
    /// What starting it took.
    pub start: StartInfo,
    /// The target's figures.
    pub results: Results,
    /// The floor's figures from the same run, if it was measured.
    pub floor: Option<Results>,
    /// Target by floor.
    pub ratios: Option<Ratios>,
    /// Whether it was the server that was measured, or the generator.
    #[serde(default)]
    pub headroom: Option<Headroom>,
    /// Whether the target's figures drift; empty in a run of less than 30 intervals.
    #[serde(default)]
    pub drift: Vec<Drifting>,
    /// The profiler that the target ran under, if it did: then no figure here is a result.
    #[serde(default)]
    pub profiled: Option<String>,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Why the measurement ended early by itself, if it did.
    pub broken: Option<String>,
    /// What the reader should know about these figures.
    pub notes: Vec<String>,
}

impl Run {
    /// Whether every call succeeded and the run went to its end or to the user's.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.results.errors.total() == 0 && self.broken.is_none()
    }
}

/// What was asked for.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PlanInfo {
    /// `closed`: a call begins when another has ended; `open`: when it is meant to.
    pub load: String,
    /// When calls are meant to begin, in an open loop.
    #[serde(default)]
    pub arrivals: Option<Arrivals>,
    /// How long a user thinks between an answer and the next call, in a closed loop.
    #[serde(default)]
    pub think: Option<Think>,
    /// Calls in flight per session; in an open loop at most so many.
    pub concurrency: usize,
    /// Connections or processes.
    pub sessions: usize,
    /// Calls to make, if that ends the run.
    pub calls: Option<u64>,
    /// Time to measure, in nanoseconds, if that ends the run.
    pub duration_ns: Option<u64>,
    /// Calls thrown away before.
    pub warmup_calls: u64,
    /// Time limit of a call in nanoseconds.
    pub timeout_ns: u64,
    /// Slices in which target and floor alternate.
    pub slices: usize,
    /// How results were compared: `equal` to the first, `varies` (the tool gives different results
    /// by itself, so that only errors count), `mix` (each tool says how), or `off`.
    pub check: String,
    /// The core that generator and server were pinned to.
    pub pin: Option<usize>,
    /// The tool that was called.
    pub tool: String,
    /// Its arguments.
    pub args: serde_json::Value,
    /// Whether the lab chose the tool or built the arguments.
    pub chosen: bool,
    /// The kinds of calls of a mix, of which `tool` and `args` are the first.
    #[serde(default)]
    pub mix: Vec<MixedCall>,
    /// The rest.
    #[serde(default)]
    pub knobs: Option<Knobs>,
}

/// What was measured.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TargetInfo {
    /// The command line, the address, or the name of a server in this process.
    pub target: String,
    /// The file that a command's first word was found as; `None` for an address.
    #[serde(default)]
    pub binary: Option<Binary>,
    /// `stdio`, `memory`, `http`, `sse`, `ws`, `tcp` or `unix`.
    pub transport: String,
    /// The server's own name.
    pub server: Option<String>,
    /// The server's own version.
    pub version: Option<String>,
    /// The revision spoken.
    pub revision: String,
    /// The era of that revision.
    pub era: String,
    /// How many tools it lists.
    pub tools: usize,
    /// Bytes of one call: a line with its newline, an HTTP request with its head, the payload of a
    /// WebSocket frame.
    pub call_bytes: usize,
    /// Bytes of the result that was checked, without its envelope.
    pub result_bytes: usize,
}

/// What starting took, each figure from one observation.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StartInfo {
    /// From before the process was started, or connected to where it runs already, until the
    /// handshake was answered, in nanoseconds. A probe for the era is part of it.
    pub spawn_to_handshake_ns: u64,
    /// From the same moment until the first `tools/list` was answered.
    pub spawn_to_ready_ns: u64,
    /// The very first call of the tool.
    pub first_call_ns: u64,
}

/// The figures of one side.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Results {
    /// Calls begun.
    pub calls_sent: u64,
    /// Calls that succeeded.
    pub calls_ok: u64,
    /// Calls still in flight when the run was stopped: neither success nor error.
    pub calls_unfinished: u64,
    /// Failures by kind.
    pub errors: Errors,
    /// What the first failure looked like.
    pub first_failure: Option<String>,
    /// Measured time, in nanoseconds: from the first call of each slice to its last answer.
    pub wall_ns: u64,
    /// Successful calls per second of that time.
    pub throughput_per_s: f64,
    /// Calls in flight over that time, averaged.
    pub in_flight_mean: f64,
    /// Most calls in flight at once.
    pub in_flight_max: u64,
    /// Latency of the successful calls, from their intended start: in a closed loop, the actual one.
    pub latency: Latency,
    /// Their histogram: `HdrHistogram` V2, compressed, base64, values in nanoseconds.
    pub latency_histogram: String,
    /// How the schedule was kept, in an open loop.
    #[serde(default)]
    pub open: Option<Open>,
    /// What happened second by second.
    #[serde(default)]
    pub seconds: Vec<Second>,
    /// Whether calls in flight, rate and latency fit together.
    #[serde(default)]
    pub little: Option<Little>,
    /// The part of the measured time, 0 to 1, that the generator's thread was at work; waiting for
    /// an instant is not work.
    #[serde(default)]
    pub generator_cpu_share: Option<f64>,
    /// How the warm-up ended.
    #[serde(default)]
    pub warmup: Option<Warmup>,
    /// What the server's processes used.
    pub resources: Resources,
    /// The same second by second.
    #[serde(default)]
    pub resources_seconds: Vec<ResourceSecond>,
    /// The slices that it was measured in.
    pub slices: Vec<Slice>,
    /// Each kind of call by itself, in a mix.
    #[serde(default)]
    pub tools: Vec<ToolResults>,
}

/// One slice of one side.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Slice {
    /// Calls that succeeded.
    pub calls_ok: u64,
    /// Measured time in nanoseconds.
    pub wall_ns: u64,
    /// Successful calls per second.
    pub throughput_per_s: f64,
    /// Median latency in nanoseconds.
    pub p50_ns: Option<u64>,
    /// 99th percentile in nanoseconds.
    pub p99_ns: Option<u64>,
    /// CPU of the processes per call, in nanoseconds.
    pub cpu_ns_per_call: Option<f64>,
}

/// Target divided by floor.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ratios {
    /// Of the throughputs: more is better.
    pub throughput: Option<Ratio>,
    /// Of the medians: less is better.
    pub p50: Option<Ratio>,
    /// Of the 99th percentiles: less is better.
    pub p99: Option<Ratio>,
    /// Of the CPU time per call: less is better.
    pub cpu_per_call: Option<Ratio>,
}

/// A ratio, and how far it moved between pairs of slices.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ratio {
    /// Over the whole run: the figure of the target by the figure of the floor.
    pub whole: f64,
    /// The median over pairs of neighbouring slices, which one disturbed slice does not move.
    pub median: Option<f64>,
    /// The least of any pair.
    pub min: Option<f64>,
    /// The greatest of any pair.
    pub max: Option<f64>,
}

impl Ratio {
    /// The figure to quote: the median where there is one.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.median.unwrap_or(self.whole)
    }

    fn of(whole: f64, mut pairs: Vec<f64>) -> Self {
        pairs.sort_by(f64::total_cmp);
        let at = |index: usize| pairs.get(index).copied();
        let middle = pairs.len() / 2;
        let median = match pairs.len() {
            0 => None,
            len if len % 2 == 1 => at(middle),
            _ => at(middle - 1).zip(at(middle)).map(|(a, b)| f64::midpoint(a, b)),
        };
        Self { whole, median, min: at(0), max: pairs.last().copied() }
    }
}

impl Ratios {
    pub(crate) fn of(target: &Results, floor: &Results) -> Self {
        let pairs: Vec<_> = target.slices.iter().zip(&floor.slices).collect();
        let ratio = |whole: Option<f64>, part: fn(&Slice, &Slice) -> Option<f64>| {
            let parts = pairs.iter().filter_map(|(a, b)| part(a, b)).collect();
            whole.map(|whole| Ratio::of(whole, parts))
        };
        let some = |value: f64| Some(value);
        Self {
            throughput: ratio(
                divide(some(target.throughput_per_s), some(floor.throughput_per_s)),
                |a, b| divide(Some(a.throughput_per_s), Some(b.throughput_per_s)),
            ),
            p50: ratio(by(target.latency.p50_ns, floor.latency.p50_ns), |a, b| {
                by(a.p50_ns, b.p50_ns)
            }),
            p99: ratio(by(target.latency.p99_ns, floor.latency.p99_ns), |a, b| {
                by(a.p99_ns, b.p99_ns)
            }),
            cpu_per_call: ratio(
                divide(target.resources.cpu_ns_per_call, floor.resources.cpu_ns_per_call),
                |a, b| divide(a.cpu_ns_per_call, b.cpu_ns_per_call),
            ),
        }
    }
}

fn divide(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b)
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn by(a: Option<u64>, b: Option<u64>) -> Option<f64> {
    divide(a.map(|ns| ns as f64), b.map(|ns| ns as f64))
}

#[cfg(test)]
pub(crate) mod tests;
