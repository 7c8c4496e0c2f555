use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::results::Environment;
use crate::results::tests::sample;

fn rules(text: &str, severity: Severity) -> Vec<(&'static str, usize)> {
    let audit = lint(text).unwrap();
    let found = audit.findings.iter().filter(|finding| finding.severity == severity);
    found.map(|finding| (finding.rule, finding.line.unwrap_or(0))).collect()
}

fn impossible(text: &str) -> Vec<(&'static str, usize)> {
    rules(text, Severity::Impossible)
}

fn doubtful(text: &str) -> Vec<(&'static str, usize)> {
    rules(text, Severity::Doubtful)
}

fn unclear(text: &str) -> Vec<&'static str> {
    rules(text, Severity::Unclear).into_iter().map(|(rule, _)| rule).collect()
}

/// Tables without a fault, from other domains than those of the published ones.
const CONTROLS: [&str; 6] = [
    "server,runs,clients,requests,errors,requests/s,min_ms,mean_ms,p50_ms,p95_ms,p99_ms,max_ms\n\
     a,5,16,100000,0,3980.1,1.210,4.012,3.921,5.604,7.115,22.914\n\
     b,5,16,100000,0,5212.7,0.981,3.061,2.904,4.333,6.020,31.007\n",
    "# Load\n\n| rate | p50 (µs) | p99 (µs) | errors | runs |\n|---|---|---|---|---|\n\
     | 100 | 210.4 | 522.1 | 0 | 9 |\n| 200 | 214.9 | 601.7 | 0 | 9 |\n",
    r#"{"results": {"get": {"ops_per_sec": 50120.5, "avg_latency_us": 638.2, "in_flight": 32, "ok": 1503615,
      "duration_s": 30.0, "slices": 10}, "put": {"ops_per_sec": 20077.1, "avg_latency_us": 1593.8,
      "in_flight": 32, "ok": 602313, "duration_s": 30.0, "slices": 10}}}"#,
    "tool,in_flight,calls,errors,rounds,p50_ms,p95_ms,mean_ms\nfast,1,5000,0,5,1.21,1.93,1.34\n\
     slow,1,5000,0,5,51.22,60.10,52.73\nall,1,10000,0,5,30.51,58.02,27.04\n",
    "| server | connections | Req/s | Transfer/s | max req/s | Avg | Stdev | p99 | Max |\n|-|-|-|-|-|-|-|-|-|\n\
     | x | 64 | 41.2k | 9.81MB | 44.0k | 1.55ms | 0.21ms | 2.92ms | 14.11ms |\n\
     | y | 64 | 39.9k | 9.50MB | 43.1k | 1.60ms | 0.24ms | 3.05ms | 12.02ms |\n",
    r#"{"summary": {"successRate": 1.0, "total": 10.0012, "slowest": 0.021133, "fastest": 0.000241, "average": 0.001601,
      "requestsPerSec": 31003.2}, "latencyPercentiles": {"p50": 0.001522, "p90": 0.002107, "p99": 0.004811}}"#,
];

#[test]
fn sound_tables_are_let_be() {
    for text in CONTROLS {
        assert_eq!(impossible(text), [], "{text}");
        assert_eq!(doubtful(text), [], "{text}");
    }
}

#[test]
fn percentiles_rise_and_have_samples_behind_them() {
    let text = "run,n,p50_ms,p95_ms,p99_ms,max_ms\na,1000,5.11,4.90,9.31,12.1\nb,100,1.01,2.02,3.03,4.04\n";
    assert_eq!(impossible(text), [("monotone", 2)]);
    assert_eq!(doubtful(text), [("sample-minimum", 3)]);
    assert_eq!(
        doubtful("run,errors,p50_ms,p99_ms,max_ms\na,0,7.25,7.25,7.25\n"),
        [("same-percentiles", 2)]
    );
}

#[test]
fn percentiles_that_are_rounded_alike_rise_as_printed() {
    let head = "run,errors,p50_ms,p95_ms,p99_ms,max_ms\n";
    for figures in ["5.3,5.2,5.1,9.9", "5,4,3,9", "8.1,9.3,9.2,9.1"] {
        let text = format!("{head}a,0,{figures}\n");
        assert_eq!(impossible(&text), [("monotone", 2); 2], "{figures}");
    }
    // The end of a bucket lies above the greatest; figures that are rounded otherwise, or not exact.
    for figures in ["5.3,5.3,5.31,9.9", "5.1,5.2,100.1,100.0", "5.3,5.28,6.1,9", "~5.3,5.2,6.1,9"] {
        assert_eq!(impossible(&format!("{head}a,0,{figures}\n")), [], "{figures}");
    }
}

