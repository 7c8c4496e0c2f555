use serde_json::{Value, json};

use super::*;
use crate::results::tests::sample;
use crate::results::{Environment, Errors};

/// A result whose slices have these throughputs, and latencies that go with them.
fn result(slices: &[f64]) -> Value {
    let slice = |rate: &f64| {
        json!({"calls_ok": 1000, "wall_ns": 1, "throughput_per_s": rate,
            "p50_ns": (1e9 / rate) as u64, "p99_ns": (3e9 / rate) as u64})
    };
    let mean = slices.iter().sum::<f64>() / slices.len() as f64;
    let mut run = serde_json::to_value(sample(10_000, false)).unwrap();
    run["plan"]["concurrency"] = json!(4);
    run["results"]["throughput_per_s"] = json!(mean);
    run["results"]["latency"] = json!({"count": 10000, "p50_ns": (1e9 / mean) as u64,
        "p95_ns": (2e9 / mean) as u64, "p99_ns": (3e9 / mean) as u64});
    run["results"]["resources"] = json!({"rss_bytes_max": 10_485_760, "samples": 1});
    run["results"]["slices"] = slices.iter().map(slice).collect();
    let environment = Environment::look();
    json!({"schema": "mcplane.bench/1", "unknown": 1, "environment": environment, "runs": [run]})
}

fn judged(before: &Value, after: &Value, profile: &str, assertions: &str) -> Gate {
    let read = |value: &Value| Recorded::parse(&value.to_string()).unwrap();
    let assertions = match assertions {
        "" => Assertions::default(),
        text => text.parse().unwrap(),
    };
    gate(&read(before), &read(after), &Profile::named(profile).unwrap(), &assertions)
}

fn outcome(gate: &Gate, what: &str) -> Outcome {
    gate.findings.iter().find(|finding| finding.what == what).unwrap().outcome
}

const STEADY: [f64; 6] = [1000.0, 1010.0, 990.0, 1005.0, 995.0, 1000.0];

#[test]
fn the_same_passes() {
    let same = judged(&result(&STEADY), &result(&STEADY), "default", "");
    assert_eq!(same.outcome, Outcome::Pass, "{same:#?}");
    let named: Vec<_> = same.findings.iter().map(|finding| finding.what.as_str()).collect();
    assert_eq!(named, ["call_bytes", "result_bytes", "error_rate", "rss", "throughput", "p95"]);
    assert!(same.findings[5].note.contains("by p99"));
}

#[test]
fn a_leak_is_a_regression_and_a_short_run_says_nothing() {
    let with = |slope: f64, flagged: bool| {
        let mut result = result(&STEADY);
        result["runs"][0]["drift"] = json!([{"metric": "rss", "slope_per_min": slope, "flagged": flagged, "p": 0.001,
                "interval": [slope, slope]}]);
        result
    };
    let leaks = judged(&result(&STEADY), &with(2_097_152.0, true), "default", "");
    assert_eq!(outcome(&leaks, "leak"), Outcome::Regression);
    let leak = leaks.findings.iter().find(|finding| finding.what == "leak").unwrap();
    assert_eq!((leak.baseline.as_str(), leak.result.as_str()), ("n/a", "2.0 MiB/min"));
    assert!(leak.limit.chars().count() <= 20, "`{}` is wider than its column", leak.limit);
    let steady = judged(&with(100.0, false), &with(100.0, false), "default", "");
    assert_eq!(outcome(&steady, "leak"), Outcome::Pass);
}

#[test]
fn a_loss_beyond_the_limit_is_a_regression() {
    let slower = result(&STEADY.map(|rate| 0.85 * rate));
    let found = judged(&result(&STEADY), &slower, "default", "");
    assert_eq!(outcome(&found, "throughput"), Outcome::Regression);
    assert_eq!(outcome(&found, "p95"), Outcome::Regression);
    assert_eq!(found.outcome.exit_code(), 1);
    // 15 % less is within 25 % and, in latency, within 40 %.
    assert_eq!(judged(&result(&STEADY), &slower, "cmcp-inline", "").outcome, Outcome::Pass);
    // And a gain never is.
    assert_eq!(judged(&slower, &result(&STEADY), "default", "").outcome, Outcome::Pass);
}

