//! `mcplane bench`: what is refused, what breaks off, and what the report holds then.

use std::{fs, time::Duration};

use mcplane_tests::child::{binary, mcplane, start_mcplane};
use serde_json::Value;

use crate::{LIMIT, file, server, wait_for};

#[test]
fn a_tool_that_fails_is_refused_with_its_own_words() {
    let ended = mcplane(&["bench", "--tool", "fail", "--", binary(), "fixture"], LIMIT);
    let ended = ended.code(1).left_nothing();
    assert!(ended.stdout.is_empty(), "nothing is published: {ended}");
    for part in ["this tool fails, always", "isError", "--tool NAME"] {
        assert!(ended.stderr.contains(part), "no {part:?} in {ended}");
    }
}

#[test]
fn arguments_that_the_server_rejects_are_refused_with_its_words() {
    let args = ["--tool", "echo", "--args", r#"{"message":17}"#, "--", binary(), "fixture"];
    let ended = mcplane(&[&["bench"], &args[..]].concat(), LIMIT).code(1).left_nothing();
    assert!(ended.stdout.is_empty() && ended.stderr.contains("message"), "{ended}");
}

#[test]
fn a_tool_that_is_not_there_is_refused_with_those_that_are() {
    let ended = mcplane(&["bench", "--tool", "ehco", "--", binary(), "fixture"], LIMIT);
    let ended = ended.code(1).left_nothing();
    assert!(ended.stdout.is_empty(), "{ended}");
    assert!(ended.stderr.contains("no tool \"ehco\"; it has echo, add"), "{ended}");
}

#[test]
fn a_call_that_hangs_is_refused_with_the_last_words() {
    let script = server::script(1, "echo 'lost in thought' >&2; sleep 600");
    let words = ["bench", "--timeout", "500ms", "--", "sh", "-c", &script, "the-server"];
    let ended = mcplane(&words, LIMIT).code(1).left_nothing();
    assert!(ended.stdout.is_empty(), "{ended}");
    for part in ["`sh -c ", "echo {} was not answered within 500ms", "| lost in thought"] {
        assert!(ended.stderr.contains(part), "no {part:?} in {ended}");
    }
}

#[test]
fn a_wrong_command_line_starts_nothing() {
    for (options, part) in [
        (&["--tool", "echo", "--args", r#"{"message": 1"#][..], "line 1 column 13"),
        (&["--tool", "echo", "--args", "[1]"], "--args: got [1]"),
        (&["--args", "{}"], "--tool"),
        (&["--concurrency", "0"], "--concurrency"),
        (&["--requests", "1", "--duration", "1s"], "--duration"),
        (&["--duration", "1 day"], "units are ms, s, m and h"),
        (&["--era", "2026"], "--era"),
    ] {
        let started = file("started");
        let script = format!("touch '{}'", started.display());
        let words = [&["bench"], options, &["--", "sh", "-c", &script]].concat();
        let ended = mcplane(&words, LIMIT).code(2);
        assert!(ended.stdout.is_empty() && ended.stderr.contains(part), "no {part:?} in {ended}");
        assert!(!started.exists(), "{ended}");
    }
}

#[test]
fn the_report_is_there_for_people_and_for_machines() {
    let path = file("bench.json");
    let options = ["-n", "300", "-c", "1,4", "--warmup", "20", "--json", path.to_str().unwrap()];
    let words = [&["bench"], &options[..], &["--", binary(), "fixture"]].concat();
    let ended = mcplane(&words, LIMIT).ok().left_nothing();
    for part in ["mcplane-fixture", "throughput", "p50", "floor", "300 calls", "CPU per call"] {
        assert!(ended.stdout.contains(part), "no {part:?} in {ended}");
    }
    let report: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(report["schema"], "mcplane.bench/1");
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!(run["results"]["calls_ok"], 300, "{run:#}");
        assert_eq!((errors(&run["results"]), errors(&run["floor"])), (0, 0), "{run:#}");
    }
}

#[test]
fn json_takes_the_place_of_the_table_on_stdout() {
    let options = ["bench", "-n", "50", "-c", "2", "--warmup", "5", "--no-floor", "--json", "-"];
    let words = [&options[..], &["--", binary(), "fixture"]].concat();
    let ended = mcplane(&words, LIMIT).ok().left_nothing();
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["runs"][0]["results"]["calls_ok"], 50);
}

#[test]
fn without_a_target_the_fixture_is_measured_over_memory_and_stdio() {
    let words = ["bench", "-n", "50", "-c", "2", "--warmup", "5", "--json", "-"];
    let ended = mcplane(&words, LIMIT).ok().left_nothing();
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for (run, transport) in runs.iter().zip(["memory", "stdio"]) {
        assert_eq!(run["target"]["transport"], transport, "{run:#}");
        assert_eq!(run["results"]["calls_ok"], 50, "{run:#}");
    }
}

/// The validation makes three calls and the warm-up ten; the rest is measured.
#[test]
fn a_server_that_dies_in_the_middle_leaves_a_report() {
    let path = file("bench.json");
    let script = server::script(200, "echo 'lost the plot' >&2; exit 9");
    let options = ["bench", "-d", "60s", "-c", "4", "--warmup", "10", "--timeout", "20s"];
    let json = ["--no-floor", "--json", path.to_str().unwrap(), "--", "sh", "-c", &script];
    let ended = mcplane(&[&options[..], &json].concat(), LIMIT).code(1).left_nothing();
    for part in ["186 calls", "exited with code 9", "| lost the plot"] {
        assert!(ended.stdout.contains(part), "no {part:?} in {ended}");
    }
    let report: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let run = &report["runs"][0];
    assert_eq!(run["results"]["calls_ok"], 186, "{run:#}");
    // Up to four were in flight: how many depends on who of the two was quicker.
    let lost = run["results"]["errors"]["transport"].as_u64().unwrap();
    assert!((1..=4).contains(&lost) && lost == errors(&run["results"]), "{run:#}");
    assert!(run["broken"].as_str().unwrap().contains("exited with code 9"), "{run:#}");
}

#[test]
fn ctrl_c_prints_the_results_so_far() {
    let (path, sign) = (file("bench.json"), file("measuring"));
    let script = server::script(100, &format!(": > '{}'", sign.display()));
    let options = ["bench", "-d", "10m", "-c", "2", "--warmup", "10"];
    let json = ["--json", path.to_str().unwrap(), "--", "sh", "-c", &script];
    let running = start_mcplane(&[&options[..], &json].concat(), "");
    wait_for(&sign);
    running.interrupt();
    let ended = running.wait(LIMIT).left_nothing();
    for part in ["throughput", "the results so far"] {
        assert!(ended.stdout.contains(part), "no {part:?} in {ended}");
    }
    let report: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let run = &report["runs"][0];
    assert_eq!(run["interrupted"], true);
    assert!(run["results"]["calls_ok"].as_u64().unwrap() >= 80, "{run:#}");
    assert_eq!(errors(&run["results"]), 0, "{run:#}");
    ended.ok();
}

#[test]
fn ctrl_c_before_there_is_a_result_says_so() {
    let sign = file("started");
    let script = format!("read -r line; : > '{}'; sleep 600", sign.display());
    let running = start_mcplane(&["bench", "--", "sh", "-c", &script], "");
    wait_for(&sign);
    running.interrupt();
    let ended = running.wait(LIMIT).code(130).left_nothing();
    assert!(ended.stdout.is_empty() && ended.stderr.contains("stopped before"), "{ended}");
}

#[test]
fn a_bench_that_is_killed_leaves_no_process_behind() {
    let sign = file("measuring");
    let stubborn = format!("(trap '' TERM; sleep 600; :) & trap '' TERM; : > '{}'", sign.display());
    let script = server::script(100, &stubborn);
    let running = start_mcplane(&["bench", "-d", "10m", "--", "sh", "-c", &script], "");
    wait_for(&sign);
    running.wait(Duration::ZERO).left_nothing();
}

/// The sum of the errors of every kind.
#[track_caller]
fn errors(results: &Value) -> u64 {
    let kinds = results["errors"].as_object().unwrap_or_else(|| panic!("no errors: {results:#}"));
    assert_eq!(kinds.len(), 5, "{kinds:?}");
    kinds.values().map(|count| count.as_u64().unwrap()).sum()
}
