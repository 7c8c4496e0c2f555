//! The JSON of `mcplane bench`: one table of the runs, target and floor, and one of their slices.

use serde_json::Value;

use crate::lint::LintError;
use crate::lint::table::Table;

/// The revisions that are read; the number is that of the format.
const SCHEMA: &str = "mcplane.bench/";

pub(super) fn is_report(value: &Value) -> bool {
    let schema = value.get("schema").and_then(Value::as_str);
    schema.is_some_and(|schema| schema.starts_with(SCHEMA)) && value.get("runs").is_some()
}

/// Column, and where its figure is among the results.
const RESULTS: [(&str, &str); 17] = [
    ("in flight (measured)", "/in_flight_mean"),
    ("sent", "/calls_sent"),
    ("ok", "/calls_ok"),
    ("errors", "errors"),
    ("unanswered", "/calls_unfinished"),
    ("wall_ns", "/wall_ns"),
    ("calls per s", "/throughput_per_s"),
    ("samples", "/latency/count"),
    ("min_ns", "/latency/min_ns"),
    ("mean_ns", "/latency/mean_ns"),
    ("p50_ns", "/latency/p50_ns"),
    ("p90_ns", "/latency/p90_ns"),
    ("p95_ns", "/latency/p95_ns"),
    ("p99_ns", "/latency/p99_ns"),
    ("p99.9_ns", "/latency/p99_9_ns"),
    ("max_ns", "/latency/max_ns"),
    ("slices", "slices"),
];

const SLICE: [(&str, &str); 5] = [
    ("ok", "/calls_ok"),
    ("wall_ns", "/wall_ns"),
    ("calls per s", "/throughput_per_s"),
    ("p50_ns", "/p50_ns"),
    ("p99_ns", "/p99_ns"),
];

pub(super) fn tables(report: &Value) -> Result<Vec<Table>, LintError> {
    let runs = report.get("runs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (mut rows, mut slices) = (Vec::new(), Vec::new());
    for (at, run) in runs.iter().enumerate() {
        let name = text(run, "/target/target");
        let load = text(run, "/plan/concurrency");
        let sides = [("", run.get("results")), (" (floor)", run.get("floor"))];
        for (side, results) in sides {
            let Some(results) = results.filter(|results| results.is_object()) else { continue };
            let label = format!("{name} × {load}{side}");
            let mut row = vec![label.clone()];
            row.extend(RESULTS.map(|(_, path)| cell(results, path)));
            rows.push((at + 1, row));
            let parts = results.get("slices").and_then(Value::as_array);
            for (number, slice) in parts.into_iter().flatten().enumerate() {
                let mut row = vec![format!("{label}, slice {}", number + 1)];
                row.push("1".to_owned());
                row.extend(SLICE.map(|(_, path)| text(slice, path)));
                slices.push((at + 1, row));
            }
        }
    }
    [
        ("runs", rows, RESULTS.map(|(name, _)| name).to_vec(), "name"),
        ("slices", slices, [&["slices"][..], &SLICE.map(|(name, _)| name)].concat(), "name"),
    ]
    .into_iter()
    .filter(|(_, rows, ..)| !rows.is_empty())
    .map(|(name, rows, columns, first)| {
        let header: Vec<_> = [first].into_iter().chain(columns).map(str::to_owned).collect();
        Ok(Table { machine: true, ..Table::new(name, &header, rows)? })
    })
    .collect()
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
