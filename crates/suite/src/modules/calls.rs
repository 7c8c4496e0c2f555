//! The rows of cMCP's benchmarks, under their names: one call after another over stdio and HTTP, and a
//! pool of workers whose time is known beforehand.
//!
//! The variables that cMCP reads are read here too, each by the workload whose own it is: a quick look at
//! one does not make another run for a minute.

use std::env;
use std::str::FromStr;
use std::time::Duration;

use mcplane_lab::report::cmcp_row;
use mcplane_lab::results::shape::Burst;
use mcplane_lab::spec::Spec;
use mcplane_lab::{Arrivals, Plan, Shape, Spacing, Target, Until};

use super::measured::{args, listening, load, measure, ours};
use crate::entry::{Entry, Figure, Form, Found, Module, Stand};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::of(
        Module::Calls,
        Form::Quick,
        "server_inline_stdio",
        "One call of echo after another over stdio",
        inline_stdio,
    ),
    Entry::of(
        Module::Calls,
        Form::Quick,
        "server_pool_stdio",
        "64 calls that sleep for 50 ms, on 4 workers",
        pool,
    ),
    Entry::of(
        Module::Calls,
        Form::Quick,
        "server_inline_http",
        "One call of echo after another over Streamable HTTP",
        inline_http,
    ),
    Entry {
        takes_target: true,
        ..Entry::of(
            Module::Calls,
            Form::Quick,
            "compare_stdio_echo",
            "The same client against the server that is named",
            compare,
        )
    },
];

/// The lab's pause between the calls that tell whether a result changes by itself: `echo`'s does not.
const SETTLE: Duration = Duration::from_millis(10);

/// How often the pool is measured until its wall clock is not too long.
const TRIES: usize = 3;

/// A number from a variable, or else this.
fn knob<T: FromStr>(name: &str, default: T) -> Result<T, String> {
    match env::var(name) {
        Err(_) => Ok(default),
        Ok(text) => text.parse().map_err(|_| format!("{name} is `{text}`; it takes a number")),
    }
}

