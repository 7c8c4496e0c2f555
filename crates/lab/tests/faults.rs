//! Every fault of a server lands in its own count, and none of them passes for a success.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod fake;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fake::{Act, target};
use mcplane_lab::results::Run;
use mcplane_lab::{Control, Error, Errors, Floor, Latencies, Plan, Speak, Stage, Until, run};
use mcplane_proto::Era;

/// The validation makes three calls; the n-th call of the load is number n + 3.
const BEFORE: u64 = 3;

fn plan(calls: u64) -> Plan {
    Plan {
        concurrency: 4,
        until: Until::Calls(calls),
        warmup: Until::Calls(0),
        timeout: Duration::from_millis(200),
        settle: Duration::ZERO,
        slices: 1,
        ..Plan::default()
    }
}

fn measure(plan: &Plan, script: fn(u64) -> Act) -> Result<Run, Error> {
    run(plan, &target(script), &Floor::Off, &Arc::new(Control::default()))
}

/// The errors of 100 calls, and how many succeeded.
fn errors(script: fn(u64) -> Act) -> (Errors, u64) {
    let run = measure(&plan(100), script).unwrap();
    assert_eq!(run.results.calls_sent, 100);
    assert_eq!(run.results.latency.count, run.results.calls_ok);
    let clean = run.results.errors.total() == 0;
    assert_eq!(run.is_clean(), clean);
    assert_eq!(run.results.first_failure.is_none(), clean);
    (run.results.errors, run.results.calls_ok)
}

/// One field of the error counts is `count`, the others are 0.
fn only(name: &str, count: u64) -> Errors {
    let mut json = serde_json::to_value(Errors::default()).unwrap();
    json[name] = count.into();
    serde_json::from_value(json).unwrap()
}

#[test]
fn a_good_server_has_no_errors() {
    let run = measure(&plan(1000), |_| Act::Answer).unwrap();
    assert_eq!((run.results.errors, run.results.calls_ok), (Errors::default(), 1000));
    assert_eq!((run.plan.tool.as_str(), run.plan.chosen), ("echo", true));
    assert_eq!(run.plan.args, serde_json::json!({"message": "hello"}));
    assert_eq!((run.target.tools, run.target.era.as_str()), (2, "legacy"));
    assert_eq!((run.target.server.as_deref(), run.plan.check.as_str()), (Some("fake"), "equal"));
    assert_eq!(run.results.in_flight_max, 4);
    assert!(run.results.in_flight_mean > 0.5 && run.results.in_flight_mean <= 4.0);
    assert!(run.start.spawn_to_ready_ns >= run.start.spawn_to_handshake_ns);
    // Little's law: calls in flight = rate × latency, whatever the server does.
    let latency = &run.results.latency;
    let little = run.results.throughput_per_s * latency.mean_ns.unwrap() / 1e9;
    assert!((little / run.results.in_flight_mean - 1.0).abs() < 0.05, "{little}");
    let histogram = Latencies::decode(&run.results.latency_histogram).unwrap();
    assert_eq!(histogram.summary(), *latency);
}

#[test]
fn a_wrong_result_counts_as_wrong_content() {
    let (errors, ok) =
        errors(|n| if n == BEFORE + 50 { Act::AnswerWith("x") } else { Act::Answer });
    assert_eq!((errors, ok), (only("wrong_content", 1), 99));
}

#[test]
fn a_wrong_result_is_shown_with_the_way_out() {
    let script = |n| if n < BEFORE { Act::Answer } else { Act::AnswerWith("other") };
    let run = measure(&plan(10), script).unwrap();
    let shown = run.results.first_failure.unwrap();
    assert!(shown.contains("hello") && shown.contains("other"), "{shown}");
    assert!(run.notes.iter().any(|note| note.contains("--no-check")), "{:?}", run.notes);
    let unchecked = Plan { check: false, ..plan(10) };
    assert!(measure(&unchecked, script).unwrap().is_clean());
}

