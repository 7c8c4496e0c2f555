//! `mcplane bench` on servers whose latency is known: what it shows must be the truth. No time is
//! asserted from above but by far: a busy machine adds to every one.

use mcplane_tests::child::{binary, mcplane};
use serde_json::Value;

use crate::LIMIT;

/// Milliseconds that a busy machine may add to a median.
const LATE_MS: f64 = 100.0;

/// Measures a tool of the fixture; gives the run.
fn bench(tool: &str, args: &str, options: &[&str]) -> Value {
    let call = ["bench", "--tool", tool, "--args", args, "--no-floor", "--settle", "1ms"];
    let rest = ["--warmup", "20", "--json", "-", "--", binary(), "fixture", "--workers", "512"];
    let ended = mcplane(&[&call[..], options, &rest].concat(), LIMIT).ok().left_nothing();
    let mut report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let run = report["runs"][0].take();
    holds_together(&run["results"]);
    run
}

/// What must be so in every result: Little's law, and seconds that add up.
#[track_caller]
fn holds_together(results: &Value) {
    let ratio = number(&results["little"]["ratio"]);
    assert!((0.95..1.05).contains(&ratio), "{:#}", results["little"]);
    let seconds = results["seconds"].as_array().unwrap();
    let sum: f64 = seconds.iter().map(|second| number(&second["calls_ok"])).sum();
    assert_eq!(sum, number(&results["calls_ok"]));
    let length: f64 = seconds.iter().map(|second| number(&second["length_ns"])).sum();
    assert_eq!(length, number(&results["wall_ns"]));
}

#[track_caller]
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// A percentile of `n` calls lies between the quantiles four binomial deviations around it. One pause of
/// the machine moves the upper ones far, so that only the median is held from above.
#[track_caller]
fn matches(latency: &Value, n: f64, quantile_ms: impl Fn(f64) -> f64) {
    for (name, p) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p95_ns", 0.95)] {
        let deviation = 4.0 * (p * (1.0 - p) / n).sqrt();
        let (low, high) = (quantile_ms(p - deviation), quantile_ms((p + deviation).min(0.999)));
        let ms = number(&latency[name]) / 1e6;
        let most = if p > 0.5 { f64::INFINITY } else { high + LATE_MS };
        assert!(ms > 0.99 * low && ms < most, "{name}: {ms} in {low}..{high}");
    }
}

fn exponential(mean_ms: f64) -> impl Fn(f64) -> f64 {
    move |p| -mean_ms * (1.0 - p).ln()
}

#[test]
fn a_closed_loop_shows_the_distribution() {
    let args = r#"{"distribution":"exponential","mean_ms":40,"seed":1}"#;
    let run = bench("latency", args, &["-c", "32", "-n", "1600"]);
    let results = &run["results"];
    assert_eq!(results["calls_ok"], 1600);
    matches(&results["latency"], 1600.0, exponential(40.0));
    // The most that 32 in flight can reach.
    assert!(number(&results["throughput_per_s"]) < 32.0 / 0.040 * 1.15);
    assert!(results["open"].is_null());
}

