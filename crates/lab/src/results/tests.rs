//! Runs to try the rest on.

use super::*;

/// A run as JSON would bring it, with `calls` samples of 1 to `calls` µs.
pub(crate) fn sample(calls: u64, floor: bool) -> Run {
    let mut latencies = Latencies::new();
    (1..=calls).for_each(|us| latencies.record(std::time::Duration::from_micros(us)));
    let results = Results {
        calls_sent: calls,
        calls_ok: calls,
        calls_unfinished: 0,
        errors: Errors::default(),
        first_failure: None,
        wall_ns: 1_000_000_000,
        throughput_per_s: 4_000.0,
        in_flight_mean: 1.0,
        in_flight_max: 1,
        latency: latencies.summary(),
        latency_histogram: latencies.encode(),
        open: None,
        seconds: Vec::new(),
        little: None,
        generator_cpu_share: None,
        tools: Vec::new(),
        warmup: None,
        sockets: None,
        resources: Resources { cpu_ns_per_call: Some(1_500.0), ..Resources::default() },
        resources_seconds: Vec::new(),
        slices: [2_000.0, 6_000.0]
            .map(|throughput_per_s| Slice {
                calls_ok: calls / 2,
                wall_ns: 500_000_000,
                throughput_per_s,
                p50_ns: Some(2_000),
                p99_ns: None,
                cpu_ns_per_call: Some(1_500.0),
            })
            .to_vec(),
    };
    let mut other = results.clone();
    other.throughput_per_s = 8_000.0;
    other.slices.iter_mut().for_each(|slice| slice.throughput_per_s = 8_000.0);
    let plan = serde_json::json!({
        "load": "closed", "concurrency": 1, "sessions": 1, "calls": calls, "duration_ns": null,
        "warmup_calls": 10, "timeout_ns": 1, "slices": 2, "check": "equal", "pin": null,
        "tool": "echo", "args": {"message": "hello"}, "chosen": true,
    });
    let target = serde_json::json!({
        "target": "server --flag", "transport": "stdio", "server": "s", "version": "1",
        "revision": "2026-07-28", "era": "modern", "tools": 1, "call_bytes": 100, "result_bytes": 50,
    });
    Run {
        plan: serde_json::from_value(plan).unwrap(),
        target: serde_json::from_value(target).unwrap(),
        start: StartInfo { spawn_to_handshake_ns: 1, spawn_to_ready_ns: 2, first_call_ns: 3 },
        ratios: floor.then(|| Ratios::of(&results, &other)),
        headroom: None,
        drift: Vec::new(),
        profiled: None,
        results,
        floor: floor.then_some(other),
        interrupted: false,
        broken: None,
        notes: Vec::new(),
        counts: Default::default(),
    }
}

/// The same in an open loop, in which half of the calls began late, and more never did.
pub(crate) fn begun_at(per_s: f64, calls: u64, missed: u64) -> Run {
    let mut run = sample(calls, false);
    run.plan.arrivals = crate::Plan::default().at(per_s).arrivals;
    let open = serde_json::json!({
        "calls_due": calls + missed, "calls_missed": missed, "calls_late": calls / 2,
        "late_share": 0.5, "lateness_max_ns": 1, "pacing_error_p50_ns": 1,
        "pacing_error_p99_ns": 1, "latency_raw": run.results.latency,
        "latency_raw_histogram": run.results.latency_histogram,
    });
    run.results.open = serde_json::from_value(open).unwrap();
    run
}

#[test]
fn late_calls_are_laid_to_what_held_them_up() {
    let Results { latency, open, .. } = begun_at(1_000.0, 2_000, 0).results;
    let (mut open, p50_ns) = (open.unwrap(), latency.p50_ns.map(|ns| 10 * ns));
    assert_eq!(open.hidden(&latency), None);
    let late = Latency { p50_ns, ..latency };
    let said = |open: &Open| open.hidden(&late).unwrap();
    assert!(said(&open).contains("there was room for them: this machine was busy"));
    open.calls_blocked = open.calls_late;
    assert!(said(&open).contains("while the server held up those before them"));
}

#[test]
fn json_reads_back_and_its_histogram_gives_the_printed_percentiles() {
    let report = Report::new(Environment::look(), vec![sample(5_000, true)]);
    let json = serde_json::to_string(&report).unwrap();
    let back: Report = serde_json::from_str(&json).unwrap();
    assert!(json.starts_with(&format!("{{\"schema\":\"{SCHEMA}\"")));
    assert_eq!(serde_json::to_string(&back).unwrap(), json);
    let results = &back.runs[0].results;
    let latencies = Latencies::decode(&results.latency_histogram).unwrap();
    let of = &results.latency;
    let printed = [of.p50_ns, of.p90_ns, of.p95_ns, of.p99_ns, of.p99_9_ns];
    assert_eq!(QUANTILES.map(|(_, q)| latencies.quantile_ns(q)), printed);
    assert!(printed.iter().all(Option::is_some));
    assert_eq!(latencies.summary(), *of);
}
