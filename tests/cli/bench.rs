//! `mcplane bench`: what is refused, what breaks off, and what the report holds then; commands and
//! servers that listen.

use std::{fs, net::TcpListener, path::Path, time::Duration};

use mcplane_tests::child::{Listening, binary, mcplane, start_mcplane};
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
        (&["--find-limit", "errors=0", "--concurrency", "2,64"], "takes one --concurrency"),
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
fn ctrl_c_leaves_assertions_untold() {
    let (junit, sign) = (file("bench.xml"), file("measuring"));
    let script = server::script(100, &format!(": > '{}'", sign.display()));
    let options = ["bench", "-d", "10m", "-c", "2", "--warmup", "10", "--assert", "p50<60s"];
    let rest = ["--junit", junit.to_str().unwrap(), "--", "sh", "-c", &script];
    let running = start_mcplane(&[&options[..], &rest].concat(), "");
    wait_for(&sign);
    running.interrupt();
    let ended = running.wait(LIMIT).code(3).left_nothing();
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("<error message=\"interrupted\">"), "{ended}\n{xml}");
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

#[test]
fn a_server_that_listens_is_measured_beside_a_floor() {
    for (transport, revision) in [
        ("http", "2026-07-28"),
        ("http", "2025-11-25"),
        ("sse", "2024-11-05"),
        ("tcp", "2026-07-28"),
    ] {
        let server = Listening::start(&["--transport", transport]);
        // Named or found, it is the same process.
        let pid = server.pid().to_string();
        let named = ["--pid", &pid];
        let named: &[&str] = if revision == "2026-07-28" { &named } else { &[] };
        let options = ["bench", "-n", "120", "-c", "4", "--warmup", "10", "--json", "-"];
        let way = ["--revision", revision, &server.url];
        let over: &[&str] = if transport == "sse" { &["--transport", "sse"] } else { &[] };
        let ended = mcplane(&[&options[..], &way, over, named].concat(), LIMIT).ok().left_nothing();
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        let run = &report["runs"][0];
        let target = &run["target"];
        assert_eq!(
            (&target["transport"], &target["revision"]),
            (&transport.into(), &revision.into())
        );
        for side in ["results", "floor"] {
            assert_eq!((&run[side]["calls_ok"], errors(&run[side])), (&120.into(), 0), "{run:#}");
        }
        if cfg!(target_os = "linux") {
            let cpu = &run["results"]["resources"]["cpu_ns_per_call"];
            assert!(cpu.as_f64().unwrap() > 0.0, "{run:#}");
            let row = &run["results"]["resources_seconds"][0];
            assert!(
                row["fds"].as_u64() > Some(0) && row["rss_bytes"].as_u64() > Some(0),
                "{run:#}"
            );
        }
    }
}

#[test]
fn a_header_is_sent_and_never_shown() {
    let server = Listening::start(&["--transport", "http"]);
    let (path, url) = (file("bench.json"), &server.url);
    let options = ["bench", "-n", "20", "-c", "2", "--warmup", "5", "--no-floor"];
    let json = ["--header", "X-Key: hunter2", "--json", path.to_str().unwrap(), url];
    let ended = mcplane(&[&options[..], &json].concat(), LIMIT).ok().left_nothing();
    for part in ["over http", "20 calls"] {
        assert!(ended.stdout.contains(part), "no {part:?} in {ended}");
    }
    let shown = [ended.stdout, ended.stderr, fs::read_to_string(&path).unwrap()].concat();
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_server_that_does_not_listen_is_one_clear_line() {
    // A port that was free a moment ago.
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for scheme in ["http", "https", "ws", "tcp"] {
        let url = format!("{scheme}://{at}");
        let ended = mcplane(&["bench", "-n", "1", &url], LIMIT).code(3).left_nothing();
        assert!(ended.stdout.is_empty() && ended.stderr.lines().count() == 1, "{ended}");
        for part in [url.as_str(), "cannot connect", "refused"] {
            assert!(ended.stderr.contains(part), "no {part:?} in {ended}");
        }
    }
    let ended = mcplane(&["bench", "ftp://somewhere"], LIMIT).code(2);
    assert!(ended.stderr.contains("ftp is not spoken; http, https"), "{ended}");
}

#[test]
fn a_server_behind_tls_is_trusted_by_its_authority_only() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/mcplane/tests/data");
    let pem = |name: &str| data.join(name).to_str().unwrap().to_owned();
    let (ca, cert, key) =
        (pem("test-only-ca.pem"), pem("test-only-first.pem"), pem("test-only-first.key.pem"));
    let options = ["--transport", "http", "--tls-cert", &cert, "--tls-key", &key];
    let server = Listening::start(&options);
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let words = ["bench", "-n", "40", "-c", "2", "--warmup", "5", &server.url];
    let ended = mcplane(&[&words[..], &["--ca", &ca]].concat(), LIMIT).ok().left_nothing();
    assert!(ended.stdout.contains("The floor speaks without TLS"), "{ended}");
    let ended = mcplane(&words, LIMIT).code(3).left_nothing();
    assert!(ended.stderr.contains("certificate"), "{ended}");
}

#[test]
fn every_transport_is_measured_in_one_run() {
    let path = file("bench.json");
    let options = ["bench", "--transports", "-n", "60", "-c", "2", "--warmup", "10", "--json"];
    let ended = mcplane(&[&options[..], &[path.to_str().unwrap()]].concat(), LIMIT);
    let ended = ended.left_nothing();
    let report: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!((&report["schema"], &report["together"]), (&"mcplane.bench/1".into(), &true.into()));
    let name = |run: &Value| {
        let word = |key: &str| run["target"][key].as_str().unwrap().to_owned();
        format!("{} {}", word("transport"), word("revision"))
    };
    let runs = report["runs"].as_array().unwrap();
    let names: Vec<_> = runs.iter().map(name).collect();
    let modern = ["memory", "stdio", "unix", "tcp", "ws", "http"];
    let mut all = modern.map(|transport| format!("{transport} 2026-07-28")).to_vec();
    all.extend(["http 2025-11-25".to_owned(), "sse 2024-11-05".to_owned()]);
    assert_eq!((names, report["missing"].as_array().map(Vec::len)), (all, Some(0)), "{ended}");
    for (run, name) in runs.iter().map(|run| (run, name(run))) {
        assert!(ended.stdout.contains(&name), "no {name:?} in {ended}");
        for side in ["results", "floor"] {
            assert_eq!((&run[side]["calls_ok"], errors(&run[side])), (&60.into(), 0), "{run:#}");
        }
    }
    ended.code(0);
}

/// The sum of the errors of every kind.
#[track_caller]
fn errors(results: &Value) -> u64 {
    let kinds = results["errors"].as_object().unwrap_or_else(|| panic!("no errors: {results:#}"));
    assert_eq!(kinds.len(), 5, "{kinds:?}");
    kinds.values().map(|count| count.as_u64().unwrap()).sum()
}