#[test]
fn nothing_that_is_counted_or_timed_is_below_zero() {
    let text = "run,errors,p50_ms,p99_ms\na,0,-5.31,7.02\n";
    assert_eq!((impossible(text), doubtful(text)), (vec![("negative", 2)], vec![]));
    for column in ["req/s", "errors", "requests", "duration_s", "clients", "mean_ms", "stddev_ms"] {
        let text = format!("run,p50_ms,{column}\na,5.31,-3\n");
        let wrong = impossible(&text);
        assert!(wrong.contains(&("negative", 2)), "{column}: {wrong:?}");
    }
    for column in
        ["p50_diff_ms", "p50 change (%)", "latency delta (ms)", "memory_mb", "overhead_us"]
    {
        assert_eq!(impossible(&format!("run,runs,{column}\na,5,-3\n")), [], "{column}");
    }
    assert_eq!(impossible("run,p50_ms\na,-3.1\nb,+2.2\n"), []);
    assert_eq!(impossible("run,p50\na,-3.1%\n"), []);
}

#[test]
fn a_coarse_clock_shows() {
    assert_eq!(doubtful("run,p50_us,p99_us\na,0,98\n"), [("clock-resolution", 2)]);
    assert_eq!(doubtful("run,p50_ms,p95_ms,p99_ms\na,10,20,40\n"), [("clock-resolution", 2)]);
    assert_eq!(doubtful("run,p50_us,p95_us,p99_us\na,103,207,411\n"), []);
}

#[test]
fn little_holds_the_stated_load_against_the_latencies() {
    let head = "run,in_flight,requests,req/s,mean_ms\n";
    assert_eq!(impossible(&format!("{head}a,10,10000,1000,20.0\n")), [("little", 2)]);
    assert_eq!(doubtful(&format!("{head}a,10,10000,1000,5.00\n")), [("little", 2)]);
    assert_eq!(impossible(&format!("{head}a,10,10000,1000,10000\n")), [("unit-scale", 2)]);
    let min = "run,in_flight,req/s,min_ms\na,4,1000,8.01\n";
    assert_eq!(impossible(min), [("closed-loop", 2)]);
    // Without a mean: half of the calls take at least 30 ms.
    let percentiles = "run,in_flight,n,req/s,p50_ms,p99_ms\na,10,10000,1000,30.0,31.0\n";
    assert_eq!(impossible(percentiles), [("little", 2)]);
}

#[test]
fn loads_that_are_none_are_named() {
    assert_eq!(doubtful("run,in_flight,requests,p50_ms\na,50,100,2.01\n"), [("burst", 2)]);
    let same = "name,in_flight,req/s\na,64,10012\nb,64,10025\nc,64,9987\n";
    assert_eq!(doubtful(same), [("generator-bound", 4)]);
    let flat = "name,in_flight,req/s\na,1,900\na,10,3010\na,40,3055\na,160,3020\n";
    assert!(unclear(flat).contains(&"flat-ladder"));
    assert!(unclear("name,in_flight,p50_ms\na,1,2.11\nb,1,3.11\n").contains(&"one-in-flight"));
    assert!(unclear("name,req/s,p50_ms\na,100,2.11\n").contains(&"concurrency-missing"));
}

#[test]
fn a_mean_lies_within_what_the_percentiles_allow() {
    let head = "run,n,min_ms,p50_ms,p99_ms,max_ms,mean_ms\n";
    for (mean, want) in [("0.90", 1), ("1.60", 0), ("4.80", 0), ("6.50", 1)] {
        let text = format!("{head}a,1000,1.00,2.00,8.00,20.0,{mean}\n");
        assert_eq!(impossible(&text).len(), want, "{mean}");
    }
}

#[test]
fn the_whole_lies_between_its_parts() {
    let parts = "case,n,p50_ms\na,500,2.00\nb,500,4.00\n";
    assert_eq!(impossible(&format!("{parts}total,1000,4.50\n")), [("mixture", 4)]);
    assert_eq!(impossible(&format!("{parts}total,1000,3.50\n")), []);
    let waits = "case,tools_fast,tools_1s,p50_ms,p90_ms\nx,3,1,1.20,900\n";
    assert_eq!(impossible(waits), [("mixture", 2)]);
    let cache = "case,hit_rate_%,mean_ms,median_ms\noff,0,100.5,99.1\non,90,5.1,0.11\n";
    assert_eq!(impossible(cache), [("cache-mixture", 3)]);
    let gap = "case,hit_rate_%,mean_ms,median_ms\noff,0,100.5,99.1\non,60,41.0,42.0\n";
    assert_eq!(doubtful(gap), [("cache-mixture", 3)]);
}

