//! Open loops, warm-ups and what the report says of the generator, against a server in this process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "its other faults are for other tests")]
mod fake;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fake::{Act, target};
use mcplane_lab::results::Run;
use mcplane_lab::results::shape::{Burst, Rate};
use mcplane_lab::{
    Arrivals, Control, Errors, Floor, Latencies, Plan, Shape, Spacing, Template, Until, run,
};
use serde_json::{Value, json};

fn plan(shape: Shape) -> Plan {
    Plan {
        concurrency: 64,
        arrivals: Some(Arrivals { shape, spacing: Spacing::Constant, seed: 1 }),
        until: Until::Elapsed(Duration::from_millis(500)),
        warmup: Until::Calls(0),
        timeout: Duration::from_secs(5),
        settle: Duration::ZERO,
        ..Plan::default()
    }
}

fn measure(plan: &Plan, script: fn(u64) -> Act) -> Run {
    run(plan, &target(script), &Floor::Off, &Arc::new(Control::default())).unwrap()
}

#[test]
fn sessions_share_the_schedule() {
    let plan = Plan { sessions: 3, ..plan(Shape::Rate(Rate { per_s: 400.0 })) };
    let run = measure(&plan, |_| Act::Answer);
    assert!(run.is_clean(), "{:?}", run.results.first_failure);
    let (results, open) = (&run.results, run.results.open.as_ref().unwrap());
    assert_eq!((results.calls_ok, open.calls_due, open.calls_missed), (200, 200, 0));
    // The time after the last call belongs to the schedule.
    assert!(results.wall_ns >= 500_000_000 && results.throughput_per_s <= 400.0);
    assert_eq!(open.latency_raw.count, 200);
    let raw = Latencies::decode(&open.latency_raw_histogram).unwrap();
    assert_eq!(raw.summary(), open.latency_raw);
    assert!(open.latency_raw.mean_ns.unwrap() <= results.latency.mean_ns.unwrap() * 1.002);
    assert!(open.pacing_error_p50_ns.is_some());
    assert_eq!((run.plan.load.as_str(), run.plan.arrivals), ("open", plan.arrivals));
    let ratio = results.little.unwrap().ratio.unwrap();
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
}

#[test]
fn a_number_of_calls_is_made_whatever_it_takes() {
    let shape = Shape::Burst(Burst { calls: 7, every_ns: 20_000_000 });
    let run = measure(&Plan { until: Until::Calls(40), ..plan(shape) }, |_| Act::Answer);
    assert_eq!((run.results.calls_sent, run.results.calls_ok), (40, 40));
    // Five whole bursts, and five of the sixth, which lasts until the seventh.
    assert!(run.results.wall_ns >= 100_000_000, "{}", run.results.wall_ns);
    assert_eq!(run.results.in_flight_max, 7);
}

#[test]
fn failed_calls_have_their_place_in_littles_law_and_in_the_seconds() {
    let run = measure(&plan(Shape::Rate(Rate { per_s: 200.0 })), |n| match n % 4 {
        // Not the calls that show that the tool works.
        0 if n > 2 => Act::IsError,
        1 => Act::Late(10),
        _ => Act::Answer,
    });
    let results = &run.results;
    assert_eq!((results.calls_ok, results.errors.is_error), (75, 25));
    let ratio = results.little.unwrap().ratio.unwrap();
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
    let (mut sum, mut errors) = (Latencies::new(), 0);
    for second in &results.seconds {
        let latencies = Latencies::decode(&second.latency_histogram).unwrap();
        assert_eq!(latencies.count(), second.calls_ok);
        sum.merge(&latencies);
        errors += second.errors.is_error;
    }
    assert_eq!((sum.encode(), errors), (results.latency_histogram.clone(), 25));
    assert_eq!(results.errors, {
        let mut json = serde_json::to_value(Errors::default()).unwrap();
        json["is_error"] = 25.into();
        serde_json::from_value(json).unwrap()
    });
}

#[test]
fn what_was_due_when_the_user_stops_is_missed_and_nothing_after_it() {
    let control = Arc::new(Control::default());
    let hour = Until::Elapsed(Duration::from_secs(3600));
    let plan = Plan { until: hour, concurrency: 1, ..plan(Shape::Rate(Rate { per_s: 100.0 })) };
    let stopped = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(600));
            control.stop();
        });
        let slow = target(|n| if n < 3 { Act::Answer } else { Act::Late(150) });
        run(&plan, &slow, &Floor::Off, &control).unwrap()
    });
    let open = stopped.results.open.unwrap();
    assert!(stopped.interrupted && stopped.results.calls_ok >= 1);
    assert!(open.calls_missed > 10 && open.calls_due < 2_000, "{open:?}");
    assert_eq!(open.calls_due, open.calls_missed + stopped.results.calls_sent);
}

#[test]
fn a_warm_up_goes_on_while_there_is_a_trend() {
    let base = Duration::from_millis(80);
    let closed =
        Plan { arrivals: None, concurrency: 4, warmup: Until::Elapsed(base), ..plan(RATE) };
    let quick = Plan { until: Until::Calls(50), warmup_stretch: 6, ..closed };
    // Every call takes longer than the one before, which on a busy machine may not show each time.
    let mut tries =
        (0..5).map(|_| measure(&quick, |n| Act::Late(2 + n / 2)).results.warmup.unwrap());
    let worse = tries.find(|warmup| warmup.steady == Some(false)).expect("a trend");
    assert!(worse.wall_ns >= 6 * 80_000_000 && worse.calls_ok > 20, "{worse:?}");
    // Kept to its time, and still looked at.
    let kept = Plan { warmup_stretch: 1, ..quick.clone() };
    let kept = measure(&kept, |_| Act::Late(4)).results.warmup.unwrap();
    assert!(kept.wall_ns >= 80_000_000 && kept.wall_ns < 6 * 80_000_000, "{kept:?}");
    let counted = Plan { warmup: Until::Calls(30), ..quick };
    let counted = measure(&counted, |_| Act::Answer).results.warmup.unwrap();
    assert_eq!((counted.calls_ok, counted.steady), (30, None));
}

#[test]
fn a_mix_is_recorded_with_all_its_arguments() {
    let call = |weight: f64, args: Option<Value>| {
        Template::new("echo".to_owned(), weight, args, Path::new("")).unwrap()
    };
    let (numbered, plain) = (json!({ "message": "no {n} of {uuid}" }), json!({ "message": "b" }));
    let mix = vec![call(3.0, Some(numbered.clone())), call(1.0, Some(plain.clone())).unchecked()];
    let plan = Plan {
        mix: [mix, vec![call(1.0, None)]].concat(),
        seed: 9,
        arrivals: None,
        until: Until::Calls(40),
        ..plan(RATE)
    };
    let run = measure(&plan, |_| Act::Answer);
    let recorded: Vec<_> =
        run.plan.mix.iter().map(|call| (call.weight, call.args.clone(), call.check)).collect();
    assert_eq!(recorded[..2], [(3.0, numbered, true), (1.0, plain, false)]);
    assert!(recorded[2].1["message"].is_string() && recorded.len() == 3, "{recorded:?}");
    assert_eq!((run.plan.knobs.unwrap().seed, run.target.binary), (9, None));
}

const RATE: Shape = Shape::Rate(Rate { per_s: 100.0 });
