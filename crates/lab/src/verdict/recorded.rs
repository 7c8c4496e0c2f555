//! Result files as `compare` and `gate` read them: only what they need, so that a file of an older
//! or newer version is still read.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

use super::Facts;
use crate::results::{Arrivals, Latency, Metric, Series, Shape, Spacing, Think};
use crate::stats::{Interval, LEVEL, median, normal_quantile, ratio_unpaired};

/// Fewest runs, or slices of a run, that make an interval.
const SAMPLES_MIN: usize = 3;

/// What two files lack when [`Group::ratio`] gives no interval.
pub const TOO_FEW: &str = "too few samples: it takes three runs that have the figure, or one of three \
    slices or more that do (an open loop of 15 s has three)";

/// What a run is taken to differ by from the next one of the same program, as a fraction, where there
/// is but one of each.
pub const RUN_NOISE: f64 = 0.04;

/// A result file: of `bench --json` or `compare --json`, or counts by themselves.
#[derive(Clone, Debug, Default, Deserialize)]
#[non_exhaustive]
pub struct Recorded {
    #[serde(default)]
    runs: Vec<RecordedRun>,
    /// Of a search for the highest rate that holds, what it came to; the runs are its evidence.
    limit: Option<RecordedLimit>,
    /// Counts of scenarios that are the same at every run: by kind (`instructions`, `allocations`,
    /// `syscalls`, `bytes`), then by scenario.
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Counts {
    #[serde(default)]
    instructions: BTreeMap<String, f64>,
    #[serde(default)]
    allocations: BTreeMap<String, f64>,
    #[serde(default)]
    syscalls: BTreeMap<String, f64>,
    #[serde(default)]
    bytes: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedLimit {
    conditions: String,
    limit_per_s: Option<f64>,
    unfinished: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedRun {
    plan: RecordedPlan,
    target: RecordedTarget,
    results: RecordedResults,
    /// Figures per call that are the same at every run.
    #[serde(default)]
    counts: BTreeMap<String, f64>,
    #[serde(default)]
    interrupted: bool,
    broken: Option<String>,
    #[serde(default)]
    profiled: Option<String>,
    #[serde(default)]
    drift: Vec<RecordedDrift>,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedDrift {
    metric: Series,
    slope_per_min: f64,
    flagged: bool,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedPlan {
    concurrency: u64,
    sessions: u64,
    tool: String,
    #[serde(default)]
    arrivals: Option<Arrivals>,
    #[serde(default)]
    think: Option<Think>,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedTarget {
    target: String,
    transport: String,
    server: Option<String>,
    call_bytes: Option<f64>,
    result_bytes: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedResults {
    calls_ok: u64,
    errors: BTreeMap<String, u64>,
    throughput_per_s: f64,
    latency: Latency,
    #[serde(default)]
    resources: RecordedResources,
    #[serde(default)]
    slices: Vec<RecordedSlice>,
    /// Of a mix, each kind of call.
    #[serde(default)]
    tools: Vec<RecordedTool>,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedTool {
    name: String,
    weight: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct RecordedResources {
    cpu_ns_per_call: Option<f64>,
    rss_bytes_max: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedSlice {
    throughput_per_s: f64,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p95_ns: Option<u64>,
    p99_ns: Option<u64>,
    p99_9_ns: Option<u64>,
    cpu_ns_per_call: Option<f64>,
}

/// A file that is no result.
#[derive(Debug, Error)]
#[error("not a result of bench or compare, nor counts: {0}")]
#[non_exhaustive]
pub struct RecordedError(String);

/// A search for the highest rate that holds.
#[derive(Clone, Debug)]
pub(super) struct Search<'a> {
    /// The server, its transport, the tool or the mix, the conditions.
    pub(super) name: String,
    /// What it found, in calls per second.
    pub(super) limit_per_s: Option<f64>,
    /// Why it ended early, if it did.
    pub(super) unfinished: Option<&'a str>,
}

/// Runs of one file that measured the same thing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Group<'a> {
    /// The server, its transport, the tool or the mix, the load.
    pub name: String,
    target: &'a str,
    runs: Vec<&'a RecordedRun>,
}

impl Recorded {
    /// Reads a file's text.
    ///
    /// # Errors
    /// [`RecordedError`] says what is missing.
    pub fn parse(json: &[u8]) -> Result<Self, RecordedError> {
        let read: Self =
            serde_json::from_slice(json).map_err(|error| RecordedError(error.to_string()))?;
        if let Some(by) = read.runs.iter().find_map(|run| run.profiled.as_ref()) {
            let why = format!("it was measured under {by}, which makes it no result");
            return Err(RecordedError(why));
        }
        if read.runs.is_empty() && read.counts().next().is_none() {
            return Err(RecordedError("it has neither `runs` nor `instructions`".to_owned()));
        }
        let of_runs = read.runs.iter().flat_map(RecordedRun::counts);
        if let Some((name, count)) = read.counts().chain(of_runs).find(|(_, count)| *count < 0.0) {
            return Err(RecordedError(format!("{name} is {count}, and no count is below zero")));
        }
        Ok(read)
    }

    /// The counts of scenarios: a name and the figure.
    pub(super) fn counts(&self) -> impl Iterator<Item = (String, f64)> {
        let Counts { instructions, allocations, syscalls, bytes } = &self.counts;
        let kinds = [
            ("instructions", instructions),
            ("allocations", allocations),
            ("syscalls", syscalls),
            ("bytes", bytes),
        ];
        kinds.into_iter().flat_map(|(kind, counts)| {
            counts.iter().map(move |(name, count)| (format!("{kind} of {name}"), *count))
        })
    }

    /// The search that the file is of, if it is of one.
    pub(super) fn search(&self) -> Option<Search<'_>> {
        let (limit, run) = (self.limit.as_ref()?, self.runs.first()?);
        let spacing = run.plan.arrivals.map(|arrivals| arrivals.spacing).unwrap_or_default();
        let load = run.plan.begun_at("limit", spacing);
        Some(Search {
            name: format!("{} {load} {}", run.subject(), limit.conditions),
            limit_per_s: limit.limit_per_s,
            unfinished: limit.unfinished.as_deref(),
        })
    }

    /// The runs that a baseline judges: none of a search, whose rates are its own.
    pub(super) fn judged(&self) -> Vec<Group<'_>> {
        if self.limit.is_some() { Vec::new() } else { self.groups() }
    }

    /// The runs that assertions are about: of a search the one at the rate that holds, which is the
    /// first.
    pub(super) fn asserted(&self) -> Vec<Group<'_>> {
        let mut groups = self.groups();
        if let Some(limit) = &self.limit {
            groups.truncate(limit.limit_per_s.map_or(0, |_| 1));
        }
        groups
    }

    /// The runs, those of the same thing together, in the order of the file.
    #[must_use]
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for run in &self.runs {
            let (name, target) = (run.name(), run.target.target.as_str());
            match groups.iter_mut().find(|group| group.name == name && group.target == target) {
                Some(group) => group.runs.push(run),
                None => groups.push(Group { name, target, runs: vec![run] }),
            }
        }
        groups
    }
}

impl<'a> Group<'a> {
    /// The group of another file that measured the same: with the same command or address if there
    /// is one, or else the only one of that name.
    #[must_use]
    pub fn counterpart<'b>(&self, others: &'b [Self]) -> Option<&'b Self> {
        let mut same = others.iter().filter(|other| other.name == self.name);
        let exact = same.clone().find(|other| other.target == self.target);
        exact.or_else(|| same.next().filter(|_| same.next().is_none()))
    }

    /// What the figure of `b` is, divided by that of this group, and what the interval is over: runs
    /// where there are three, or else slices, with [`RUN_NOISE`] added: slices of one run do not show
    /// what the next run would have differed by. `None` if there is no interval.
    #[must_use]
    pub fn ratio(&self, b: &Self, metric: Metric) -> Option<(Interval, &'static str)> {
        let enough = |a: &[f64], b: &[f64]| a.len().min(b.len()) >= SAMPLES_MIN;
        let (of_a, of_b) = (self.of_runs(metric), b.of_runs(metric));
        if enough(&of_a, &of_b) {
            return Some((ratio_unpaired(&of_a, &of_b, LEVEL)?, "runs"));
        }
        let over_slices = |metric| {
            let (a, b) = (self.of_slices(metric), b.of_slices(metric));
            enough(&a, &b).then(|| ratio_unpaired(&a, &b, LEVEL))?.map(apart)
        };
        if let Some(ratio) = over_slices(metric) {
            return Some((ratio, "slices"));
        }
        // Slices may lack a percentile that moves no more than one farther out, which they have.
        if !matches!(metric, Metric::P90 | Metric::P95) {
            return None;
        }
        let value = median(&of_b)? / median(&of_a)?;
        let beyond = over_slices(Metric::P99)?;
        let (low, high) = (value * beyond.low / beyond.value, value * beyond.high / beyond.value);
        Some((Interval { value, low, high }, "slices, by p99"))
    }

    /// Values of a metric, one for each run that has it.
    #[must_use]
    pub fn of_runs(&self, metric: Metric) -> Vec<f64> {
        let of = |run: &&RecordedRun| {
            let results = &run.results;
            let cpu = results.resources.cpu_ns_per_call;
            metric.of(results.throughput_per_s, &results.latency, cpu)
        };
        self.runs.iter().filter_map(of).collect()
    }

    /// Values of a metric, one for each slice; none if one of them lacks it.
    #[must_use]
    pub fn of_slices(&self, metric: Metric) -> Vec<f64> {
        let of = |slice: &RecordedSlice| {
            let latency = Latency {
                p50_ns: slice.p50_ns,
                p90_ns: slice.p90_ns,
                p95_ns: slice.p95_ns,
                p99_ns: slice.p99_ns,
                p99_9_ns: slice.p99_9_ns,
                ..Latency::default()
            };
            metric.of(slice.throughput_per_s, &latency, slice.cpu_ns_per_call)
        };
        let slices = self.runs.iter().flat_map(|run| &run.results.slices);
        slices.map(of).collect::<Option<_>>().unwrap_or_default()
    }

    /// The figures of each run, for assertions.
    #[must_use]
    pub fn facts(&self) -> Vec<Facts> {
        self.runs.iter().map(|run| run.facts()).collect()
    }

    /// Failed calls by calls that ended.
    pub(super) fn error_rate(&self) -> Option<f64> {
        let errors: u64 = self.runs.iter().map(|run| run.errors()).sum();
        let calls = errors + self.runs.iter().map(|run| run.results.calls_ok).sum::<u64>();
        (calls > 0).then(|| errors as f64 / calls as f64)
    }

    /// The median of the runs' greatest memory, in bytes.
    pub(super) fn rss_bytes(&self) -> Option<f64> {
        let all: Vec<_> =
            self.runs.iter().filter_map(|run| run.results.resources.rss_bytes_max).collect();
        median(&all)
    }

    /// How memory drifts in the run where it does most, in bytes per minute, and whether that is a
    /// leak; `None` for runs that were too short to tell.
    pub(super) fn leak(&self) -> Option<(f64, bool)> {
        let all = self.runs.iter().flat_map(|run| &run.drift);
        let rss = all.filter(|drift| drift.metric == Series::Rss);
        rss.map(|drift| (drift.slope_per_min, drift.flagged))
            .max_by(|(a, _), (b, _)| a.total_cmp(b))
    }

    /// Figures that are the same at every run.
    pub(super) fn counts(&self) -> BTreeMap<String, f64> {
        self.runs.first().map(|run| run.counts()).unwrap_or_default()
    }

    /// Whether a run was interrupted.
    pub(super) fn is_interrupted(&self) -> bool {
        self.runs.iter().any(|run| run.interrupted)
    }

    /// Why a run ended early by itself.
    pub(super) fn broken(&self) -> Option<&'a str> {
        self.runs.iter().find_map(|run| run.broken.as_deref())
    }
}

/// Widens an interval by the noise between two runs.
fn apart(ratio: Interval) -> Interval {
    let noise = normal_quantile(f64::midpoint(1.0, LEVEL)) * 2.0_f64.sqrt() * RUN_NOISE;
    let Interval { value, low, high } = ratio.map(f64::ln);
    Interval {
        value,
        low: value - noise.hypot(value - low),
        high: value + noise.hypot(high - value),
    }
    .map(f64::exp)
}

impl RecordedPlan {
    /// `×32` calls in flight, and how long a user thinks before each; in an open loop when calls
    /// begin, and how many at most: `@1000/s ≤1024`.
    fn load(&self) -> String {
        let time = Duration::from_nanos;
        let think = match self.think {
            None => String::new(),
            Some(Think { mean_ns, exponential: false }) => format!(" think {:?}", time(mean_ns)),
            Some(Think { mean_ns, exponential: true }) => format!(" think ~{:?}", time(mean_ns)),
        };
        let Some(Arrivals { shape, spacing, .. }) = self.arrivals else {
            return format!("×{}{think}", self.in_flight());
        };
        let shape = match shape {
            Shape::Rate { per_s } => format!("{per_s}/s"),
            Shape::Ramp { from_per_s, to_per_s } => format!("{from_per_s}..{to_per_s}/s"),
            Shape::Burst { calls, every_ns } => format!("{calls}/{:?}", time(every_ns)),
        };
        self.begun_at(&shape, spacing)
    }

