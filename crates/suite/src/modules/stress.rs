//! Calls for a long time: memory and descriptors may not grow; from five minutes on, throughput, p99 and
//! threads may not drift either. A shorter run cannot tell that from a machine's weather.

use std::time::Duration;

use mcplane_lab::{Plan, Until};

use super::measured::{args, gateway, load};
use crate::entry::{Entry, Form, Found, Module, Stand, Verdict};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::of(Module::Stress, Form::Quick, "stress_30s", "The gateway for 30 s", |on| {
        stress(on, 30)
    }),
    Entry::of(Module::Stress, Form::Full, "stress_5min", "The gateway for 5 minutes", |on| {
        stress(on, 300)
    }),
    Entry::of(Module::Stress, Form::Full, "stress_1hr", "The gateway for an hour", |on| {
        stress(on, 3_600)
    }),
    Entry::of(Module::Stress, Form::Full, "stress_24hr", "The gateway for a day", |on| {
        stress(on, 86_400)
    }),
];

/// A hundred calls in flight through the gateway, over four workers.
fn stress(on: &Stand<'_>, seconds: u64) -> Result<Found, String> {
    let plan = Plan {
        tool: Some("echo".to_owned()),
        args: args(r#"{"message":"ping"}"#.to_owned()),
        concurrency: 100,
        // A trend takes thirty whole seconds, and the last one is cut.
        until: Until::Elapsed(Duration::from_secs(seconds + 4)),
        warmup: Until::Elapsed(Duration::from_secs(2)),
        settle: Duration::from_millis(10),
        ..Plan::default()
    };
    let found = load(on, &plan, &gateway(on, "4"))?;
    let run = found.report.as_ref().and_then(|report| report.runs.first());
    let Some(run) = run.filter(|_| found.verdict == Verdict::Pass) else {
        return Ok(found);
    };
    let is_judged = !run.drift.is_empty();
    let drifts = run.drift.iter().filter(|drift| drift.is_beyond_chance());
    let drifts: Vec<_> = drifts.map(|drift| drift.text()).collect();
    let found = found
        .assert(is_judged, || "there was too little to tell a trend".to_owned())
        .assert(seconds < 300 || drifts.is_empty(), || drifts.join("; "));
    Ok(found)
}