/// One call of echo in flight, as cMCP makes it: so many after so many that are thrown away.
fn one_by_one(calls: u64, warmup: u64) -> Result<Plan, String> {
    Ok(Plan {
        tool: Some("echo".to_owned()),
        args: args(r#"{"message":"ping"}"#.to_owned()),
        until: Until::Calls(knob("MCPLANE_BENCH_N", calls)?),
        warmup: Until::Calls(knob("MCPLANE_BENCH_WARMUP", warmup)?),
        settle: SETTLE,
        ..Plan::default()
    })
}

fn inline_stdio(on: &Stand<'_>) -> Result<Found, String> {
    let plan = one_by_one(on.of(5_000, 50_000, 50_000), on.of(500, 1_000, 1_000))?;
    let found = load(on, &plan, &Target::Stdio(on.built_in.stdio.clone()))?;
    Ok(row(found, "server_inline_stdio", "transport=stdio tool=echo"))
}

fn inline_http(on: &Stand<'_>) -> Result<Found, String> {
    let plan = one_by_one(on.of(1_000, 5_000, 5_000), on.of(200, 1_000, 1_000))?;
    let at = ["fixture", "--transport", "http", "--listen", "127.0.0.1:0", "--accept-rate", "0"];
    let found = load(on, &plan, &listening(on, &at))?;
    Ok(row(found, "server_inline_http", "transport=http tool=echo"))
}

fn compare(on: &Stand<'_>) -> Result<Found, String> {
    let plan = one_by_one(on.of(2_000, 10_000, 10_000), on.of(200, 1_000, 1_000))?;
    let (target, label) = match on.target {
        Some(target) => (target.clone(), "named"),
        None => (ours(on, &["fixture"]), "mcplane"),
    };
    let words = target.command.iter().map(|word| word.to_string_lossy());
    let words: Vec<_> = words.chain(target.url.as_deref().map(Into::into)).collect();
    let extra = format!("impl={label} server={}", words.join("_"));
    // Of a server that is named, the lab chooses a tool that it has.
    let is_ours = on.target.is_none();
    let spec = Spec {
        targets: vec![target],
        tool: plan.tool.filter(|_| is_ours),
        args: plan.args.filter(|_| is_ours),
        requests: match plan.until {
            Until::Calls(calls) => Some(calls),
            Until::Elapsed(_) => None,
        },
        warmup: Some(plan.warmup),
        concurrency: vec![1],
        settle: Some(SETTLE),
        ..Spec::default()
    };
    Ok(row(measure(on, &spec)?, "compare_stdio_echo", &extra))
}

/// N calls at once that each sleep, on W workers: the wall clock has to be ceil(N / W) times the sleep.
fn pool(on: &Stand<'_>) -> Result<Found, String> {
    let (calls, sleep_ms) = (knob("MCPLANE_BENCH_N", 64_u64)?, knob("MCPLANE_BENCH_SLEEP_MS", 50)?);
    let (calls, workers) = (calls.max(1), knob("MCPLANE_WORKERS", 4_u64)?.max(1));
    for (name, given, most) in
        [("MCPLANE_BENCH_N", calls, 4_096), ("MCPLANE_BENCH_SLEEP_MS", sleep_ms, 60_000)]
    {
        if given > most {
            return Err(format!("{name} is {given}; it takes at most {most}"));
        }
    }
    let rounds = calls.div_ceil(workers);
    let plan = Plan {
        tool: Some("sleep".to_owned()),
        args: args(format!(r#"{{"ms":{sleep_ms}}}"#)),
        until: Until::Calls(calls),
        concurrency: usize::try_from(calls).unwrap_or(usize::MAX),
        warmup: Until::Calls(0),
        settle: SETTLE,
        // One burst of all of them, which is what it is called in the results too.
        arrivals: Some(Arrivals {
            shape: Shape::Burst(Burst { calls, every_ns: rounds * sleep_ms * 1_000_000 }),
            spacing: Spacing::Constant,
            seed: 0,
        }),
        slices: 1,
        ..Plan::default()
    };
    let command = on.built_in.stdio.clone().args(["--workers", &workers.to_string()]);
    let target = Target::Stdio(command);
    let expected_ms = (rounds * sleep_ms) as f64;
    // Every round may be late by a tick of the timer.
    let most_ms = 1.05 * expected_ms + 2.0 * rounds as f64;
    let (mut found, mut wall_ms) = (load(on, &plan, &target)?, 0.0);
    for left in (0..TRIES).rev() {
        wall_ms = longest_ms(&found);
        if wall_ms <= most_ms || left == 0 || on.control.is_stopped() {
            break;
        }
        // A busy machine can only make it longer; a worker that is missing does so every time.
        found = load(on, &plan, &target)?;
    }
    found.figures.push(Figure::of("wall", "ms", wall_ms));
    found.figures.push(Figure::of("expected wall", "ms", expected_ms));
    let found = found.assert((expected_ms..=most_ms).contains(&wall_ms), || {
        format!(
            "{calls} calls of {sleep_ms} ms on {workers} workers took {wall_ms:.1} ms; it has to be \
             {expected_ms} to {most_ms:.0} ms"
        )
    });
    let extra = format!("transport=stdio sleep_ms={sleep_ms} workers={workers}");
    Ok(row(found, "server_pool_stdio", &extra))
}

/// The longest latency: all begin at the same instant, so that is when the last one ended.
fn longest_ms(found: &Found) -> f64 {
    let runs = found.report.iter().flat_map(|report| &report.runs);
    runs.filter_map(|run| run.results.latency.max_ns).max().unwrap_or(0) as f64 / 1e6
}

/// The same with its row in cMCP's columns.
fn row(mut found: Found, bench: &str, extra: &str) -> Found {
    let runs = found.report.iter().flat_map(|report| &report.runs);
    let rows: Vec<_> = runs.map(|run| cmcp_row(bench, &run.results, extra)).collect();
    found.rows.extend(rows);
    found
}
