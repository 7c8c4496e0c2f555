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

const fn entry(
    id: &'static str,
    about: &'static str,
    takes_target: bool,
    run: fn(&Stand<'_>) -> Found,
) -> Entry {
    Entry { id, module: Module::Calls, about, since: Form::Quick, takes_target, run }
}

pub(super) const ENTRIES: &[Entry] = &[
    entry("server_inline_stdio", "One call of echo after another over stdio", false, inline_stdio),
    entry("server_pool_stdio", "64 calls that sleep for 50 ms, on 4 workers", false, pool),
    entry(
        "server_inline_http",
        "One call of echo after another over Streamable HTTP",
        false,
        inline_http,
    ),
    entry("compare_stdio_echo", "The same client against the server that is named", true, compare),
];

/// The lab's pause between the calls that tell whether a result changes by itself: `echo`'s does not.
const SETTLE: Duration = Duration::from_millis(10);

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

fn inline_stdio(on: &Stand<'_>) -> Found {
    let plan = one_by_one(on.of(5_000, 50_000, 50_000), on.of(500, 1_000, 1_000));
    let target = Target::Stdio(on.built_in.stdio.clone());
    let found = plan.map(|plan| load(on, &plan, &target));
    row(found, "server_inline_stdio", "transport=stdio tool=echo")
}

fn inline_http(on: &Stand<'_>) -> Found {
    let plan = one_by_one(on.of(1_000, 5_000, 5_000), on.of(200, 1_000, 1_000));
    let at = ["fixture", "--transport", "http", "--listen", "127.0.0.1:0", "--accept-rate", "0"];
    let found = plan.map(|plan| load(on, &plan, &listening(on, &at)));
    row(found, "server_inline_http", "transport=http tool=echo")
}

fn compare(on: &Stand<'_>) -> Found {
    let asked = one_by_one(on.of(2_000, 10_000, 10_000), on.of(200, 1_000, 1_000));
    let (target, label) = match on.target {
        Some(target) => (target.clone(), "named"),
        None => (ours(on, &["fixture"]), "mcplane"),
    };
    let words = target.command.iter().map(|word| word.to_string_lossy());
    let words: Vec<_> = words.chain(target.url.as_deref().map(Into::into)).collect();
    let extra = format!("impl={label} server={}", words.join("_"));
    let spec = |plan: Plan| {
        let (Until::Calls(calls), is_ours) = (plan.until, on.target.is_none()) else {
            return Spec::default();
        };
        Spec {
            targets: vec![target],
            // Of a server that is named, the lab chooses a tool that it has.
            tool: plan.tool.filter(|_| is_ours),
            args: plan.args.filter(|_| is_ours),
            requests: Some(calls),
            warmup: Some(plan.warmup),
            concurrency: vec![1],
            settle: Some(SETTLE),
            ..Spec::default()
        }
    };
    row(asked.map(|plan| measure(on, &spec(plan))), "compare_stdio_echo", &extra)
}

/// N calls at once that each sleep, on W workers: the wall clock has to be ceil(N / W) times the sleep.
fn pool(on: &Stand<'_>) -> Found {
    let asked = || {
        let (calls, sleep) = (knob("MCPLANE_BENCH_N", 64)?, knob("MCPLANE_BENCH_SLEEP_MS", 50)?);
        let workers = knob("MCPLANE_WORKERS", 4_u64)?.max(1);
        let most = [("MCPLANE_BENCH_N", calls, 4_096), ("MCPLANE_BENCH_SLEEP_MS", sleep, 60_000)];
        match most.into_iter().find(|(_, given, most)| given > most) {
            Some((name, given, most)) => Err(format!("{name} is {given}; it takes at most {most}")),
            None => Ok::<(u64, u64, u64), String>((calls.max(1), sleep, workers)),
        }
    };
    let (calls, sleep_ms, workers) = match asked() {
        Ok(asked) => asked,
        Err(why) => return Found::fail(why),
    };
    let expected_ms = calls.div_ceil(workers) * sleep_ms;
    let plan = Plan {
        tool: Some("sleep".to_owned()),
        args: args(format!(r#"{{"ms":{sleep_ms}}}"#)),
        until: Until::Calls(calls),
        concurrency: usize::try_from(calls).unwrap_or(usize::MAX),
        warmup: Until::Calls(0),
        settle: SETTLE,
        // One burst of all of them, which is what it is called in the results too.
        arrivals: Some(Arrivals {
            shape: Shape::Burst(Burst { calls, every_ns: expected_ms * 1_000_000 }),
            spacing: Spacing::Constant,
            seed: 0,
        }),
        slices: 1,
        ..Plan::default()
    };
    let command = on.built_in.stdio.clone().args(["--workers", &workers.to_string()]);
    let mut found = load(on, &plan, &Target::Stdio(command));
    // All begin at the same instant, so the last one to end has the longest latency.
    let runs = found.report.iter().flat_map(|report| &report.runs);
    let wall_ns = runs.filter_map(|run| run.results.latency.max_ns).max().unwrap_or(0);
    let (wall_ms, expected_ms) = (wall_ns as f64 / 1e6, expected_ms as f64);
    found.figures.push(Figure::of("wall", "ms", wall_ms));
    found.figures.push(Figure::of("expected wall", "ms", expected_ms));
    // A busy machine wakes sleepers late. With one worker less it would take a third more.
    let late_ms = 0.25 * expected_ms;
    let found = found.assert((expected_ms..=expected_ms + late_ms).contains(&wall_ms), || {
        format!(
            "{calls} calls of {sleep_ms} ms on {workers} workers took {wall_ms:.1} ms; it has to be \
             {expected_ms} to {:.0} ms",
            expected_ms + late_ms
        )
    });
    row(
        Ok(found),
        "server_pool_stdio",
        &format!("transport=stdio sleep_ms={sleep_ms} workers={workers}"),
    )
}

/// The same with its row in cMCP's columns.
fn row(found: Result<Found, String>, bench: &str, extra: &str) -> Found {
    let mut found = match found {
        Ok(found) => found,
        Err(why) => return Found::fail(why),
    };
    let runs = found.report.iter().flat_map(|report| &report.runs);
    let rows: Vec<_> = runs.map(|run| cmcp_row(bench, &run.results, extra)).collect();
    found.rows.extend(rows);
    found
}