#[test]
fn noise_cannot_be_told_through() {
    let noisy = result(&[700.0, 1400.0, 500.0, 1600.0, 900.0, 950.0]);
    let found = judged(&result(&STEADY), &noisy, "default", "");
    assert_eq!(outcome(&found, "throughput"), Outcome::CannotTell);
    assert_eq!(found.outcome.exit_code(), 3);
    let alone = judged(&result(&STEADY[..2]), &result(&STEADY[..2]), "default", "");
    assert_eq!(outcome(&alone, "throughput"), Outcome::CannotTell);
}

#[test]
fn a_single_run_of_each_does_not_tell_what_lies_within_the_noise_of_runs() {
    let slower = result(&STEADY.map(|rate| 0.895 * rate));
    let found = judged(&result(&STEADY), &slower, "default", "");
    assert_eq!(outcome(&found, "throughput"), Outcome::CannotTell);
    // Without p99 in the slices nothing stands in for it.
    let mut few = result(&STEADY);
    for slice in few["runs"][0]["results"]["slices"].as_array_mut().unwrap() {
        slice["p99_ns"] = json!(null);
    }
    let found = judged(&few, &few, "default", "");
    assert_eq!(outcome(&found, "p95"), Outcome::CannotTell);
}

#[test]
fn runs_are_the_unit_where_there_are_enough() {
    let mut many = result(&STEADY);
    let run = many["runs"][0].clone();
    many["runs"] = [1000.0, 980.0, 1020.0, 1010.0]
        .map(|rate| {
            let mut run = run.clone();
            run["results"]["throughput_per_s"] = json!(rate);
            run
        })
        .into();
    let found = judged(&many, &many, "default", "");
    let throughput = found.findings.iter().find(|finding| finding.what == "throughput").unwrap();
    assert_eq!((throughput.note.as_str(), throughput.outcome), ("over runs", Outcome::Pass));
}

#[test]
fn what_is_the_same_at_every_run_needs_no_interval() {
    let mut more = result(&STEADY);
    more["runs"][0]["target"]["call_bytes"] = json!(102);
    let found = judged(&result(&STEADY), &more, "default", "");
    assert_eq!(outcome(&found, "call_bytes"), Outcome::Regression);
    let counts = |n: f64| json!({"compiler": "rustc 1", "instructions": {"echo": n}});
    assert_eq!(judged(&counts(1000.0), &counts(1009.0), "default", "").outcome, Outcome::Pass);
    let more = judged(&counts(1000.0), &counts(1011.0), "default", "");
    assert_eq!(outcome(&more, "instructions of echo"), Outcome::Regression);
    let gone = judged(&counts(1.0), &json!({"allocations": {"echo": 1.0}}), "default", "");
    assert_eq!(gone.outcome, Outcome::CannotTell);
}

#[test]
fn errors_and_broken_runs_fail() {
    let mut wrong = result(&STEADY);
    wrong["runs"][0]["results"]["errors"]["timeout"] = json!(3);
    assert_eq!(judged(&result(&STEADY), &wrong, "default", "").outcome, Outcome::Regression);
    assert_eq!(judged(&result(&STEADY), &wrong, "erlmcp", "").outcome, Outcome::Pass);
    let mut broken = result(&STEADY);
    broken["runs"][0]["broken"] = json!("it ended");
    assert_eq!(judged(&result(&STEADY), &broken, "erlmcp", "").outcome, Outcome::Regression);
}

#[test]
fn an_interrupted_run_passes_nothing() {
    let mut short = result(&STEADY);
    short["runs"][0]["interrupted"] = json!(true);
    assert_eq!(judged(&result(&STEADY), &short, "default", "").outcome, Outcome::CannotTell);
    for (before, after, note) in [
        (&short, &result(&STEADY), "the run of the baseline was interrupted"),
        (&result(&STEADY), &short, "the run of the result was interrupted"),
        (&short, &short, "both runs were interrupted"),
    ] {
        let found = judged(before, after, "default", "");
        let told = found.findings.iter().find(|finding| finding.what == "error_rate").unwrap();
        assert_eq!((found.outcome, told.note.as_str()), (Outcome::CannotTell, note));
    }
    short["runs"][0]["results"]["errors"]["timeout"] = json!(3);
    assert_eq!(judged(&result(&STEADY), &short, "default", "").outcome, Outcome::Regression);
}

