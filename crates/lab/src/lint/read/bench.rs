//! The JSON of `mcplane bench` and of `mcplane compare`: tables of the runs, target and floor, and one
//! of their slices. Those of an open loop are apart.

use serde_json::Value;

use crate::lint::finding::LintError;
use crate::lint::table::Table;
use crate::results::{File, Latency, Results, Run, Slice};

/// The formats that are ours, of any version.
const SCHEMAS: [&str; 2] = ["mcplane.bench/", "mcplane.compare/"];

pub(super) fn is_report(value: &Value) -> bool {
    let schema = value.get("schema").and_then(Value::as_str).unwrap_or_default();
    SCHEMAS.iter().any(|known| schema.starts_with(known)) && value.get("runs").is_some()
}

/// A column, and its figure.
type Column<T> = (&'static str, fn(&T) -> String);

const RUN: [Column<Results>; 6] = [
    ("in flight (measured)", |of| figure(of.in_flight_mean)),
    ("sent", |of| of.calls_sent.to_string()),
    ("unanswered", |of| of.calls_unfinished.to_string()),
    ("wall_ns", |of| of.wall_ns.to_string()),
    ("calls per s", |of| figure(of.throughput_per_s)),
    ("slices", |of| of.slices.len().to_string()),
];

const CALLS: [Column<Results>; 2] =
    [("ok", |of| of.calls_ok.to_string()), ("errors", |of| of.errors.total().to_string())];

const LATENCY: [Column<Latency>; 9] = [
    ("samples", |of| of.count.to_string()),
    ("min_ns", |of| whole(of.min_ns)),
    ("mean_ns", |of| of.mean_ns.map(figure).unwrap_or_default()),
    ("p50_ns", |of| whole(of.p50_ns)),
    ("p90_ns", |of| whole(of.p90_ns)),
    ("p95_ns", |of| whole(of.p95_ns)),
    ("p99_ns", |of| whole(of.p99_ns)),
    ("p99.9_ns", |of| whole(of.p99_9_ns)),
    ("max_ns", |of| whole(of.max_ns)),
];

const SLICE: [Column<Slice>; 6] = [
    ("slices", |_| "1".to_owned()),
    ("ok", |of| of.calls_ok.to_string()),
    ("wall_ns", |of| of.wall_ns.to_string()),
    ("calls per s", |of| figure(of.throughput_per_s)),
    ("p50_ns", |of| whole(of.p50_ns)),
    ("p99_ns", |of| whole(of.p99_ns)),
];

/// As JSON has it, with all its digits.
fn figure(value: f64) -> String {
    Value::from(value).to_string()
}

fn whole(value: Option<u64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// What was measured of a target, or of the floor beside it.
struct Measured<'a> {
    /// The number of the run, from 1.
    line: usize,
    label: String,
    /// Whether its calls came at times of their own.
    open: bool,
    results: &'a Results,
}

pub(super) fn tables(text: &str) -> Result<Vec<Table>, LintError> {
    let report = match File::parse(text)? {
        File::Report(report) => report,
        File::Counts(_) => return Err(LintError::NoTable),
    };
    let all = report.runs.iter().enumerate().flat_map(|(at, run)| measured(at + 1, run));
    let (open, closed): (Vec<_>, Vec<_>) = all.partition(|one| one.open);
    let whole = [&RUN[..], &CALLS].concat();
    // A call that waits to be sent is not in flight: of the two latencies of an open loop only the
    // one from the actual start belongs to what was.
    let (sent, due) = ("runs, from the actual start", "runs, from the intended start");
    let from_due = |of: &Results| Some(of.latency.clone());
    let from_sent = |of: &Results| Some(of.open.as_ref()?.latency_raw.clone());
    let tables = [
        of_runs("runs", &closed, &whole, from_due)?,
        of_slices(&closed)?,
        of_runs(sent, &open, &whole, from_sent)?,
        of_runs(due, &open, &CALLS, from_due)?,
        of_slices(&open)?,
    ];
    Ok(tables.into_iter().filter(|table| !table.rows.is_empty()).collect())
}

fn measured(line: usize, run: &Run) -> impl Iterator<Item = Measured<'_>> {
    let sides = [("", Some(&run.results)), (" (floor)", run.floor.as_ref())];
    sides.into_iter().filter_map(move |(side, results)| {
        let results = results?;
        let open = results.open.is_some();
        let name = &run.target.target;
        // The concurrency of an open loop is only the most that may be in flight.
        let label = if open {
            format!("{name}{side}")
        } else {
            format!("{name} × {}{side}", run.plan.concurrency)
        };
        Some(Measured { line, label, open, results })
    })
}

/// One row of each, with one of its latencies.
fn of_runs(
    name: &str,
    all: &[Measured<'_>],
    columns: &[Column<Results>],
    latency: impl Fn(&Results) -> Option<Latency>,
) -> Result<Table, LintError> {
    let row = |one: &Measured<'_>| {
        let mut row = vec![one.label.clone()];
        row.extend(columns.iter().map(|(_, of)| of(one.results)));
        let latency = latency(one.results).unwrap_or_default();
        row.extend(LATENCY.map(|(_, of)| of(&latency)));
        (one.line, row)
    };
    let names = columns.iter().map(|(name, _)| *name).chain(LATENCY.map(|(name, _)| name));
    table(name, all, names, all.iter().map(row).collect())
}

fn of_slices(all: &[Measured<'_>]) -> Result<Table, LintError> {
    let rows = all.iter().flat_map(|one| {
        one.results.slices.iter().enumerate().map(|(at, slice)| {
            let mut row = vec![format!("{}, slice {}", one.label, at + 1)];
            row.extend(SLICE.map(|(_, of)| of(slice)));
            (one.line, row)
        })
    });
    table("slices", all, SLICE.into_iter().map(|(name, _)| name), rows.collect())
}

fn table(
    name: &str,
    all: &[Measured<'_>],
    columns: impl Iterator<Item = &'static str>,
    rows: Vec<(usize, Vec<String>)>,
) -> Result<Table, LintError> {
    let header: Vec<_> = ["name"].into_iter().chain(columns).map(str::to_owned).collect();
    let open = all.iter().any(|one| one.open);
    Ok(Table { machine: true, open, ..Table::new(name, &header, rows)? })
}
