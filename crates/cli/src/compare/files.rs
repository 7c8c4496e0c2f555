//! Results that were measured apart, each by a `bench` or `compare` of its own.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Context;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};
use mcplane_lab::stats::Interval;
use mcplane_lab::verdict::{Metric, Recorded, TOO_FEW, Verdict, judge};
use serde::Serialize;

use super::CompareArgs;
use crate::bench::complain;
use crate::input;
use crate::report::{to_stdout, write_json};

/// What a reader has to know.
const APART: &str = "Measured apart: what changed on the machine between the runs is in these ratios, \
    and not in their intervals. Compare the servers themselves to have it there.";

/// Two files.
#[derive(Serialize)]
struct Compared<'a> {
    schema: &'static str,
    effect: f64,
    note: &'static str,
    comparisons: Vec<Row<'a>>,
    /// Runs that two files have in common, and that are too short.
    untold: Vec<Untold<'a>>,
}

/// One figure of a run that two files have in common.
#[derive(Serialize)]
struct Row<'a> {
    a: &'a str,
    b: &'a str,
    run: String,
    metric: Metric,
    ratio: Interval,
    /// What the interval is over.
    over: &'static str,
    verdict: Verdict,
}

/// A run without a figure that can be compared.
#[derive(Serialize)]
struct Untold<'a> {
    a: &'a str,
    b: &'a str,
    run: String,
    why: &'static str,
}

/// A flag that makes no difference to results.
pub(super) fn measuring(given: &ArgMatches) -> Option<String> {
    let flags = CompareArgs::augment_args(Command::new("compare"));
    let is_given = |flag: &&Arg| {
        given.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine)
            && !["targets", "effect", "json"].contains(&flag.get_id().as_str())
    };
    flags.get_arguments().find(is_given)?.get_long().map(str::to_owned)
}

/// Compares the first file with each of the others.
pub(super) fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    if args.targets.len() < 2 {
        return Ok(complain("results are compared with each other: two or more of them", 2));
    }
    let mut files = Vec::new();
    for path in &args.targets {
        let read = input::result(path.as_ref())
            .map_err(|error| error.to_string())
            .and_then(|text| Recorded::parse(&text).map_err(|error| error.to_string()));
        match read {
            Ok(read) => files.push((path.as_str(), read)),
            Err(wrong) => return Ok(complain(&format!("{path}: {wrong}"), 2)),
        }
    }
    let Some((base, others)) = files.split_first() else { return Ok(ExitCode::SUCCESS) };
    let mut compared = Compared {
        schema: "mcplane.compare-files/1",
        effect: args.effect,
        note: APART,
        comparisons: Vec::new(),
        untold: Vec::new(),
    };
    others.iter().for_each(|other| compared.add(base, other));
    if compared.comparisons.is_empty() && compared.untold.is_empty() {
        let wrong = "the results have no run in common: server, transport, tool and load";
        return Ok(complain(wrong, 2));
    }
    args.json.as_deref().map_or(Ok(()), |path| write_json(path, &compared))?;
    if args.json.as_deref() != Some("-".as_ref()) {
        to_stdout(&compared.text()).context("cannot write to stdout")?;
    }
    Ok(ExitCode::from(if compared.comparisons.is_empty() { 3 } else { 0 }))
}

impl<'a> Compared<'a> {
    /// Compares what two files have in common.
    fn add(&mut self, (a, base): &(&'a str, Recorded), (b, other): &(&'a str, Recorded)) {
        let after = other.groups();
        for group in base.groups() {
            let Some(now) = group.counterpart(&after) else { continue };
            let of = |metric: Metric| {
                let (ratio, over) = group.ratio(now, metric)?;
                let verdict = judge(&ratio, self.effect, metric.more_is_better());
                Some(Row { a, b, run: now.name.clone(), metric, ratio, over, verdict })
            };
            let rows: Vec<_> = Metric::ALL.into_iter().filter_map(of).collect();
            if rows.is_empty() {
                self.untold.push(Untold { a, b, run: now.name.clone(), why: TOO_FEW });
            }
            self.comparisons.extend(rows);
        }
    }

    fn text(&self) -> String {
        let (mut text, mut titled) = (String::new(), None);
        // Writing to a string cannot fail.
        for Row { a, b, run, metric, ratio, over, verdict } in &self.comparisons {
            if titled.replace((*b, run)) != Some((*b, run)) {
                let _ = writeln!(text, "{run}: {b} by {a}");
            }
            let Interval { value, low, high } = ratio;
            let ratio = format!("{value:.3} [{low:.3}, {high:.3}]");
            let _ = writeln!(text, "  {metric:<14}{ratio:<26}{verdict:<20}over {over}");
        }
        for Untold { a, b, run, why } in &self.untold {
            let _ = writeln!(text, "{run}: {b} by {a}\n  cannot tell: {why}");
        }
        if !self.comparisons.is_empty() {
            let _ = writeln!(text, "{}", self.note);
        }
        text
    }
}
