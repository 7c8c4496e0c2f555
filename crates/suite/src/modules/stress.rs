//! Calls for a long time: memory and descriptors may not grow; from five minutes on, throughput, p99 and
//! threads may not drift either. A shorter run cannot tell that from a machine's weather.

use std::time::Duration;

use mcplane_lab::{Plan, Until};

use super::measured::{args, gateway, load};
use crate::entry::{Entry, Form, Found, Module, Stand, Verdict};

const fn entry(
    id: &'static str,
    since: Form,
    about: &'static str,
    run: fn(&Stand<'_>) -> Found,
) -> Entry {
    Entry { id, module: Module::Stress, about, since, takes_target: false, run }
}

pub(super) const ENTRIES: &[Entry] = &[
    entry("stress_30s", Form::Quick, "The gateway for 30 s", |on| stress(on, 30)),
    entry("stress_5min", Form::Full, "The gateway for 5 minutes", |on| stress(on, 300)),
    entry("stress_1hr", Form::Full, "The gateway for an hour", |on| stress(on, 3_600)),
    entry("stress_24hr", Form::Full, "The gateway for a day", |on| stress(on, 86_400)),
];

/// A hundred calls in flight through the gateway, over four workers.
fn stress(on: &Stand<'_>, seconds: u64) -> Found {
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
    let found = load(on, &plan, &gateway(on, "4"));
    let run = found.report.as_ref().and_then(|report| report.runs.first());
    let Some(run) = run.filter(|_| found.verdict == Verdict::Pass) else { return found };
    let is_judged = !run.drift.is_empty();
    let drifts = run.drift.iter().filter(|drift| drift.is_beyond_chance());
    let drifts: Vec<_> = drifts.map(|drift| drift.text()).collect();
    found
        .assert(is_judged, || "there was too little to tell a trend".to_owned())
        .assert(seconds < 300 || drifts.is_empty(), || drifts.join("; "))
}
