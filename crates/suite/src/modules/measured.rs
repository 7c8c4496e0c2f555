//! What the lab measures over a connection, as a workload finds it.

use mcplane_lab::report::Run;
use mcplane_lab::spec::{Spec, TargetSpec};
use mcplane_lab::{Environment, Floor, Plan, Report, Served, Target, Transport, bench, run};
use mcplane_process::Command;
use serde_json::value::RawValue;

use crate::entry::{Figure, Form, Found, Stand};

/// Arguments as JSON text of ours.
pub(super) fn args(json: String) -> Option<Box<RawValue>> {
    RawValue::from_string(json).ok()
}

/// Our own program as a server, with these words.
pub(super) fn ours(on: &Stand<'_>, words: &[&str]) -> TargetSpec {
    let words = words.iter().map(|word| (*word).into());
    let command = std::iter::once(on.me.as_os_str().to_owned()).chain(words).collect();
    TargetSpec { command, ..TargetSpec::default() }
}

/// Our own program, listening at a free port, with these words.
pub(super) fn listening(on: &Stand<'_>, words: &[&str]) -> Target {
    let command = Command::new(on.me).args(words).inherit_env(["*"]);
    Target::Served(Served { command, transport: Transport::Http })
}

/// The gateway over our fixture, with so many workers.
pub(super) fn gateway(on: &Stand<'_>, workers: &str) -> Target {
    let me = on.me.to_string_lossy();
    let at = ["serve", "--listen", "127.0.0.1:0", "--workers", workers, "--", &me, "fixture"];
    listening(on, &at)
}

/// Has the lab put a load on a target. It fails if a call does, or if memory or descriptors grow.
///
/// # Errors
/// Why there is nothing to report.
pub(super) fn load(on: &Stand<'_>, plan: &Plan, target: &Target) -> Result<Found, String> {
    let floor = match on.form {
        Form::Quick => Floor::Off,
        _ => Floor::Process(on.built_in.floor.clone()),
    };
    let run = run(plan, target, &floor, on.control).map_err(|error| error.to_string())?;
    let (is_clean, leak) = (run.is_clean(), run.leak());
    let failure = run.results.first_failure.clone().or_else(|| run.broken.clone());
    Ok(of_report(Report::new(Environment::look(), vec![run]))
        .assert(is_clean, || format!("a call failed: {}", failure.unwrap_or_default()))
        .assert(leak.is_none(), || leak.unwrap_or_default()))
}

/// Has the lab measure it. It fails if a call does, if it was not measured to its end, or if what the
/// spec asserts does not hold.
///
/// # Errors
/// The spec makes no sense.
pub(super) fn measure(on: &Stand<'_>, spec: &Spec) -> Result<Found, String> {
    let outcome = bench(spec, on.built_in, on.control).map_err(|wrong| wrong.to_string())?;
    let holds = outcome.holds(spec);
    let report = outcome.report;
    let failure = report.runs.iter().find_map(|run| run.results.first_failure.clone());
    let said = report.asserted.iter().flatten().find(|checked| checked.holds != Some(true));
    let why = match (&outcome.failed, failure, said) {
        (Some(error), ..) => error.to_string(),
        (None, Some(failure), _) => format!("a call failed: {failure}"),
        (None, None, Some(checked)) => format!("{}: it was {}", checked.text, checked.measured),
        (None, None, None) => "a figure that decides cannot be told, or drifts".to_owned(),
    };
    let is_good = outcome.failed.is_none() && holds == Some(true);
    Ok(of_report(report).assert(is_good, || why))
}

/// What a report has to say.
fn of_report(report: Report) -> Found {
    let mut found = Found::pass(figures(&report));
    found.notes.extend(report.runs.iter().flat_map(|run| run.notes.iter().cloned()));
    found.report = Some(report);
    found
}

/// The figures of every run; where there are several, each by its transport.
fn figures(report: &Report) -> Vec<Figure> {
    let is_one = report.runs.len() == 1;
    let name = |run: &Run, figure: &str| match is_one {
        true => figure.to_owned(),
        false => {
            let in_flight = run.plan.concurrency * run.plan.sessions;
            format!("{} {} × {in_flight} {figure}", run.target.transport, run.target.revision)
        }
    };
    let mut figures = Vec::new();
    for run in &report.runs {
        let results = &run.results;
        figures.push(Figure::of(&name(run, "throughput"), "calls/s", results.throughput_per_s));
        let latency = &results.latency;
        for (figure, ns) in
            [("p50", latency.p50_ns), ("p95", latency.p95_ns), ("p99", latency.p99_ns)]
        {
            let us = |ns: u64| Figure::of(&name(run, figure), "us", ns as f64 / 1e3);
            figures.extend(ns.map(us));
        }
        if let Some(bytes) = results.resources.rss_bytes_max {
            figures.push(Figure::of(&name(run, "most RSS"), "MiB", bytes as f64 / 1_048_576.0));
        }
    }
    if let Some(cold) = report.cold_start() {
        for (step, spread) in cold.figures() {
            figures.push(Figure::of(step, "ms", spread.median_ns as f64 / 1e6));
        }
    }
    figures
}