    /// The load of an open loop.
    fn begun_at(&self, shape: &str, spacing: Spacing) -> String {
        let spacing = match spacing {
            Spacing::Constant => "",
            Spacing::Poisson => " poisson",
        };
        format!("@{shape}{spacing} ≤{}", self.in_flight())
    }

    const fn in_flight(&self) -> u64 {
        self.concurrency.saturating_mul(self.sessions)
    }
}

impl RecordedRun {
    /// Runs of one name measured the same: the seed of random arrivals is not in it.
    fn name(&self) -> String {
        format!("{} {}", self.subject(), self.plan.load())
    }

    /// The server, its transport, and what is called.
    fn subject(&self) -> String {
        let target = &self.target;
        let server = target.server.as_deref().unwrap_or(&target.target);
        format!("{server} {} {}", target.transport, self.called())
    }

    /// `echo`, or the kinds of a mix with their weights: `echo 3 + add 1`.
    fn called(&self) -> String {
        let kinds = self.results.tools.iter();
        let kinds: Vec<_> = kinds.map(|tool| format!("{} {}", tool.name, tool.weight)).collect();
        if kinds.is_empty() { self.plan.tool.clone() } else { kinds.join(" + ") }
    }

    fn counts(&self) -> BTreeMap<String, f64> {
        let (target, mut counts) = (&self.target, self.counts.clone());
        let bytes = [("call_bytes", target.call_bytes), ("result_bytes", target.result_bytes)];
        counts.extend(bytes.into_iter().filter_map(|(name, n)| Some((name.to_owned(), n?))));
        counts
    }

    fn errors(&self) -> u64 {
        self.results.errors.values().sum()
    }

    fn facts(&self) -> Facts {
        let results = &self.results;
        Facts {
            throughput_per_s: Some(results.throughput_per_s),
            latency: results.latency.clone(),
            errors: self.errors(),
            calls: results.calls_ok + self.errors(),
            rss_bytes: results.resources.rss_bytes_max,
            cpu_ns_per_call: results.resources.cpu_ns_per_call,
        }
    }
}
