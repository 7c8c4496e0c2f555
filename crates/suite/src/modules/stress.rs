//! Calls for a long time: throughput, latency, memory and descriptors may not drift.

use std::time::Duration;

use mcplane_lab::{Plan, Until};

use super::measured::{args, gateway, load};
use crate::entry::{Entry, Form, Found, Module, Stand};

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
        until: Until::Elapsed(Duration::from_secs(on.of(seconds.min(30), seconds, seconds))),
        warmup: Until::Elapsed(Duration::from_secs(2)),
        settle: Duration::from_millis(10),
        ..Plan::default()
    };
    load(on, &plan, &gateway(on, "4"))
}
