//! Records in the result and index schema of erlmcp's benchmark suite 1.5.0.
//!
//! One message is one call, as in the examples of that suite; its metrology counts two. `null` is what
//! this lab does not measure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::csv::word;
use super::document::{Document, File};
use crate::results::{Run, Shape, Transport, Words};

/// The version of the suite whose schema this is.
const SUITE: &str = "1.5.0";

impl Document {
    /// One result for each run, in order.
    #[must_use]
    pub fn to_erlmcp(&self) -> Vec<Value> {
        self.runs().map(|(_, file, run)| result(file, run)).collect()
    }

    /// File names and contents of a folder as that suite leaves one: each result as
    /// `<benchmark>_<workload_id>_<timestamp>.json`, and `index.json`.
    #[must_use]
    pub fn to_erlmcp_files(&self) -> BTreeMap<String, Value> {
        let mut files = BTreeMap::new();
        for result in self.to_erlmcp() {
            let part =
                |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let time: String =
                part("timestamp").chars().filter(char::is_ascii_alphanumeric).take(32).collect();
            let stem = format!("{}_{}_{time}", part("benchmark"), part("workload_id"));
            let mut name = format!("{stem}.json");
            for turn in 2.. {
                if !files.contains_key(&name) {
                    break;
                }
                name = format!("{stem}_{turn}.json");
            }
            files.insert(name, result);
        }
        let index = self.index(&files);
        files.insert("index.json".to_owned(), index);
        files
    }

    fn index(&self, results: &BTreeMap<String, Value>) -> Value {
        let environment = self.files.first().map(|file| &file.report.environment);
        let workloads: Vec<_> = results.values().map(|result| &result["workload_id"]).collect();
        let wall: u64 =
            self.runs().map(|(.., run)| run.results.wall_ns).fold(0, u64::saturating_add);
        let time = environment.map(|of| of.time.as_str());
        json!({
            "run_id": time.map(|time| format!("mcplane-{time}")),
            "suite_version": SUITE,
            "git_sha": null,
            "erlang_version": null,
            "mcplane_version": environment.map(|of| &of.mcplane),
            "os": environment.map(|of| format!("{} {}", of.os, of.kernel.as_deref().unwrap_or(""))),
            "hostname": null,
            "command": environment.map(|of| of.command.join(" ")),
            "start": time,
            "end": null,
            "duration_s": seconds(wall),
            "workload_ids": workloads,
            "result_files": results.keys().collect::<Vec<_>>(),
        })
    }
}

fn result(file: &File, run: &Run) -> Value {
    let (target, of) = (&run.target, &run.results);
    let latency = &of.latency;
    let in_process = target.transport == Transport::Memory;
    let mut result = json!({
        "workload_id": workload(run),
        "benchmark": if in_process { "core_ops" } else { "network_real" },
        "transport": word(target.transport.as_str()),
        "duration_s": seconds(of.wall_ns),
        "operations": of.calls_ok,
        "workers": run.plan.in_flight(),
        "throughput_msg_per_s": of.throughput_per_s,
        "latency_p50_us": us(latency.p50_ns),
        "latency_p95_us": us(latency.p95_ns),
        "latency_p99_us": us(latency.p99_ns),
        "latency_max_us": us(latency.max_ns),
        "memory_heap_mib_per_conn": null,
        "memory_rss_mib_per_node": of.resources.rss_bytes_max.map(mib),
        "precision": "microsecond",
        "scope": "per_node_total_rss",
        "timestamp": file.report.environment.time,
        "erlang_version": null,
        "hostname": null,
        "errors": of.errors.total(),
        "missed": of.open.as_ref().map(|open| open.calls_missed),
        "interrupted": run.interrupted,
    });
    if let (false, Some(fields)) = (in_process, result.as_object_mut()) {
        let errors = &of.errors;
        let answered = [errors.json_rpc, errors.is_error, errors.wrong_content];
        let received = answered.into_iter().fold(of.calls_ok, u64::saturating_add);
        let connections = match target.transport {
            Transport::Http | Transport::Sse => run.plan.in_flight(),
            _ => run.plan.sessions,
        };
        fields.insert("connections".to_owned(), json!(connections));
        fields.insert("sockets_open".to_owned(), json!(of.sockets.map(|sockets| sockets.open_max)));
        fields.insert("messages_sent".to_owned(), json!(of.calls_sent));
        fields.insert("messages_received".to_owned(), json!(received));
        fields.insert("packet_efficiency".to_owned(), json!(packet_efficiency(run)));
    }
    result
}

