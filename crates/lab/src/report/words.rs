//! A result in sentences: what was measured, how fast it is, and whether the figures may be trusted.

use super::document::{Document, File};
use super::found::outcome;
use crate::results::{Checking, Metric, Role, Run, Shape, Side, Slice, Verdict};
use crate::text::{count, digits, ns, rate, short, time};

/// Above this part of its own limit the generator limits the figures as much as the server does.
const GENERATOR_BOUND: f64 = 0.7;

/// Slices or seconds whose throughput differs more than this from their median are not steady.
const STEADY: f64 = 0.25;

/// Calls begun late, as a part of all, that a schedule may have.
const LATE: f64 = 0.01;

/// How far Little's law may be off.
const LITTLE: f64 = 0.05;

/// Most runs that a sentence names.
const NAMED_MAX: usize = 3;

/// Most notes, and most targets that are missing, that are told.
const TOLD_MAX: usize = 16;

/// How a sentence is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Fact,
    Good,
    Doubt,
    Bad,
}

/// One sentence of the summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    pub(super) mood: Mood,
    pub(super) text: String,
}

/// What may speak against runs: how much, which runs, and in which words. The words have the limits below.
type Doubt = (Mood, fn(&Run) -> bool, &'static str);

const DOUBTS: [Doubt; 10] = [
    (Mood::Bad, |run| run.broken.is_some(), "Broken off early"),
    (Mood::Doubt, |run| run.interrupted, "Interrupted, these are the results so far"),
    (
        Mood::Doubt,
        is_bound,
        "Generator-bound, more than 70 % of what the generator itself can do was used, so that the figures \
         say as much about it as about the server",
    ),
    (
        Mood::Doubt,
        |run| !is_steady(&run.results.slices),
        "Not steady, a part's throughput is more than 25 % off the median",
    ),
    (
        Mood::Bad,
        |run| run.results.open.as_ref().is_some_and(|open| open.calls_missed > 0),
        "The schedule was missed, calls were due and never began, because as many as allowed were in flight",
    ),
    (
        Mood::Doubt,
        |run| run.results.open.as_ref().is_some_and(|open| open.late_share > LATE),
        "More than 1 % of the calls began late, which the latencies include",
    ),
    (
        Mood::Bad,
        is_unlawful,
        "Little's law does not hold, calls in flight are not rate × latency, so that the instrument is wrong",
    ),
    (
        Mood::Doubt,
        |run| run.results.warmup.is_some_and(|warmup| warmup.steady == Some(false)),
        "Latencies still had a trend when the warm-up ended",
    ),
    (
        Mood::Doubt,
        |run| run.drift.iter().any(|drifting| drifting.flagged),
        "Something drifts over the run; the data say what, and how fast",
    ),
    (Mood::Bad, |run| run.profiled.is_some(), "Measured under a profiler, which slows everything"),
];

impl Document {
    /// The summary.
    pub(super) fn words(&self) -> Vec<Sentence> {
        let mut said = Vec::new();
        let mut say = |mood, text: String| said.push(Sentence { mood, text });
        for file in &self.files {
            if !file.report.runs.is_empty() || file.report.cold_start().is_none() {
                say(Mood::Fact, measured(file));
            }
            file.found().into_iter().for_each(|(mood, text)| say(mood, text));
            for side in file.report.sides() {
                if let Some((mood, text)) = compared(side, file) {
                    say(mood, text);
                }
            }
        }
        if let Some(text) = self.fastest() {
            say(Mood::Fact, text);
        }
        if let Some((mood, text)) = self.errors() {
            say(mood, text);
        }
        for (mood, text) in self.doubts() {
            say(mood, text);
        }
        for file in &self.files {
            for missing in file.report.missing.iter().take(TOLD_MAX) {
                let why = short(&missing.why, 300);
                let what = format!("{}, {} in flight", missing.target, missing.concurrency);
                say(Mood::Bad, format!("{what} could not be measured: {why}"));
            }
        }
        let mut notes: Vec<_> = self.runs().flat_map(|(_, _, run)| &run.notes).collect();
        notes.sort_unstable();
        notes.dedup();
        notes.into_iter().take(TOLD_MAX).for_each(|note| say(Mood::Doubt, short(note, 600)));
        said
    }

    fn fastest(&self) -> Option<String> {
        let (name, _, run) = self.runs().max_by(|(_, _, a), (_, _, b)| {
            a.results.throughput_per_s.total_cmp(&b.results.throughput_per_s)
        })?;
        let results = &run.results;
        let floor = run.ratios.and_then(|ratios| ratios.throughput);
        let floor = floor.map_or_else(String::new, |ratio| {
            format!(", {} × what a null responder reached in its place", digits(ratio.value()))
        });
        Some(format!(
            "The highest throughput is {} calls/s ({name}){floor}, with a median latency of {} and a 99th \
             percentile of {}.",
            rate(results.throughput_per_s),
            time(ns(results.latency.p50_ns)),
            time(ns(results.latency.p99_ns))
        ))
    }

    /// How many calls failed; `None` without a run.
    fn errors(&self) -> Option<(Mood, String)> {
        self.runs().next()?;
        let (mut sent, mut failed) = (0_u64, 0_u64);
        let mut unchecked = 0;
        for (_, _, run) in self.runs() {
            sent = sent.saturating_add(run.results.calls_sent);
            failed = failed.saturating_add(run.results.errors.total());
            unchecked += usize::from(run.plan.check != Checking::Equal);
        }
        let has_failed = |run: &Run| run.results.errors.total() > 0;
        let names = self.named(has_failed);
        // That a rate does not hold is what a search was for.
        let sought = |file: &File, run| {
            file.report.limit().is_some_and(|found| outcome(found, run) == Some(false))
        };
        let is_bad = self.runs().any(|(_, file, run)| has_failed(run) && !sought(file, run));
        Some(match (failed, unchecked, names) {
            (1.., _, Some(names)) => {
                let text = format!(
                    "{} of {} calls failed ({names}). None of them counts in throughput or latency.",
                    count(failed),
                    count(sent)
                );
                (if is_bad { Mood::Bad } else { Mood::Fact }, text)
            }
            _ if sent == 0 => (Mood::Bad, "No call was made.".to_owned()),
            (_, 0, _) => {
                let sent = count(sent);
                (
                    Mood::Good,
                    format!("All {sent} calls succeeded with the result that was expected."),
                )
            }
            _ => {
                let sent = count(sent);
                (
                    Mood::Doubt,
                    format!("No call of {sent} failed, but not every result was compared."),
                )
            }
        })
    }

    fn doubts(&self) -> Vec<(Mood, String)> {
        let of = |(mood, is, says): &Doubt| Some((*mood, format!("{says}: {}.", self.named(is)?)));
        let mut said: Vec<_> = DOUBTS.iter().filter_map(of).collect();
        if self.files.iter().any(|file| !file.report.environment.optimised) {
            let text = "mcplane was built without optimisation: the figures are the instrument's.";
            said.push((Mood::Bad, text.to_owned()));
        }
        said.extend(self.files.iter().find_map(busy).map(|text| (Mood::Doubt, text)));
        if said.is_empty() && self.runs().next().is_some() {
            let text = "Nothing speaks against these figures: steady, not limited by the generator, and the \
                        machine was quiet.";
            said.push((Mood::Good, text.to_owned()));
        }
        said
    }

    /// The names of the runs that are so.
    fn named(&self, is: impl Fn(&Run) -> bool) -> Option<String> {
        let names: Vec<_> =
            self.runs().filter(|(_, _, run)| is(run)).map(|(name, _, _)| name).collect();
        let shown = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
        match names.len() {
            0 => None,
            more @ 4.. => Some(format!("{shown}; and {} more", more - NAMED_MAX)),
            _ => Some(shown),
        }
    }
}

/// What a file holds.
fn measured(file: &File) -> String {
    let Some(run) = file.report.runs.first() else { return format!("{} holds no run.", file.name) };
    let mut loads: Vec<_> =
        file.report.runs.iter().map(|run| (run.load_size(), run.load())).collect();
    loads.sort_by(|(a, one), (b, other)| a.total_cmp(b).then_with(|| one.cmp(other)));
    loads.dedup_by(|(_, one), (_, other)| one == other);
    let loads: Vec<_> = loads.into_iter().map(|(_, load)| load).collect();
    let mut ways: Vec<_> =
        file.report.runs.iter().map(|run| run.target.transport.as_str()).collect();
    ways.sort_unstable();
    ways.dedup();
    let server = match &run.target.server {
        Some(server) => format!("{server} {}", run.target.version.as_deref().unwrap_or_default()),
        None => "a server without a name".to_owned(),
    };
    let open = match (run.plan.arrivals, run.plan.think) {
        (Some(_), _) => {
            "an open loop: calls began on a schedule, whatever became of those before them"
        }
        (None, Some(_)) => {
            "a closed loop: each call began when another had ended and its user had thought"
        }
        (None, None) => "a closed loop: each call began when another had ended",
    };
    let at = match run.plan.arrivals.map(|arrivals| arrivals.shape) {
        Some(Shape::Rate(_)) => "at",
        Some(_) => "with a",
        None => "with",
    };
    let turns = match file.report.sides().len() {
        0 => String::new(),
        sides => format!(" {sides} sides took turns."),
    };
    format!(
        "{} of {} was called over {} {at} {}, in {open}.{turns}",
        what(run),
        short(server.trim_end(), 80),
        ways.join(", "),
        loads.join(", ")
    )
}

/// What was called, at the beginning of a sentence.
fn what(run: &Run) -> String {
    let mut names: Vec<_> = run.results.tools.iter().map(|tool| short(&tool.name, 80)).collect();
    let kinds = names.len();
    names.dedup();
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let names = names.join(", ");
    match (kinds, more) {
        (0, _) => format!("The tool {}", short(&run.plan.tool, 80)),
        (_, 0) => format!("A mix of {kinds} kinds of calls ({names})"),
        _ => format!("A mix of {kinds} kinds of calls ({names} and {more} more)"),
    }
}

/// What a side's throughput and 99th percentile, or median, come to.
fn compared(side: &Side, file: &File) -> Option<(Mood, String)> {
    let base = file.report.sides().first()?;
    let of = |metric| side.comparisons.iter().find(|comparison| comparison.metric == metric);
    let told =
        [of(Metric::Throughput), of(Metric::P99).or_else(|| of(Metric::P50))].into_iter().flatten();
    let told: Vec<_> = told
        .map(|comparison| {
            let ratio = comparison.ratio;
            format!(
                "{} {} ({} ×, 95 % interval {} to {})",
                comparison.metric,
                comparison.verdict,
                digits(ratio.value),
                digits(ratio.low),
                digits(ratio.high)
            )
        })
        .collect();
    let is = |verdict| side.comparisons.iter().any(|comparison| comparison.verdict == verdict);
    let mood = match (is(Verdict::Slower), is(Verdict::Faster)) {
        _ if side.role == Role::Calibration => Mood::Fact,
        (true, _) => Mood::Doubt,
        (false, true) => Mood::Good,
        _ => Mood::Fact,
    };
    let names = format!("{} by {}", short(&side.name, 40), short(&base.name, 40));
    (!told.is_empty()).then(|| (mood, format!("{names}: {}.", told.join("; "))))
}

fn is_bound(run: &Run) -> bool {
    match &run.headroom {
        Some(headroom) => headroom.generator_bound,
        // A result of a version that did not say.
        None if run.plan.arrivals.is_none() => {
            let ratio = run.ratios.and_then(|ratios| ratios.throughput);
            ratio.is_some_and(|ratio| ratio.value() > GENERATOR_BOUND)
        }
        None => false,
    }
}

fn is_unlawful(run: &Run) -> bool {
    run.results.little.and_then(|of| of.ratio).is_some_and(|ratio| (ratio - 1.0).abs() > LITTLE)
}

fn is_steady(slices: &[Slice]) -> bool {
    let mut rates: Vec<_> = slices.iter().map(|slice| slice.throughput_per_s).collect();
    rates.sort_by(f64::total_cmp);
    let Some(median) = rates.get(rates.len() / 2).copied() else { return true };
    rates.iter().all(|rate| (rate - median).abs() <= STEADY * median)
}

#[allow(clippy::cast_precision_loss, reason = "a number of cores")]
fn busy(file: &File) -> Option<String> {
    let [load, ..] = file.report.environment.load_before?;
    let cores = file.report.environment.cores;
    (load > 0.5 * cores as f64).then(|| {
        format!("The machine was busy before the run: a load of {load:.1} on {cores} cores.")
    })
}
