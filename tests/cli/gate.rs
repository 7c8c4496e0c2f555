//! `mcplane gate`: exit codes, profiles, what a workflow gets, and files that cannot be judged.

use std::fs;

use mcplane_tests::child::{Ended, binary, mcplane, run};
use serde_json::{Value, json};

use crate::{LIMIT, file};

/// A result with six slices at this rate, and latencies that go with it.
pub(crate) fn result(per_s: f64) -> Value {
    let slices: Vec<_> = [1.0, 1.01, 0.99, 1.005, 0.995, 1.0]
        .map(|by| by * per_s)
        .map(|rate| {
            json!({"calls_ok": 1000, "wall_ns": 1, "throughput_per_s": rate, "p50_ns": 1e9 / rate,
                "p99_ns": 3e9 / rate})
        })
        .map(whole)
        .into();
    let latency = json!({"count": 10000, "p50_ns": 1e9 / per_s, "p95_ns": 2e9 / per_s,
        "p99_ns": 3e9 / per_s});
    let environment = json!({"time": "2026-11-24T00:00:00Z", "mcplane": "0.1.0", "optimised": true,
        "command": [], "os": "linux", "arch": "x86_64", "cores": 2});
    let plan = json!({"load": "closed", "concurrency": 4, "sessions": 1, "warmup_calls": 0,
        "timeout_ns": 1, "slices": 6, "check": "equal", "tool": "echo", "args": {}, "chosen": true});
    let target = json!({"target": "server", "transport": "stdio", "server": "s", "tools": 1,
        "revision": "2026-07-28", "era": "modern", "call_bytes": 100, "result_bytes": 50});
    let errors = json!({"transport": 0, "json_rpc": 0, "is_error": 0, "timeout": 0,
        "wrong_content": 0});
    let results = json!({"calls_sent": 10000, "calls_ok": 10000, "calls_unfinished": 0,
        "errors": errors, "wall_ns": 1, "throughput_per_s": per_s, "in_flight_mean": 4.0,
        "in_flight_max": 4, "latency": whole(latency), "latency_histogram": "",
        "resources": {"samples": 0}, "slices": slices});
    json!({"schema": "mcplane.bench/1", "environment": environment, "runs": [{
        "plan": plan, "target": target, "results": results,
        "start": {"spawn_to_handshake_ns": 1, "spawn_to_ready_ns": 2, "first_call_ns": 3},
        "interrupted": false, "broken": null, "notes": []
    }]})
}

/// Nanoseconds are whole.
fn whole(mut figures: Value) -> Value {
    for (key, value) in figures.as_object_mut().unwrap() {
        if key.ends_with("_ns") {
            *value = json!(value.as_f64().unwrap() as u64);
        }
    }
    figures
}

/// The same calls, begun at a rate.
pub(crate) fn begun_at(per_s: f64) -> Value {
    let mut result = result(per_s);
    result["runs"][0]["plan"]["arrivals"] =
        json!({"shape": "rate", "per_s": per_s, "spacing": "constant", "seed": 1});
    result
}