#[test]
fn a_wait_in_words_binds_the_figures() {
    assert_eq!(doubtful("case,p50_ms,note\na,5.01,sleeps 20 ms\n"), [("stated-wait", 2)]);
    assert_eq!(doubtful("case,p50_ms,note\na,210.3,20ms sleep\n"), [("stated-wait", 2)]);
    assert_eq!(doubtful("case,p50_ms,note\na,21.3,20ms sleep\n"), []);
}

#[test]
fn counts_add_up() {
    let balance = "case,sent,received,lost\na,1000,990,10\nb,1000,990,5\n";
    assert_eq!(impossible(balance), [("balance", 3)]);
    let success =
        "case,requests,errors,success rate\na,1000,10,99.0%\nb,1000,30,99.0%\nc,200,10,0.95\n";
    assert_eq!(impossible(success), [("success-rate", 3)]);
    let total =
        "case,duration_s,requests,req/s\na,10,1000,100.0\nb,10,1000,120.0\nc,10,1000,250.0\n";
    assert_eq!((doubtful(total), impossible(total)), (vec![("total", 3)], vec![("total", 4)]));
    assert_eq!(impossible("case,hit rate %\na,104\n"), [("percent", 2)]);
    assert_eq!(doubtful("case,improvement %\na,310\n"), [("improvement", 2)]);
}

#[test]
fn ratios_are_those_of_what_they_name() {
    let head = "case,ops/s,p99_ms,speedup\na,1000,9.01,1\n";
    assert_eq!(doubtful(&format!("{head}b,3000,5.02,3.0\n")), []);
    assert_eq!(doubtful(&format!("{head}b,3000,5.02,2.4\n")), [("ratio-label", 3)]);
    let named = "case,ops/s,p99_ms,p99 ratio\na,1000,9.01,1\nb,3000,5.02,3.0\n";
    assert_eq!(impossible(named), [("ratio-label", 3)]);
    let failed = "case,errors_1,errors_8,rps_1,rps_8,speedup\na,3,0,100.0,400.0,4.00\n";
    assert_eq!(doubtful(failed), [("ratio-errors", 2)]);
}

#[test]
fn units_and_statistics_are_asked_for() {
    assert!(unclear("case,memory\na,0.3\n").contains(&"unit-missing"));
    assert!(!unclear("case,memory\na,0.3 MiB\n").contains(&"unit-missing"));
    assert!(unclear("case,latency_ms\na,0.31\n").contains(&"statistic-missing"));
    assert_eq!(impossible("case,p50_ns\na,0.1\n"), [("magnitude", 2)]);
    let batch = "case,batch,ops/s,p50_ms\na,100,500,1.95\n";
    assert_eq!(doubtful(batch), [("batch-rate", 2)]);
}

#[test]
fn copies_and_constants_are_seen() {
    let copied = "case,rps,p50_ms,p99_ms\na,1012,4.11,9.31\nb,1310,3.02,7.77\nc,1012,4.11,9.31\n";
    assert_eq!(doubtful(copied), [("copied-row", 4)]);
    let constant = "case,rps,p50_ms,p99_ms\na,1012,4.11,9.31\nb,1310,4.11,7.77\nc,2012,4.11,9.31\n";
    assert_eq!(doubtful(constant), [("constant-figure", 0)]);
}

#[test]
fn what_is_no_table_is_refused_and_nothing_panics() {
    for text in ["", "hello", "a,b\n", "{", "[]", "[1]", "{\"a\":{}}", "|\n|-|\n", "p50\nx\n"] {
        assert!(lint(text).is_err(), "{text}");
    }
    assert!(matches!(lint("{"), Err(LintError::Json(_))));
}

#[test]
fn a_table_beyond_the_limits_is_refused_before_it_grows() {
    let wide: Vec<_> = (0..=COLUMNS_MAX).map(|i| format!("c{i}")).collect();
    let long = "1\n".repeat(ROWS_MAX + 1);
    let sides: Vec<_> = (0..=SIDES_MAX).map(|i| format!("p50_{i}_ms")).collect();
    let keys: Vec<_> = (0..50_000).map(|i| format!("{{\"p50_{i}\":1}}")).collect();
    for text in [
        format!("{}\n1\n", wide.join(",")),
        format!("p50_ms\n{long}"),
        format!("{}\n1\n", sides.join(",")),
        format!("[{}]", keys.join(",")),
    ] {
        assert!(matches!(lint(&text), Err(LintError::TooLarge)), "{}", text.len());
    }
}

