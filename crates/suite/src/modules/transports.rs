//! One server over every transport, and what starting it costs.

use std::time::Duration;

use mcplane_lab::Until;
use mcplane_lab::spec::Spec;

use super::measured::{args, measure, ours};
use crate::entry::{Entry, Form, Found, Module, Stand};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::of(
        Module::Transports,
        Form::Quick,
        "transport_comparison",
        "A call over memory, stdio, Unix, TCP, WebSocket, HTTP and SSE, in turns",
        each,
    ),
    Entry::of(
        Module::Transports,
        Form::Quick,
        "startup_stdio",
        "A fresh process from its start to its first answer",
        startup,
    ),
];

fn each(on: &Stand<'_>) -> Result<Found, String> {
    let spec = Spec {
        transports: true,
        concurrency: vec![1],
        duration: Some(Duration::from_millis(on.of(300, 3_000, 10_000))),
        warmup: Some(Until::Elapsed(Duration::from_millis(on.of(100, 500, 1_000)))),
        settle: Some(Duration::from_millis(10)),
        no_floor: on.form == Form::Quick,
        ..Spec::default()
    };
    measure(on, &spec)
}

fn startup(on: &Stand<'_>) -> Result<Found, String> {
    let spec = Spec {
        targets: vec![ours(on, &["fixture"])],
        cold_start: Some(on.of(10, 30, 100)),
        tool: Some("echo".to_owned()),
        args: args(r#"{"message":"ping"}"#.to_owned()),
        settle: Some(Duration::from_millis(10)),
        ..Spec::default()
    };
    measure(on, &spec)
}