/// A search that found this rate, with the runs at it and at the next one, where calls fail.
fn searched(limit: Option<f64>) -> Value {
    let rate = limit.unwrap_or(9.0);
    let (mut search, mut fails) = (at(rate), at(1.03 * rate));
    fails["runs"][0]["results"]["errors"]["timeout"] = json!(500);
    let runs = search["runs"].as_array_mut().unwrap();
    if limit.is_none() {
        runs.clear();
    }
    runs.push(fails["runs"][0].take());
    search["limit"] = json!({"conditions": "errors=0", "limit_per_s": limit, "unfinished": null,
        "failed": [], "probes": []});
    search
}

#[test]
fn of_a_search_the_rate_is_judged_that_holds() {
    use Outcome::{CannotTell, Pass, Regression};
    for (before, after, profile, outcome) in [
        (Some(200.0), Some(200.0), "default", Pass),
        (Some(200.0), Some(181.0), "default", Pass),
        (Some(200.0), Some(180.0), "default", Regression),
        (Some(200.0), Some(160.0), "cmcp-inline", Pass),
        (Some(200.0), Some(900.0), "default", Pass),
        (Some(200.0), None, "default", Regression),
        (None, Some(200.0), "default", CannotTell),
        (None, None, "default", CannotTell),
    ] {
        let found = judged(&searched(before), &searched(after), profile, "");
        assert_eq!((found.outcome, found.findings.len()), (outcome, 1), "{found:#?}");
        assert_eq!(found.findings[0].what, "limit");
    }
    let found = judged(&searched(Some(200.0)), &searched(Some(190.0)), "default", "");
    let Finding { run, baseline, result, ratio, limit, note, .. } = &found.findings[0];
    assert_eq!(run, "s stdio echo @limit ≤4 errors=0");
    assert_eq!((baseline.as_str(), result.as_str(), limit.as_str()), ("200/s", "190/s", "−10.0 %"));
    assert_eq!(
        (ratio.unwrap().value, note.as_str()),
        (0.95, "within 3 %: the precision of the search")
    );
}

#[test]
fn a_search_is_compared_with_one_for_the_same() {
    let one = searched(Some(200.0));
    let mut other = one.clone();
    other["limit"]["conditions"] = json!("p99<50ms");
    for (before, after) in [(&one, &other), (&one, &at(200.0)), (&at(200.0), &one)] {
        let found = judged(before, after, "default", "");
        assert_eq!((found.outcome, found.findings.len()), (Outcome::CannotTell, 1), "{found:#?}");
        assert_eq!(found.findings[0].what, "presence");
    }
    let mut short = one.clone();
    short["limit"]["unfinished"] = json!("it was stopped");
    for (before, after, part) in [(&short, &one, "the baseline"), (&one, &short, "the result")] {
        let found = judged(before, after, "default", "");
        assert_eq!(found.outcome, Outcome::CannotTell);
        assert!(found.findings[0].note.contains(part), "{found:#?}");
    }
}

#[test]
fn assertions_on_a_search_are_about_the_run_that_holds() {
    let of = |limit, text: &str| {
        let found = judged(&searched(Some(200.0)), &searched(limit), "default", text);
        (found.outcome, found.findings.len())
    };
    assert_eq!(of(Some(200.0), "errors=0,p99<5ms"), (Outcome::Pass, 3));
    assert_eq!(of(Some(200.0), "p99<1ms"), (Outcome::Regression, 2));
    assert_eq!(of(None, "p99<1ms"), (Outcome::Regression, 1));
}

#[test]
fn assertions_are_about_the_result() {
    let of = |text: &str| judged(&result(&STEADY), &result(&STEADY), "default", text).outcome;
    assert_eq!(of("p99<5ms,errors=0,rss<=10MiB"), Outcome::Pass);
    assert_eq!(of("p99<5ms,throughput>2000/s"), Outcome::Regression);
    assert_eq!(of("p99.9<1s"), Outcome::CannotTell);
}

#[test]
fn a_run_that_is_gone_is_told() {
    let mut other = result(&STEADY);
    other["runs"][0]["plan"]["tool"] = json!("add");
    let found = judged(&result(&STEADY), &other, "default", "");
    assert_eq!((found.outcome, found.findings.len()), (Outcome::CannotTell, 1));
}