#[test]
fn a_tool_that_changes_by_itself_is_recognised() {
    let script = |n| if n == 1 { Act::AnswerWith("12:01") } else { Act::Answer };
    let run = measure(&plan(100), script).unwrap();
    assert_eq!((run.plan.check.as_str(), run.is_clean()), ("varies", true));
    assert!(run.notes[0].contains("12:01"), "{:?}", run.notes);
}

#[test]
fn tool_errors_and_protocol_errors_are_told_apart() {
    let (tool, ok) =
        errors(|n| if n >= BEFORE && n % 10 == 0 { Act::IsError } else { Act::Answer });
    assert_eq!((tool, ok), (only("is_error", 10), 90));
    let (protocol, ok) =
        errors(|n| if n >= BEFORE && n % 10 == 0 { Act::Error } else { Act::Answer });
    assert_eq!((protocol, ok), (only("json_rpc", 10), 90));
}

#[test]
fn errors_count_even_without_the_content_check() {
    let unchecked = Plan { check: false, ..plan(100) };
    let script = |n| if n >= BEFORE && n % 10 == 0 { Act::IsError } else { Act::Answer };
    let run = measure(&unchecked, script).unwrap();
    assert_eq!(run.results.errors, only("is_error", 10));
}

#[test]
fn no_answer_is_a_timeout() {
    let (errors, ok) = errors(|n| if n == BEFORE + 50 { Act::Never } else { Act::Answer });
    assert_eq!((errors, ok), (only("timeout", 1), 99));
}

#[test]
fn a_late_answer_is_a_timeout_and_not_counted_again() {
    let script = |n| match n {
        53 => Act::Late(300),
        // Keeps the run alive until the late answer has come.
        90..100 => Act::Late(60),
        _ => Act::Answer,
    };
    let (errors, ok) = errors(script);
    assert_eq!((errors, ok), (only("timeout", 1), 99));
}

#[test]
fn a_late_answer_within_the_limit_is_slow_and_right() {
    let run = measure(&plan(100), |n| if n == 53 { Act::Late(100) } else { Act::Answer }).unwrap();
    assert!(run.is_clean() && run.results.latency.max_ns.unwrap() >= 100_000_000);
}

#[test]
fn a_second_answer_is_a_transport_error() {
    let (errors, ok) = errors(|n| if n == BEFORE + 50 { Act::Twice } else { Act::Answer });
    assert_eq!((errors, ok), (only("transport", 1), 100));
}

#[test]
fn an_unknown_id_is_a_transport_error_and_its_call_times_out() {
    let (errors, ok) = errors(|n| if n == BEFORE + 50 { Act::WrongId } else { Act::Answer });
    assert_eq!((errors.transport, errors.timeout, errors.total(), ok), (1, 1, 2, 99));
}

#[test]
fn a_line_that_is_no_message_is_a_transport_error() {
    let (errors, ok) = errors(|n| if n == BEFORE + 50 { Act::Banner } else { Act::Answer });
    assert_eq!((errors, ok), (only("transport", 1), 100));
}

#[test]
fn a_request_of_the_server_is_answered_and_does_no_harm() {
    let (errors, ok) = errors(|n| if n % 10 == 0 { Act::Ping } else { Act::Answer });
    assert_eq!((errors, ok), (Errors::default(), 100));
}

#[test]
fn a_death_loses_the_calls_in_flight_and_ends_the_run() {
    let script = |n| if n == BEFORE + 40 { Act::Die } else { Act::Answer };
    let run = measure(&plan(100), script).unwrap();
    let results = &run.results;
    assert!(results.calls_sent < 100 && !run.is_clean());
    assert!((1..=4).contains(&results.errors.transport));
    assert_eq!(results.calls_ok + results.errors.total(), results.calls_sent);
    assert!(run.broken.unwrap().contains("closed its output"));
}

