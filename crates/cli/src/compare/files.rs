//! Results that were measured apart, each by a `bench` or `compare` of its own.

use std::process::ExitCode;

use anyhow::Context;
use mcplane_lab::stats::Interval;
use mcplane_lab::verdict::{Group, Metric, Recorded, Verdict, judge};
use serde::Serialize;

use super::{CompareArgs, complain, write_json};
use crate::input;

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

/// Compares the first file with each of the others.
pub(super) fn compare(args: &CompareArgs) -> anyhow::Result<ExitCode> {
    if args.targets.len() < 2 || !args.through.is_empty() {
        let wrong = "results are compared with each other: two or more of them, and no --through";
        return Ok(complain(wrong, 2));
    }
    let mut files = Vec::new();
    for path in &args.targets {
        let text = input::read(path.as_ref(), input::RESULT_BYTES_MAX)
            .with_context(|| format!("cannot read {path}"))?;
        match Recorded::parse(text.as_bytes()) {
            Ok(read) => files.push((path.as_str(), read)),
            Err(wrong) => return Ok(complain(&format!("{path}: {wrong}"), 2)),
        }
    }
    let Some((base, others)) = files.split_first() else { return Ok(ExitCode::SUCCESS) };
    let comparisons: Vec<_> =
        others.iter().flat_map(|other| rows(base, other, args.effect)).collect();
    if comparisons.is_empty() {
        let wrong =
            "the results have no run in common: server, transport, tool and calls in flight";
        return Ok(complain(wrong, 2));
    }
    let compared = Compared {
        schema: "mcplane.compare-files/1",
        effect: args.effect,
        note: APART,
        comparisons,
    };
    if args.json.as_deref() != Some("-".as_ref()) {
        print(&compared);
    }
    args.json.as_deref().map_or(Ok(()), |path| write_json(path, &compared))?;
    Ok(ExitCode::SUCCESS)
}

fn rows<'a>(
    (a, base): &(&'a str, Recorded),
    (b, other): &(&'a str, Recorded),
    effect: f64,
) -> Vec<Row<'a>> {
    let (before, after) = (base.groups(), other.groups());
    let both = before.iter().filter_map(|group| Some((group, group.counterpart(&after)?)));
    let of = |(group, now): (&_, &Group<'_>), metric: Metric| {
        let group: &Group<'_> = group;
        let (ratio, over) = group.ratio(now, metric)?;
        let verdict = judge(&ratio, effect, metric.more_is_better());
        Some(Row { a, b, run: now.name.clone(), metric, ratio, over, verdict })
    };
    both.flat_map(|both| Metric::ALL.into_iter().filter_map(move |metric| of(both, metric)))
        .collect()
}

fn print(compared: &Compared<'_>) {
    let mut titled = None;
    for Row { a, b, run, metric, ratio, over, verdict } in &compared.comparisons {
        if titled.replace((*b, run)) != Some((*b, run)) {
            println!("{run}: {b} by {a}");
        }
        let Interval { value, low, high } = ratio;
        let ratio = format!("{value:.3} [{low:.3}, {high:.3}]");
        println!("  {metric:<14}{ratio:<26}{verdict:<20}over {over}");
    }
    println!("{}", compared.note);
}
