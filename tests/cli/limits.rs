//! `mcplane bench` on a tool of known capacity: limits and knees must be where they are, assertions
//! decide, scenarios and cold starts say what they measured.

use std::{fs, net::TcpListener};

use mcplane_tests::child::{binary, mcplane};
use serde_json::Value;

use crate::{LIMIT, file};

/// What every measurement here has.
const QUICK: [&str; 5] = ["bench", "--no-floor", "--settle", "1ms", "--json"];

#[track_caller]
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Measures the fixture's `capacity`; gives the report.
fn capacity(args: &str, options: &[&str]) -> Value {
    let call = ["-", "--tool", "capacity", "--args", args];
    let server = ["--", binary(), "fixture", "--workers", "64"];
    let all = [&QUICK[..], &call, options, &server].concat();
    let ended = mcplane(&all, LIMIT).ok().left_nothing();
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Two at once, 10 ms each: 200 calls/s. The limit is within 5 %, and what is above fails.
#[test]
fn the_highest_rate_that_holds_is_the_capacity() {
    let find = ["--find-limit", "p90<50ms,errors=0", "-d", "1s", "--warmup", "20"];
    let report = capacity(r#"{"at_once":2,"ms":10}"#, &find);
    let limit = &report["limit"];
    let (holds, fails) = (number(&limit["limit_per_s"]), number(&limit["fails_at_per_s"]));
    assert!((190.0..=210.0).contains(&holds), "{limit:#}");
    assert!(fails > holds && fails / holds < 1.031, "{limit:#}");
    assert!(limit["unfinished"].is_null() && !limit["failed"].as_array().unwrap().is_empty());
    let probes = limit["probes"].as_array().unwrap();
    let at = |rate: f64| probes.iter().filter(|p| number(&p["rate_per_s"]) == rate).count();
    assert!(at(fails) >= 2, "what failed was tried again");
    // The two runs are those at the two rates.
    let rate = |index: usize| number(&report["runs"][index]["plan"]["arrivals"]["per_s"]);
    assert_eq!((rate(0), rate(1)), (holds, fails));
}

/// A rate that was too high leaves calls with the server that nobody waits for any more: they are not
/// in the way of the next.
#[test]
fn what_overload_leaves_behind_is_not_measured() {
    let find = ["--find-limit", "errors=0", "-d", "1s", "--warmup", "20", "--timeout", "200ms"];
    let report = capacity(r#"{"at_once":2,"ms":10}"#, &find);
    let limit = &report["limit"];
    assert!((185.0..=215.0).contains(&number(&limit["limit_per_s"])), "{limit:#}");
    for probe in limit["probes"].as_array().unwrap() {
        let holds = probe["holds"].as_bool();
        assert!(holds == Some(true) || number(&probe["rate_per_s"]) > 180.0, "{limit:#}");
    }
}

/// Four at once, 20 ms each, and callers who do not know of each other: in a queue M/D/4 one call in ten
/// takes 50 ms or more from 168 calls/s on (163 if each takes 20.6 ms); evenly spaced ones never do
/// below 200.
#[test]
fn random_arrivals_find_their_limit_earlier() {
    let find = ["--find-limit", "p90<50ms", "-d", "2s", "--warmup", "20"];
    let random = ["--arrivals", "poisson", "--seed", "7"];
    let report = capacity(r#"{"at_once":4,"ms":20}"#, &[&find[..], &random].concat());
    let limit = &report["limit"];
    assert!((130.0..=190.0).contains(&number(&limit["limit_per_s"])), "{limit:#}");
    for run in report["runs"].as_array().unwrap() {
        let arrivals = &run["plan"]["arrivals"];
        assert_eq!((&arrivals["spacing"], &arrivals["seed"]), (&"poisson".into(), &7.into()));
    }
}

/// Four at once, 80 ms each, no think time: N* = C·S = 4, or a little more as waits end up to 2 ms
/// late.
#[test]
fn the_knee_is_where_the_servers_places_are_taken() {
    let ladder = ["--ladder", "1,2,4,8,16", "-d", "2s", "--warmup", "10"];
    let report = capacity(r#"{"at_once":4,"ms":80}"#, &ladder);
    let knee = &report["ladder"]["knee"];
    assert!((3.8..=4.4).contains(&number(&knee["load"])), "{:#}", report["ladder"]);
    assert!(number(&knee["throughput_per_s"]) <= 52.5, "{knee:#}");
    let runs = report["runs"].as_array().unwrap();
    let loads: Vec<_> = runs.iter().map(|run| number(&run["plan"]["concurrency"])).collect();
    assert_eq!(loads, [1.0, 2.0, 4.0, 8.0, 16.0]);
    assert!(runs.iter().all(|run| run["results"]["slices"].as_array().unwrap().len() == 4));
    assert!(runs.iter().zip(loads).all(|(run, n)| number(&run["results"]["in_flight_max"]) == n));
}

/// One at a time, 40 ms, and users who think for 60 ms: N* = C·(S + Z) = 25 · 0.1 = 2.5.
#[test]
fn the_knee_of_users_who_think_is_farther_out() {
    let folder = std::env::temp_dir().join(format!("mcplane-think-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("think.toml");
    let text = format!(
        "ladder = [1, 2, 4, 8]\nduration = \"2s\"\nthink = \"60ms\"\ntool = \"capacity\"\n\
         args = {{ at_once = 1, ms = 40 }}\nno_floor = true\nsettle = \"1ms\"\nwarmup = 5\n\
         [[targets]]\ncommand = [{:?}, \"fixture\", \"--workers\", \"64\"]\n",
        binary()
    );
    fs::write(&path, text).unwrap();
    let words = ["bench", "--scenario", path.to_str().unwrap(), "--json", "-"];
    let ended = mcplane(&words, LIMIT).ok().left_nothing();
    fs::remove_dir_all(&folder).unwrap();
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let knee = &report["ladder"]["knee"];
    assert!((2.3..=2.8).contains(&number(&knee["load"])), "{:#}", report["ladder"]);
    assert_eq!(report["runs"][0]["plan"]["think"]["mean_ns"], 60_000_000);
}

#[test]
fn assertions_decide_the_exit_code() {
    let args = r#"{"at_once":1,"ms":5}"#;
    let code = |assert: &str, code: i32| {
        let call = ["-", "--tool", "capacity", "--args", args, "-c", "1", "-n", "20"];
        let rest = ["--warmup", "1", "--assert", assert, "--", binary(), "fixture"];
        mcplane(&[&QUICK[..], &call, &rest].concat(), LIMIT).code(code);
    };
    code("errors=0,p50>=5ms", 0);
    code("p50<5ms", 1);
    // 20 calls have no p99.
    code("p99<10s", 3);
}

#[test]
fn no_rate_that_holds_is_a_failed_case() {
    let junit = file("limit.xml");
    let path = junit.to_str().unwrap();
    let find = ["bench", "--find-limit", "p50<1ns,errors=0", "-d", "100ms", "--warmup", "1"];
    let server = ["--no-floor", "--junit", path, "--", binary(), "fixture"];
    let ended = mcplane(&[&find[..], &server].concat(), LIMIT).code(1).left_nothing();
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("<failure message=\"no rate that was tried holds\">"), "{ended}\n{xml}");
}

#[test]
fn a_target_that_cannot_be_measured_is_recorded() {
    let [scenario, json, junit] = ["s.toml", "s.json", "s.xml"].map(file);
    let targets = [binary(), "/nonexistent/server", binary()];
    let target = |program| format!("[[targets]]\ncommand = [{program:?}, \"fixture\"]\n");
    let text = "requests = 20\nconcurrency = 1\nwarmup = 1\nno_floor = true\nsettle = \"1ms\"\n";
    fs::write(&scenario, text.to_owned() + &targets.map(target).concat()).unwrap();
    let words = ["bench", "--scenario", scenario.to_str().unwrap(), "--json"];
    let paths = [json.to_str().unwrap(), "--junit", junit.to_str().unwrap()];
    let ended = mcplane(&[&words[..], &paths].concat(), LIMIT).code(3).left_nothing();
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["runs"].as_array().map(Vec::len), Some(1), "{ended}");
    let missing = report["missing"].as_array().unwrap();
    assert_eq!(missing.len(), 2, "what was not tried is missing too: {missing:?}");
    assert!(missing[0]["why"].as_str().unwrap().contains("/nonexistent/server"), "{missing:?}");
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("tests=\"3\" failures=\"0\" errors=\"2\""), "{xml}");
}

#[test]
fn a_scenario_mixes_tools_and_checks_each() {
    let folder = std::env::temp_dir().join(format!("mcplane-mix-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("mix.toml");
    fs::write(folder.join("lines.txt"), "one\ntwo \"quoted\"\n").unwrap();
    let target = format!("[[targets]]\ncommand = [{:?}, \"fixture\"]\n", binary());
    let head = "requests = 400\nconcurrency = 8\nsessions = 2\nsettle = \"1ms\"\nwarmup = 10\nseed = 5\n\
        think = \"exponential 2ms\"\nassert = \"errors=0\"\n";
    let tools = r#"
[[tools]]
name = "echo"
weight = 6
args = { message = "number {n}" }
[[tools]]
name = "echo"
weight = 3
args = { message = "{uuid} {file:lines.txt} {zipf:100:1}" }
[[tools]]
name = "echo"
args = { message = "{size:10KiB}" }
"#;
    fs::write(&path, format!("{head}{target}{tools}")).unwrap();
    let file = path.to_str().unwrap();
    let ended = mcplane(&["bench", "--scenario", file, "--json", "-"], LIMIT).ok().left_nothing();
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let results = &report["runs"][0]["results"];
    let tools = results["tools"].as_array().unwrap();
    let checks: Vec<_> = tools.iter().map(|tool| tool["check"].as_str().unwrap()).collect();
    assert_eq!(checks, ["stamped", "varies", "equal"]);
    let ok: Vec<_> = tools.iter().map(|tool| number(&tool["calls_ok"])).collect();
    assert_eq!(ok.iter().sum::<f64>(), 400.0);
    // 240, 120 and 40 of them, within four binomial deviations.
    for (ok, want) in ok.iter().zip([240.0, 120.0, 40.0]) {
        let deviation = (want * (1.0 - want / 400.0_f64)).sqrt();
        assert!((ok - want).abs() < 4.0 * deviation, "{ok} for {want}");
    }
    // 16 users who think for 2 ms cannot all be in flight all the time.
    assert!(number(&results["in_flight_mean"]) < 15.0, "{}", results["in_flight_mean"]);
    fs::write(&path, "\nduration = \"soon\"\n").unwrap();
    let wrong = mcplane(&["bench", "--scenario", file], LIMIT).code(2);
    assert!(wrong.stderr.contains("mix.toml:2:12: duration: "), "{}", wrong.stderr);
    // What only the run can know has its place too.
    fs::write(&path, format!("requests = 1\npin = 4000\n{target}")).unwrap();
    let wrong = mcplane(&["bench", "--scenario", file], LIMIT).code(2).left_nothing();
    assert!(wrong.stderr.contains("mix.toml:2:1: pin: got 4000; it takes "), "{}", wrong.stderr);
    fs::remove_dir_all(&folder).unwrap();
}

/// A command that listens is one process for each start; a server that runs already is connected to.
#[test]
fn cold_starts_of_servers_that_listen() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (listen, url) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}/mcp"));
    let server = ["--", binary(), "fixture", "--transport", "http", "--listen", &listen];
    let head = ["bench", "--json", "-", "--cold-start", "6", "--listens", &url];
    let ended = mcplane(&[&head[..], &server].concat(), LIMIT).ok().left_nothing();
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let cold = &report["cold_start"];
    assert_eq!((&cold["fresh"], &cold["failed"]), (&"process".into(), &0.into()), "{cold:#}");
    let all = |name: &str| cold[name]["values_ns"].as_array().unwrap().iter().map(number);
    assert!(all("listens").zip(all("handshake")).all(|(listens, handshake)| listens < handshake));
    assert_eq!(all("listens").count(), 6);
}

#[test]
fn cold_starts_have_intervals() {
    let all = ["bench", "--json", "-", "--cold-start", "8", "--", binary(), "fixture"];
    let ended = mcplane(&all, LIMIT).ok().left_nothing();
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let cold = &report["cold_start"];
    assert_eq!((&cold["starts"], &cold["failed"]), (&8.into(), &0.into()));
    let median = |name: &str| number(&cold[name]["median_ns"]);
    assert!(median("handshake") > 0.0 && median("handshake") <= median("ready"));
    assert!(median("first_call") > 0.0 && cold["tls"].is_null());
    let interval = &cold["handshake"]["median_interval_ns"];
    assert_eq!(
        (&interval[0], &interval[1]),
        (&cold["handshake"]["min_ns"], &cold["handshake"]["max_ns"])
    );
}

/// Long calls, many of them in flight all the time: what was sent is not kept.
#[cfg(target_os = "linux")]
#[test]
fn the_load_keeps_nothing_of_what_it_has_sent() {
    use mcplane_tests::child::{Listening, start_mcplane};
    const GROWN_KIB_MAX: u64 = 32 * 1024;
    let http = Listening::start(&["--transport", "http", "--accept-rate", "0"]);
    let call = serde_json::json!({"message": "x".repeat(64 * 1024)}).to_string();
    for server in [&["--", binary(), "fixture"][..], &[&http.url]] {
        let load = ["--concurrency", "64", "--duration", "4s", "--warmup", "1s", "--args", &call];
        let bench =
            start_mcplane(&[&QUICK[..], &["-", "--tool", "echo"], &load, server].concat(), "");
        let status = format!("/proc/{}/status", bench.pid());
        let resident = || {
            let status = fs::read_to_string(&status).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            line.trim().trim_end_matches(" kB").parse::<u64>().ok()
        };
        let taken: Vec<u64> = std::iter::from_fn(|| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            resident()
        })
        .collect();
        let ended = bench.wait(LIMIT).ok().left_nothing();
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        let calls = number(&report["runs"][0]["results"]["calls_ok"]);
        assert!(calls > 300.0 && taken.len() > 40, "{calls} calls, {taken:?}");
        let grown = taken.iter().max().unwrap() - taken[20];
        assert!(grown <= GROWN_KIB_MAX, "{grown} KiB more, {calls} calls: {taken:?}");
    }
}