/// A result whose plan has this, too.
fn planned(key: &str, value: Value) -> Value {
    let mut result = result(&STEADY);
    result["runs"][0]["plan"][key] = value;
    result
}

fn at(rate: f64) -> Value {
    let even = json!({"shape": "rate", "per_s": rate, "spacing": "constant", "seed": 1});
    planned("arrivals", even)
}

#[test]
fn another_load_is_another_run() {
    let found = judged(&at(1000.0), &at(2000.0), "default", "");
    assert_eq!((found.outcome, found.findings.len()), (Outcome::CannotTell, 1), "{found:#?}");
    assert_eq!(found.findings[0].run, "s stdio echo @1000/s ≤4");
    assert_eq!(found.findings[0].note, "the result has no such run");
    let think = |ms: u64| planned("think", json!({"mean_ns": ms * 1_000_000, "exponential": true}));
    for (a, b) in [
        (at(1000.0), result(&STEADY)),
        (think(60), think(5)),
        (think(60), result(&STEADY)),
        (mixed(&[("echo", 3.0), ("add", 1.0)]), mixed(&[("echo", 1.0), ("add", 1.0)])),
        (mixed(&[("echo", 3.0), ("add", 1.0)]), result(&STEADY)),
    ] {
        for (a, b) in [(&a, &b), (&b, &a)] {
            assert_eq!(judged(a, b, "default", "").findings[0].what, "presence", "{a:#} {b:#}");
            assert_eq!(judged(a, a, "default", "").outcome, Outcome::Pass, "{a:#}");
        }
    }
}

/// A result of a mix of these tools with their weights.
fn mixed(tools: &[(&str, f64)]) -> Value {
    let mut result = result(&STEADY);
    let tools = tools.iter().map(|(name, weight)| {
        json!({"name": name, "weight": weight, "check": "equal", "calls_sent": 1, "calls_ok": 1,
            "errors": Errors::default(), "latency": {"count": 1}, "latency_histogram": ""})
    });
    result["runs"][0]["results"]["tools"] = tools.collect();
    result
}

#[test]
fn loads_have_names() {
    let named = |key, value: Value| {
        let text = planned(key, value).to_string();
        Recorded::parse(&text).unwrap().groups()[0].name.clone()
    };
    let burst = json!({"shape": "burst", "calls": 50, "every_ns": 1_000_000_000_u64,
        "spacing": "constant", "seed": 1});
    assert_eq!(named("arrivals", burst), "s stdio echo @50/1s ≤4");
    let ramp = json!({"shape": "ramp", "from_per_s": 1.5, "to_per_s": 20.0, "spacing": "poisson",
        "seed": 1});
    assert_eq!(named("arrivals", ramp), "s stdio echo @1.5..20/s poisson ≤4");
    let think = json!({"mean_ns": 5_000_000, "exponential": false});
    assert_eq!(named("think", think), "s stdio echo ×4 think 5ms");
    let text = mixed(&[("echo", 3.0), ("add", 0.5)]).to_string();
    let name = Recorded::parse(&text).unwrap().groups()[0].name.clone();
    assert_eq!(name, "s stdio echo 3 + add 0.5 ×4");
}

#[test]
fn rungs_of_a_ladder_are_no_repetitions() {
    let mut ladder = result(&STEADY);
    ladder["runs"] = [500.0, 1000.0, 2000.0].map(|rate| at(rate)["runs"][0].take()).into();
    let found = judged(&ladder, &ladder, "default", "");
    let all = found.findings.iter().filter(|finding| finding.what == "throughput");
    let runs: Vec<_> = all.map(|finding| finding.run.as_str()).collect();
    assert_eq!(runs, ["500", "1000", "2000"].map(|rate| format!("s stdio echo @{rate}/s ≤4")));
}

#[test]
fn a_file_that_is_no_result_is_refused() {
    let mut less = result(&STEADY);
    less["runs"][0]["counts"] = json!({"syscalls": -1.0});
    for (text, part) in [
        ("{}", "names no \"schema\""),
        ("[]", "not a result"),
        ("{\"schema\":\"mcplane.bench/1\",\"runs\":[{}]}", "plan"),
        ("{\"instructions\":{\"a\":-5}}", "instructions of a is -5, and no count is below zero"),
        (&less.to_string(), "syscalls is -1"),
    ] {
        let error = Recorded::parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