#[test]
fn an_open_loop_shows_it_at_its_own_rate() {
    let args = r#"{"distribution":"lognormal","mean_ms":40,"seed":2,"sigma":0.5}"#;
    let load = ["--rate", "300", "--arrivals", "poisson", "--seed", "5", "-n", "900"];
    let run = bench("latency", args, &load);
    assert_eq!(
        (&run["plan"]["load"], &run["plan"]["arrivals"]["seed"]),
        (&"open".into(), &5.into())
    );
    let (results, open) = (&run["results"], &run["results"]["open"]);
    assert_eq!((&results["calls_ok"], &open["calls_missed"]), (&900.into(), &0.into()));
    // exp(σ z − σ²/2), with the normal quantiles around those that are asked for.
    let normal = |p: f64| {
        let table = [(0.43, -0.18), (0.57, 0.18), (0.86, 1.08), (0.92, 1.40), (0.94, 1.56)];
        let near = table.iter().min_by(|a, b| (a.0 - p).abs().total_cmp(&(b.0 - p).abs()));
        near.map_or(2.06, |(_, z)| if p > 0.97 { 2.06 } else { *z })
    };
    matches(&results["latency"], 900.0, |p| 40.0 * f64::exp(0.5 * normal(p) - 0.125));
    // 900 exponential steps of 1/300 s: 3 s, with a deviation of 0.1 s.
    let rate = number(&results["throughput_per_s"]);
    assert!((200.0..400.0).contains(&rate), "{rate}");
    // From the send it is never longer than from the intended start.
    let raw = &open["latency_raw"];
    assert!(number(&raw["mean_ns"]) <= number(&results["latency"]["mean_ns"]));
}

/// 200 calls/s, one in flight, and half of each second nobody is served: two calls in three wait, but
/// only one each second is sent into the stall.
#[test]
fn a_stall_shows_from_the_intended_start_and_hides_from_the_send() {
    let args = r#"{"stall_ms":500,"every_ms":1000}"#;
    let run = bench("stall", args, &["--rate", "200", "-c", "1", "-d", "3s"]);
    let (corrected, open) = (&run["results"]["latency"], &run["results"]["open"]);
    let raw = &open["latency_raw"];
    let (shown, hidden) = (number(&corrected["p90_ns"]), number(&raw["p90_ns"]));
    assert!(shown > 300e6 && shown > 2.0 * hidden, "{shown} {hidden}");
    assert!(number(&raw["max_ns"]) > 300e6, "one call was in each stall");
    let notes = run["notes"].to_string();
    assert!(notes.contains("which raw figures hide"), "{notes}");
    assert!(number(&open["calls_late"]) > 150.0, "{open:#}");
}

/// 10 ms each and one at a time: 100 calls/s, whoever asks for more.
#[test]
fn a_serial_server_has_its_rate_and_what_is_too_much_was_missed() {
    let args = r#"{"ms":10,"serial":1}"#;
    let closed = bench("list_issues", args, &["-c", "4", "-n", "120"]);
    let results = &closed["results"];
    assert!(number(&results["throughput_per_s"]) <= 100.0);
    assert!(number(&results["latency"]["mean_ns"]) > 36e6, "four stand in line");
    let open = bench("list_issues", args, &["--rate", "300", "-c", "4", "-d", "2s"]);
    let (results, schedule) = (&open["results"], &open["results"]["open"]);
    assert_eq!(number(&schedule["calls_due"]), 600.0);
    let sent = number(&results["calls_sent"]);
    assert_eq!(number(&schedule["calls_missed"]) + sent, 600.0);
    // What is begun in two seconds, and the four that are in flight then.
    assert!(sent <= 210.0, "{sent}");
    assert_eq!(results["in_flight_max"], 4);
}

#[test]
fn bursts_and_ramps_make_the_calls_that_they_say() {
    let args = r#"{"distribution":"constant","mean_ms":5}"#;
    let burst = bench("latency", args, &["--burst", "40/500ms", "-d", "2s"]);
    assert_eq!(burst["results"]["open"]["calls_due"], 160);
    assert_eq!(burst["results"]["in_flight_max"], 40);
    let ramp = bench("latency", args, &["--ramp", "50..250", "-d", "2s"]);
    let due = number(&ramp["results"]["open"]["calls_due"]);
    assert!((299.0..=301.0).contains(&due), "{due}");
    let seconds: Vec<_> =
        ramp["results"]["seconds"].as_array().unwrap().iter().map(|s| &s["calls_ok"]).collect();
    // 100 and 200 of them, where none comes much too late.
    assert!(number(seconds[0]) <= 100.0 && number(seconds[0]) < number(seconds[1]), "{seconds:?}");
}
