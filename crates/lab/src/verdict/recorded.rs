//! Result files as `compare` and `gate` see them: groups of runs that measured the same.

use std::collections::BTreeMap;
use thiserror::Error;

use super::Facts;
use crate::results::{Counts, File, Found, Latency, Metric, Run, Series, Slice, Words};
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
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recorded(File);

/// A file that is not a result.
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
    runs: Vec<&'a Run>,
}

impl Recorded {
    /// Reads a file's text.
    ///
    /// # Errors
    /// [`RecordedError`] says what is missing.
    pub fn parse(json: &str) -> Result<Self, RecordedError> {
        let read = File::parse(json).map_err(|why| RecordedError(why.to_string()))?;
        let read = Self(read);
        if let Some(by) = read.runs().iter().find_map(|run| run.profiled.as_ref()) {
            let why = format!("it was measured under {by}, which makes it no result");
            return Err(RecordedError(why));
        }
        let of_runs = read.runs().iter().flat_map(Run::counts);
        if let Some((name, count)) = read.counts().chain(of_runs).find(|(_, count)| *count < 0.0) {
            return Err(RecordedError(format!("{name} is {count}, and no count is below zero")));
        }
        Ok(read)
    }

    fn runs(&self) -> &[Run] {
        if let File::Report(report) = &self.0 { &report.runs } else { &[] }
    }

    fn limit(&self) -> Option<&Found> {
        if let File::Report(report) = &self.0 { report.limit() } else { None }
    }

    /// The counts of scenarios: a name and the figure.
    pub(super) fn counts(&self) -> impl Iterator<Item = (String, f64)> {
        let counts = if let File::Counts(counts) = &self.0 { Some(counts) } else { None };
        counts.into_iter().flat_map(Counts::all)
    }

    /// The search that the file is of, if it is of one.
    pub(super) fn search(&self) -> Option<Search<'_>> {
        let (found, run) = (self.limit()?, self.runs().first()?);
        let load = match &run.plan.arrivals {
            Some(arrivals) => run.plan.begun_at("limit", arrivals, Words::Exact),
            None => run.plan.load_in(Words::Exact),
        };
        Some(Search {
            name: format!("{} {load} {}", run.subject(), found.conditions),
            limit_per_s: found.limit_per_s,
            unfinished: found.unfinished.as_deref(),
        })
    }

    /// The runs that a baseline judges: not those of a search, whose rates are its own.
    pub(super) fn judged(&self) -> Vec<Group<'_>> {
        if self.limit().is_some() { Vec::new() } else { self.groups() }
    }

    /// The runs that assertions are about: of a search the one at the rate that holds, which is the
    /// first.
    pub(super) fn asserted(&self) -> Vec<Group<'_>> {
        let mut groups = self.groups();
        if let Some(found) = self.limit() {
            groups.truncate(found.limit_per_s.map_or(0, |_| 1));
        }
        groups
    }

    /// The runs, those of the same thing together, in the order of the file.
    #[must_use]
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for run in self.runs() {
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
        let of = |run: &&Run| {
            let results = &run.results;
            let cpu = results.resources.cpu_ns_per_call;
            metric.of(results.throughput_per_s, &results.latency, cpu)
        };
        self.runs.iter().filter_map(of).collect()
    }

    /// Values of a metric, one for each slice; none if one of them lacks it.
    #[must_use]
    pub fn of_slices(&self, metric: Metric) -> Vec<f64> {
        let of = |slice: &Slice| {
            let (p50_ns, p99_ns) = (slice.p50_ns, slice.p99_ns);
            let latency = Latency { p50_ns, p99_ns, ..Latency::default() };
            metric.of(slice.throughput_per_s, &latency, slice.cpu_ns_per_call)
        };
        let slices = self.runs.iter().flat_map(|run| &run.results.slices);
        slices.map(of).collect::<Option<_>>().unwrap_or_default()
    }

    /// The figures of each run, for assertions.
    #[must_use]
    pub fn facts(&self) -> Vec<Facts> {
        self.runs.iter().map(|run| Facts::from(*run)).collect()
    }

    /// Failed calls by calls that ended.
    pub(super) fn error_rate(&self) -> Option<f64> {
        let errors: u64 = self.runs.iter().map(|run| run.results.errors.total()).sum();
        let calls = errors + self.runs.iter().map(|run| run.results.calls_ok).sum::<u64>();
        (calls > 0).then(|| errors as f64 / calls as f64)
    }

    /// The median of the runs' greatest memory, in bytes.
    pub(super) fn rss_bytes(&self) -> Option<f64> {
        let all: Vec<_> = self
            .runs
            .iter()
            .filter_map(|run| run.results.resources.rss_bytes_max)
            .map(|n| n as f64)
            .collect();
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
        self.runs.first().map(|run| Run::counts(run).collect()).unwrap_or_default()
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

impl Run {
    /// Runs of one name measured the same: the seed of random arrivals is not in it.
    fn name(&self) -> String {
        format!("{} {}", self.subject(), self.plan.load_in(Words::Exact))
    }

    /// The server, its transport, and what is called: `echo`, or the kinds of a mix with their weights,
    /// `echo 3 + add 1`.
    fn subject(&self) -> String {
        let target = &self.target;
        let server = target.server.as_deref().unwrap_or(&target.target);
        let kinds = self.results.tools.iter();
        let kinds: Vec<_> = kinds.map(|tool| format!("{} {}", tool.name, tool.weight)).collect();
        let called = if kinds.is_empty() { self.plan.tool.clone() } else { kinds.join(" + ") };
        format!("{server} {} {called}", target.transport)
    }

    fn counts(&self) -> impl Iterator<Item = (String, f64)> {
        let target = &self.target;
        let bytes = [("call_bytes", target.call_bytes), ("result_bytes", target.result_bytes)];
        let bytes = bytes.into_iter().map(|(name, bytes)| (name.to_owned(), bytes as f64));
        self.counts.clone().into_iter().chain(bytes)
    }
}