#[test]
fn findings_are_bounded_and_the_text_is_narrow() {
    let rows: String =
        (0..2 * FINDINGS_MAX).map(|i| format!("r{i},5,2.01,{}.31\n", i % 2)).collect();
    let audit = lint(&format!("case,n,p50_ms,p99_ms\n{rows}")).unwrap();
    assert_eq!(audit.findings.len(), FINDINGS_MAX);
    assert!(audit.left_off > FINDINGS_MAX && !audit.is_sound());
    assert_eq!(audit.findings[0].severity, Severity::Impossible);
    let text = audit.to_text("a.csv", crate::report::Style::default());
    assert!(text.lines().all(|line| line.chars().count() <= 100));
    assert!(text.starts_with("a.csv\n") && text.contains("more findings"));
}

/// A run of `mcplane bench` with one call in flight most of the time, and two slices.
fn closed() -> Value {
    let slice = |p99_ns: u64| {
        json!({"calls_ok": 400, "wall_ns": 10_000_000_000_u64, "throughput_per_s": 40.0,
            "p50_ns": 20_000_000, "p99_ns": p99_ns})
    };
    let mut run = serde_json::to_value(sample(800, false)).unwrap();
    run["target"]["target"] = json!("server --delay 20ms");
    let figures = json!({
        "wall_ns": 20_000_000_000_u64, "throughput_per_s": 40.0, "in_flight_mean": 0.9,
        "latency": {"count": 800, "min_ns": 5_000_000, "mean_ns": 22_500_000.0,
            "p50_ns": 20_000_000, "max_ns": 60_000_000},
        "slices": [slice(40_000_000), slice(41_000_000)],
    });
    for (key, figure) in figures.as_object().unwrap() {
        run["results"][key] = figure.clone();
    }
    run
}

/// The same calls, due earlier than they could be sent.
fn open() -> Value {
    let mut run = closed();
    run["results"]["open"] = json!({"calls_due": 800, "calls_missed": 0, "calls_late": 799,
        "late_share": 0.99, "lateness_max_ns": 1, "latency_raw": run["results"]["latency"],
        "latency_raw_histogram": ""});
    run["results"]["latency"] = json!({"count": 800, "min_ns": 26_000_000, "mean_ns": 470_000_000.0,
        "p50_ns": 460_000_000, "max_ns": 915_000_000});
    run
}

/// `run` with one figure multiplied.
fn falsified(mut run: Value, pointer: &str, by: f64) -> Value {
    let figure = run.pointer_mut(pointer).unwrap();
    let value = figure.as_f64().unwrap() * by;
    *figure = if figure.is_u64() { json!(value as u64) } else { json!(value) };
    run
}

fn bench(runs: &[Value]) -> String {
    let environment = Environment::look();
    json!({"schema": "mcplane.bench/1", "environment": environment, "runs": runs}).to_string()
}

fn comparison(runs: &[Value]) -> String {
    json!({"schema": "mcplane.compare/1", "environment": Environment::look(), "effect": 0.05,
        "pairs": 1, "sides": [], "runs": runs})
    .to_string()
}

#[test]
fn an_open_loop_has_in_flight_what_was_sent() {
    assert_eq!(lint(&bench(&[open()])).unwrap().findings, []);
    let changes = [
        ("/results/open/latency_raw/mean_ns", 1.2, "little"),
        ("/results/throughput_per_s", 10.0, "little"),
        ("/results/in_flight_mean", 0.5, "little"),
        ("/results/in_flight_mean", 0.001, "unit-scale"),
        ("/results/open/latency_raw/max_ns", 0.1, "monotone"),
        ("/results/latency/p50_ns", 0.05, "monotone"),
    ];
    for (pointer, by, rule) in changes {
        let wrong = impossible(&bench(&[closed(), falsified(open(), pointer, by)]));
        assert!(wrong.contains(&(rule, 2)), "{pointer}: {wrong:?}");
        assert!(!wrong.contains(&("closed-loop", 2)), "{pointer}: {wrong:?}");
    }
    // How long calls waited to be sent is limited by nothing in flight.
    let late = falsified(open(), "/results/latency/mean_ns", 1.2);
    assert_eq!(impossible(&bench(&[late])), []);
}