/// The path of a file of this test's own with this text.
pub(crate) fn written(name: &str, text: impl ToString) -> String {
    let path = file(name);
    fs::write(&path, text.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Whoever reads its stdout and stderr has gone before it begins. Gives its exit code.
#[track_caller]
pub(crate) fn unread(words: &[&str]) -> String {
    let (gone, code) = (file("gone"), file("code"));
    let script = r#"gone=$1 code=$2; shift 2
        { until [ -e "$gone" ]; do sleep 0.05; done
            env -u GITHUB_STEP_SUMMARY "$@" 2>&1; echo $? > "$code"; } |
        { exec <&-; : > "$gone"; }"#;
    let own = ["sh", "-c", script, "sh", gone.to_str().unwrap(), code.to_str().unwrap(), binary()];
    let line: Vec<_> = own.iter().chain(words).map(|word| (*word).to_owned()).collect();
    let ended = run(&line, LIMIT).ok();
    assert_eq!(ended.stderr, "", "{ended}");
    fs::read_to_string(code).unwrap().trim().to_owned()
}

#[test]
fn exit_codes_say_what_became_of_the_limits() {
    let (base, slower) = (written("base.json", result(1000.0)), written("slow", result(850.0)));
    let ended = mcplane(&["gate", &base, &base], LIMIT).ok();
    assert!(ended.stdout.contains("s stdio echo ×4\n"), "{ended}");
    assert!(ended.stdout.ends_with("passed by the profile `default`\n"), "{ended}");
    let ended = mcplane(&["gate", &base, &slower], LIMIT).code(1);
    assert!(ended.stdout.ends_with("regression by the profile `default`\n"), "{ended}");
    // 15 % less is within the quarter of this one.
    mcplane(&["gate", &base, &slower, "--profile", "cmcp-inline"], LIMIT).ok();
    let ended = mcplane(&["gate", &base, &base, "--assert", "p99<1ms"], LIMIT).code(1);
    assert!(
        ended.stdout.ends_with("regression by the profile `default` and --assert\n"),
        "{ended}"
    );
    mcplane(&["gate", &base, &base, "--assert", "rss<1MiB"], LIMIT).code(3);
    let ended = mcplane(&["gate", &base, &base, "--profile", "none"], LIMIT).code(2);
    assert!(ended.stderr.contains("cmcp-http"), "{ended}");
    let report = mcplane(&["gate", &base, &slower, "--json", "-"], LIMIT).code(1).stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["outcome"], "regression");
}

#[test]
fn runs_at_different_rates_are_not_the_same_run() {
    let slow = written("slow.json", begun_at(1000.0));
    let fast = written("fast.json", begun_at(2000.0));
    for (base, result, rate) in [(&slow, &fast, "1000"), (&fast, &slow, "2000")] {
        let ended = mcplane(&["gate", base, result], LIMIT).code(3);
        assert!(ended.stdout.contains(&format!("s stdio echo @{rate}/s ≤4\n")), "{ended}");
        assert!(ended.stdout.contains("no such run") && !ended.stdout.contains('%'), "{ended}");
    }
    mcplane(&["gate", &slow, &slow], LIMIT).ok();
}

#[test]
fn a_workflow_gets_annotations_and_a_summary() {
    let (base, slower) = (written("base.json", result(1000.0)), written("slow", result(850.0)));
    let summary = file("summary.md");
    fs::write(&summary, "before\n").unwrap();
    let github = |set: &[&str], more: &[&str]| -> Ended {
        let gate = [binary(), "gate", &base, &slower, "--github"];
        let line = [&["env"], set, &gate, more].concat();
        run(&line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), LIMIT).code(1)
    };
    let set = format!("GITHUB_STEP_SUMMARY={}", summary.display());
    let ended = github(&[&set], &[]);
    assert!(ended.stdout.contains("\n::error title=mcplane gate%3A regression::"), "{ended}");
    let text = fs::read_to_string(&summary).unwrap();
    assert!(text.starts_with("before\n### mcplane gate: regression"), "{text}");
    assert!(text.contains("| s stdio echo ×4 | throughput | 1,000/s | 850/s |"), "{text}");
    // Outside of a job it is shown; beside JSON on stdout so are the annotations.
    let ended = github(&["-u", "GITHUB_STEP_SUMMARY"], &["--json", "-"]);
    assert!(serde_json::from_str::<Value>(&ended.stdout).is_ok(), "{ended}");
    assert!(
        ended.stderr.contains("### mcplane gate") && ended.stderr.contains("::error"),
        "{ended}"
    );
}

#[test]
fn what_cannot_be_judged_or_written_is_usage() {
    let base = written("base.json", result(1000.0));
    let less = written("less.json", r#"{"instructions": {"a": -5}}"#);
    let ended = mcplane(&["gate", &less, &less], LIMIT).code(2);
    assert!(ended.stderr.contains("less.json: ") && ended.stderr.contains("below zero"), "{ended}");
    mcplane(&["gate", &base, "/nowhere/result.json"], LIMIT).code(2);
    mcplane(&["gate", &base], LIMIT).code(2);
    let ended = mcplane(&["gate", &base, &base, "--json", "/nowhere/gate.json"], LIMIT).code(2);
    assert!(ended.stderr.contains("cannot write /nowhere/gate.json"), "{ended}");
}

#[test]
fn nobody_has_to_read_it() {
    let (base, slower) = (written("base.json", result(1000.0)), written("slow", result(850.0)));
    let report = file("gate.json");
    assert_eq!(unread(&["gate", &base, &base, "--json", report.to_str().unwrap()]), "0");
    assert!(fs::read_to_string(report).unwrap().contains("\"outcome\": \"pass\""));
    assert_eq!(unread(&["gate", &base, &slower]), "1");
    assert_eq!(unread(&["gate", &base, &slower, "--json", "-", "--github"]), "1");
    assert_eq!(unread(&["gate", &base, "/nowhere/result.json"]), "2");
}