/// Bytes of requests and of results by all bytes on the wire, where every call is like the first.
#[allow(clippy::cast_precision_loss, reason = "bytes below 2^53 are exact")]
fn packet_efficiency(run: &Run) -> Option<f64> {
    let (target, of) = (&run.target, &run.results);
    let sockets = of.sockets.filter(|_| of.tools.is_empty() && of.errors.total() == 0)?;
    let real = sockets.bytes_sent + sockets.bytes_received;
    let logical = target.call_bytes as f64 * of.calls_sent as f64
        + target.result_bytes as f64 * of.calls_ok as f64;
    (real > 0).then(|| logical / real as f64)
}

/// `{transport}_{pattern}_{scale}_{payload}`, as that suite names workloads.
fn workload(run: &Run) -> String {
    let pattern = match &run.plan.arrivals {
        // The load says so itself.
        Some(arrivals) if matches!(arrivals.shape, Shape::Burst(_)) => "",
        _ => "sustained_",
    };
    let bytes = run.target.call_bytes;
    let payload = match bytes {
        1024.. if bytes.is_multiple_of(1024) => format!("{}kib", bytes / 1024),
        _ => format!("{bytes}b"),
    };
    format!(
        "{}_{pattern}{}_{payload}",
        word(run.target.transport.as_str()),
        run.plan.load_in(Words::Name)
    )
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn us(ns: Option<u64>) -> Option<f64> {
    ns.map(|ns| ns as f64 / 1e3)
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[allow(clippy::cast_precision_loss, reason = "bytes below 2^53 are exact")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::hostile;
    use crate::results::Transport;

    /// The fields of the two example results in that suite's document.
    const CORE: [&str; 15] = [
        "workload_id",
        "benchmark",
        "transport",
        "duration_s",
        "operations",
        "workers",
        "throughput_msg_per_s",
        "latency_p50_us",
        "latency_p95_us",
        "latency_p99_us",
        "memory_heap_mib_per_conn",
        "memory_rss_mib_per_node",
        "precision",
        "scope",
        "timestamp",
    ];
    const NETWORK: [&str; 5] =
        ["connections", "sockets_open", "messages_sent", "messages_received", "packet_efficiency"];
    const INDEX: [&str; 9] = [
        "run_id",
        "git_sha",
        "os",
        "hostname",
        "command",
        "start",
        "duration_s",
        "workload_ids",
        "result_files",
    ];

    fn has(value: &Value, fields: &[&str]) -> bool {
        fields.iter().all(|field| value.get(field).is_some())
    }

    #[test]
    fn results_have_that_suites_fields_and_agree_with_themselves() {
        let document = hostile();
        for (result, (.., run)) in document.to_erlmcp().iter().zip(document.runs()) {
            assert!(has(result, &CORE), "{result}");
            assert_eq!(
                has(result, &NETWORK),
                run.target.transport != Transport::Memory,
                "{result}"
            );
            let p50 = result["latency_p50_us"].as_f64().unwrap();
            assert!((p50 * 1e3 - run.results.latency.p50_ns.unwrap() as f64).abs() < 1.0);
            assert_eq!(result["operations"], run.results.calls_ok);
        }
    }

    #[test]
    fn files_are_named_apart_and_indexed() {
        let files = hostile().to_erlmcp_files();
        assert_eq!(files.len(), 1 + hostile().runs().count());
        let fit =
            |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c));
        assert!(files.keys().all(|name| fit(name) && !name.contains("..")), "{:?}", files.keys());
        let index = &files["index.json"];
        assert!(has(index, &INDEX), "{index}");
        for name in index["result_files"].as_array().unwrap() {
            assert!(files.contains_key(name.as_str().unwrap()));
        }
        let named = index["result_files"].as_array().unwrap().len();
        assert_eq!(
            (named, named),
            (files.len() - 1, index["workload_ids"].as_array().unwrap().len())
        );
    }
}
