//! A client of several servers at once, the gap that cMCP names: `session_fanout`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mcplane::client::{Client, Fleet};
use mcplane_process::Command;
use serde_json::json;
use tokio::task::JoinSet;

use crate::entry::{Entry, Figure, Form, Found, Module, Stand};
use crate::ops::estimated;

pub(super) const ENTRIES: &[Entry] = &[Entry::of(
    Module::Calls,
    Form::Quick,
    "session_fanout",
    "One client of eight servers, one of them slow: lists and calls of all at once",
    run,
)];

const SERVERS: usize = 8;

/// What the slow server takes for a call.
const SLOW: Duration = Duration::from_millis(50);

fn run(on: &Stand<'_>) -> Result<Found, String> {
    // Its tasks and those of its clients share one thread, as in a host that has others for its work.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(measure(on))
}

async fn measure(on: &Stand<'_>) -> Result<Found, String> {
    let text = |error: mcplane::Error| error.to_string();
    let mut fleet = Fleet::new().timeout(Duration::from_secs(5));
    for at in 0..SERVERS {
        let command = Command::new(on.me).arg("fixture");
        let client =
            Client::builder("suite", "1").cache(false).spawn(command).await.map_err(text)?;
        fleet = fleet.with(&format!("s{at}"), client).map_err(text)?;
    }
    let fleet = Arc::new(fleet);
    let rounds = on.of(20, 200, 1_000);
    let (mut lists, mut calls, mut fast) = (Vec::new(), Vec::new(), Vec::new());
    let mut tools = 0;
    for round in 0..rounds {
        if on.control.is_stopped() {
            break;
        }
        let began = Instant::now();
        let listed = fleet.list_tools().await;
        lists.push(ms(began));
        if let Some((server, error)) = listed.failed.first() {
            return Err(format!("{server}: {error}"));
        }
        tools = listed.items.len();
        calls.push(call_all(&fleet, round, true).await?);
        fast.push(call_all(&fleet, round, false).await?);
    }
    // One is gone: its own tools are missing, and it is named.
    let gone = fleet.client("s3").cloned().ok_or("no s3")?;
    gone.close().await;
    let listed = fleet.list_tools().await;
    let missing: Vec<_> = listed.failed.iter().map(|(server, _)| server.to_string()).collect();
    let is_partial = missing == ["s3"] && listed.items.len() == tools / SERVERS * (SERVERS - 1);
    fleet.close().await;

    let slow = calls.iter().copied().fold(f64::INFINITY, f64::min);
    let figures =
        [("list of all", &lists), ("call of all, one slow", &calls), ("call of all", &fast)];
    let figures = figures.into_iter().filter_map(|(name, samples)| {
        estimated(samples).map(|of| Figure::estimate(name, "ms", of, samples.len()))
    });
    let slow_ms = SLOW.as_secs_f64() * 1e3;
    Ok(Found::pass(figures.collect())
        .assert(slow >= slow_ms, || format!("a call of {slow_ms} ms took {slow:.1} ms"))
        .assert(median(&calls) < 2.0 * slow_ms, || {
            format!("calls of all took {:.1} ms: they wait for each other", median(&calls))
        })
        .assert(is_partial, || format!("with s3 gone, {missing:?} did not answer"))
        .note("Eight processes of our fixture over stdio, one client with a connection to each, on one \
               thread. A round lists all tools, calls one tool of each server with one that sleeps for \
               50 ms, and calls one of each without that: what all take is what the slowest takes."))
}

/// One call of each server at the same time; how long all took, in milliseconds.
async fn call_all(fleet: &Arc<Fleet>, round: usize, is_slow: bool) -> Result<f64, String> {
    let began = Instant::now();
    let mut calling = JoinSet::new();
    for at in 0..SERVERS {
        let fleet = Arc::clone(fleet);
        let text = format!("{round} of {at}");
        calling.spawn(async move {
            let (tool, arguments) = match is_slow && at == 0 {
                true => ("sleep", json!({"ms": SLOW.as_millis()})),
                false => ("echo", json!({"message": text})),
            };
            let name = format!("s{at}__{tool}");
            let result =
                fleet.call_tool(&name, &arguments).await.map_err(|error| error.to_string())?;
            let said = serde_json::to_string(&result).unwrap_or_default();
            let is_own = tool == "sleep" || said.contains(&text);
            if is_own { Ok(()) } else { Err(format!("{name} gave {said}")) }
        });
    }
    calling.join_all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(ms(began))
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn median(samples: &[f64]) -> f64 {
    mcplane_lab::stats::median(samples).unwrap_or(f64::INFINITY)
}