#[test]
fn a_server_that_stops_answering_is_given_up() {
    let script = |n| if n < BEFORE + 40 { Act::Answer } else { Act::Never };
    let began = Instant::now();
    let quick = Plan { timeout: Duration::from_millis(20), ..plan(1_000_000) };
    let run = measure(&quick, script).unwrap();
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!((run.results.calls_ok, run.results.errors.timeout), (40, 12));
    assert!(run.broken.unwrap().contains("12 calls in a row"));
}

#[test]
fn a_rejected_call_refuses_the_run() {
    for (script, said) in [
        ((|_| Act::Error) as fn(u64) -> Act, "no such argument"),
        (|_| Act::IsError, "isError"),
        (|_| Act::Never, "not answered within"),
    ] {
        let error = measure(&plan(10), script).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(said) && text.contains("--tool"), "{text}");
    }
}

#[test]
fn a_death_during_the_first_call_is_no_refusal() {
    let error = measure(&plan(10), |_| Act::Die).unwrap_err();
    assert!(error.is_unreachable(), "{error}");
}

#[test]
fn the_warm_up_is_not_measured() {
    let script = |n| if (BEFORE..BEFORE + 50).contains(&n) { Act::IsError } else { Act::Answer };
    let warm = Plan { warmup: Until::Calls(50), ..plan(100) };
    let run = measure(&warm, script).unwrap();
    assert!(run.is_clean());
    assert_eq!((run.results.calls_ok, run.plan.warmup_calls), (100, 0));
}

#[test]
fn an_interrupted_run_reports_what_it_has() {
    let control = Arc::new(Control::default());
    let watcher = Arc::clone(&control);
    let thread = thread::spawn(move || {
        while watcher.calls() < 20 {
            thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(watcher.stage(), Stage::Measuring);
        watcher.stop();
    });
    let long = Plan { until: Until::Elapsed(Duration::from_secs(600)), ..plan(1) };
    let server = target(|_| Act::Late(5));
    let run = run(&long, &server, &Floor::Memory, &control).unwrap();
    thread.join().unwrap();
    assert!(run.interrupted && run.is_clean() && run.results.calls_ok >= 20);
    assert_eq!(run.results.calls_ok + run.results.calls_unfinished, run.results.calls_sent);
}

#[test]
fn stopped_before_it_began_there_is_nothing_to_report() {
    let control = Arc::new(Control::default());
    control.stop();
    let error = run(&plan(10), &target(|_| Act::Late(50)), &Floor::Off, &control).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
}

#[test]
fn several_sessions_share_the_calls() {
    let several = Plan { sessions: 3, ..plan(300) };
    let run = measure(&several, |_| Act::Answer).unwrap();
    assert!(run.is_clean());
    assert_eq!((run.results.calls_ok, run.results.in_flight_max), (300, 12));
}

#[test]
fn the_floor_is_measured_beside_the_target() {
    let sliced = Plan { slices: 4, ..plan(400) };
    let server = target(|_| Act::Answer);
    let run = run(&sliced, &server, &Floor::Memory, &Arc::new(Control::default())).unwrap();
    let floor = run.floor.as_ref().unwrap();
    assert_eq!((run.results.slices.len(), floor.slices.len()), (4, 4));
    assert_eq!((floor.calls_ok, floor.errors), (400, Errors::default()));
    assert!(run.ratios.unwrap().throughput.unwrap().value() > 0.0);
}

#[test]
fn an_era_that_the_server_does_not_speak_is_named() {
    let modern = Plan { speak: Speak::Era(Era::Modern), ..plan(10) };
    let error = measure(&modern, |_| Act::Answer).unwrap_err();
    let text = error.to_string();
    assert!(error.is_unreachable() && text.contains("2026-07-28"), "{text}");
    assert!(text.contains("no server/discover"), "{text}");
}

#[test]
fn a_wrong_plan_is_refused_before_anything_starts() {
    let wrong = Plan { concurrency: 0, ..plan(10) };
    assert!(measure(&wrong, |_| Act::Answer).unwrap_err().is_usage());
}
