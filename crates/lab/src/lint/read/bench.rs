//! The JSON of `mcplane bench` and of `mcplane compare`: tables of the runs, target and floor, and one
//! of their slices. Those of an open loop are apart.

use serde_json::Value;

use crate::lint::LintError;
use crate::lint::table::Table;

/// The formats that are read, of any revision.
const SCHEMAS: [&str; 2] = ["mcplane.bench/", "mcplane.compare/"];

pub(super) fn is_report(value: &Value) -> bool {
    let schema = value.get("schema").and_then(Value::as_str).unwrap_or_default();
    SCHEMAS.iter().any(|known| schema.starts_with(known)) && value.get("runs").is_some()
}

/// Column, and where its figure is.
type Place = (&'static str, &'static str);

/// Among the results.
const RUN: [Place; 6] = [
    ("in flight (measured)", "/in_flight_mean"),
    ("sent", "/calls_sent"),
    ("unanswered", "/calls_unfinished"),
    ("wall_ns", "/wall_ns"),
    ("calls per s", "/throughput_per_s"),
    ("slices", "slices"),
];

/// Among the results.
const CALLS: [Place; 2] = [("ok", "/calls_ok"), ("errors", "errors")];

/// In a latency.
const LATENCY: [Place; 9] = [
    ("samples", "/count"),
    ("min_ns", "/min_ns"),
    ("mean_ns", "/mean_ns"),
    ("p50_ns", "/p50_ns"),
    ("p90_ns", "/p90_ns"),
    ("p95_ns", "/p95_ns"),
    ("p99_ns", "/p99_ns"),
    ("p99.9_ns", "/p99_9_ns"),
    ("max_ns", "/max_ns"),
];

/// In a slice.
const SLICE: [Place; 5] = [
    ("ok", "/calls_ok"),
    ("wall_ns", "/wall_ns"),
    ("calls per s", "/throughput_per_s"),
    ("p50_ns", "/p50_ns"),
    ("p99_ns", "/p99_ns"),
];

/// What was measured of a target, or of the floor beside it.
struct Measured<'a> {
    /// The number of the run, from 1.
    line: usize,
    label: String,
    /// Whether its calls came at times of their own.
    open: bool,
    results: &'a Value,
}

pub(super) fn tables(report: &Value) -> Result<Vec<Table>, LintError> {
    let runs = report.get("runs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let all = runs.iter().enumerate().flat_map(|(at, run)| measured(at + 1, run));
    let (open, closed): (Vec<_>, Vec<_>) = all.partition(|one| one.open);
    let whole = [&RUN[..], &CALLS].concat();
    // A call that waits to be sent is not in flight: of the two latencies of an open loop only the
    // one from the actual start belongs to what was.
    let (sent, due) = ("runs, from the actual start", "runs, from the intended start");
    let tables = [
        of_runs("runs", &closed, &whole, "/latency")?,
        of_slices(&closed)?,
        of_runs(sent, &open, &whole, "/open/latency_raw")?,
        of_runs(due, &open, &CALLS, "/latency")?,
        of_slices(&open)?,
    ];
    Ok(tables.into_iter().filter(|table| !table.rows.is_empty()).collect())
}

fn measured(line: usize, run: &Value) -> impl Iterator<Item = Measured<'_>> {
    let sides = [("", run.get("results")), (" (floor)", run.get("floor"))];
    sides.into_iter().filter_map(move |(side, results)| {
        let results = results.filter(|results| results.is_object())?;
        let open = results.get("open").is_some_and(Value::is_object);
        let name = text(run, "/target/target");
        // The concurrency of an open loop is only the most that may be in flight.
        let label = if open {
            format!("{name}{side}")
        } else {
            format!("{name} × {}{side}", text(run, "/plan/concurrency"))
        };
        Some(Measured { line, label, open, results })
    })
}

/// One row of each, with the latency at this place among the results.
fn of_runs(
    name: &str,
    all: &[Measured<'_>],
    places: &[Place],
    latency: &str,
) -> Result<Table, LintError> {
    let row = |one: &Measured<'_>| {
        let mut row = vec![one.label.clone()];
        row.extend(places.iter().map(|(_, path)| cell(one.results, path)));
        row.extend(LATENCY.map(|(_, path)| text(one.results, &format!("{latency}{path}"))));
        (one.line, row)
    };
    table(name, all, &[places, &LATENCY].concat(), all.iter().map(row).collect())
}

fn of_slices(all: &[Measured<'_>]) -> Result<Table, LintError> {
    let rows = all.iter().flat_map(|one| {
        let slices = one.results.get("slices").and_then(Value::as_array).into_iter().flatten();
        slices.enumerate().map(|(at, slice)| {
            let mut row = vec![format!("{}, slice {}", one.label, at + 1), "1".to_owned()];
            row.extend(SLICE.map(|(_, path)| text(slice, path)));
            (one.line, row)
        })
    });
    table("slices", all, &[&[("slices", "")], &SLICE[..]].concat(), rows.collect())
}

fn table(
    name: &str,
    all: &[Measured<'_>],
    places: &[Place],
    rows: Vec<(usize, Vec<String>)>,
) -> Result<Table, LintError> {
    let columns = places.iter().map(|(column, _)| *column);
    let header: Vec<_> = ["name"].into_iter().chain(columns).map(str::to_owned).collect();
    let open = all.iter().any(|one| one.open);
    Ok(Table { machine: true, open, ..Table::new(name, &header, rows)? })
}

fn cell(results: &Value, path: &str) -> String {
    match path {
        "errors" => {
            let kinds = results.get("errors").and_then(Value::as_object);
            let total: u64 =
                kinds.into_iter().flat_map(|kinds| kinds.values()).filter_map(Value::as_u64).sum();
            total.to_string()
        }
        "slices" => results.get("slices").and_then(Value::as_array).map_or(0, Vec::len).to_string(),
        path => text(results, path),
    }
}

fn text(value: &Value, path: &str) -> String {
    match value.pointer(path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}