#[test]
fn what_is_in_flight_in_an_open_loop_is_no_load() {
    // One rate, also of all slices, while calls take longer: in the end half as long as the run.
    let slow = |times: f64| {
        let mut run = falsified(open(), "/results/in_flight_mean", times);
        for figure in ["min_ns", "mean_ns", "p50_ns", "max_ns"] {
            run = falsified(run, &format!("/results/latency/{figure}"), times);
            run = falsified(run, &format!("/results/open/latency_raw/{figure}"), times);
        }
        run
    };
    let runs = [slow(1.0), slow(20.0), slow(500.0)];
    assert_eq!(lint(&bench(&runs)).unwrap().findings, []);
}

#[test]
fn the_runs_of_a_comparison_are_read_as_those_of_a_bench() {
    let runs = [closed(), open()];
    let audit = |text: &str| serde_json::to_value(lint(text).unwrap()).unwrap();
    assert_eq!(audit(&comparison(&runs)), audit(&bench(&runs)));
    assert_eq!(audit(&comparison(&runs))["findings"], json!([]));
    let wrong = falsified(closed(), "/results/latency/mean_ns", 1.2);
    assert_eq!(impossible(&comparison(&[open(), wrong])), [("little", 2)]);
}

/// The nearest-rank percentile.
fn rank(sorted: &[f64], share: f64) -> f64 {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// The figures of calls that `load` clients made one after the other, as a line of a table.
fn measured(latencies: &[f64], load: usize) -> [f64; 9] {
    // Each client takes the next call when it is free, which keeps `load` in flight to the end.
    let mut free = vec![0.0_f64; load];
    for latency in latencies {
        let next = (0..load).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap();
        free[next] += latency;
    }
    let wall = free.into_iter().fold(0.0, f64::max);
    let mut sorted = latencies.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[allow(clippy::cast_precision_loss)]
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|share| rank(&sorted, share));
    #[allow(clippy::cast_precision_loss)]
    let load = load as f64;
    [load, n, n / wall, sorted[0], mean, p50, p90, p99, sorted[sorted.len() - 1]]
}

const HEAD: &str = "name,in_flight,calls,calls/s,min_ms,mean_ms,p50_ms,p90_ms,p99_ms,max_ms\n";

fn line(name: &str, figures: &[f64; 9]) -> String {
    let [load, n, rate, times @ ..] = figures;
    let times: Vec<_> = times.iter().map(|seconds| format!("{:.3}", seconds * 1e3)).collect();
    format!("{name},{load},{n},{rate:.1},{}\n", times.join(","))
}

prop_compose! {
    /// Latencies from 0.1 ms up, most of them short, some very long.
    fn latencies()(tail in 0.2_f64..3.0, uniform in prop::collection::vec(0.001_f64..1.0, 60..400)) -> Vec<f64> {
        uniform.into_iter().map(|u| 1e-4 * u.powf(-tail)).map(|s| s.min(10.0)).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_really_measured_is_never_impossible(
        parts in prop::collection::vec(latencies(), 2..4),
        load in 1_usize..40,
    ) {
        let mut text = HEAD.to_owned();
        let mut all = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            text += &line(&format!("part {at}"), &measured(part, load));
            all.extend_from_slice(part);
        }
        text += &line("total", &measured(&all, load));
        prop_assert_eq!(impossible(&text), [], "{}", text);
    }

    #[test]
    fn a_figure_beyond_its_bounds_is_found(sample in latencies(), load in 1_usize..20, by in 1.3_f64..20.0) {
        let sound = measured(&sample, load);
        let found = |at: usize, value: f64| {
            let mut figures = sound;
            figures[at] = value;
            impossible(&format!("{HEAD}{}", line("a", &figures))).into_iter().map(|(rule, _)| rule).collect::<Vec<_>>()
        };
        // Mean above the greatest and below the least; order; throughput beyond the law.
        prop_assert!(found(4, sound[8] * by).contains(&"mean-bounds"));
        prop_assert!(found(4, sound[3] / by / 1.1).contains(&"mean-bounds"));
        prop_assert!(found(5, sound[6] * by).contains(&"monotone"));
        let law = found(2, by * sound[0] / sound[4]);
        prop_assert!(law.iter().any(|rule| ["little", "closed-loop", "unit-scale"].contains(rule)), "{law:?}");
    }

    #[test]
    fn no_text_makes_it_panic(text in "([a-z0-9µ%|,.\\-\n \"{}\\[\\]:/_é×]|p50|p99|\\|-\\|-\\|\n|ms|req/s|in_flight|1e9){0,80}") {
        let _ = lint(&text);
    }
}
