//! The ladder: from one call in flight to a hundred, through the gateway, over one worker and over
//! four, each with one call at a time.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use serde_json::Value;

use super::campaign::Campaign;
use super::median;
use super::serving::Serving;
use crate::run::{run, step};

const ROUNDS: usize = 3;
const IN_FLIGHT: [usize; 7] = [1, 2, 5, 10, 20, 50, 100];
const WORKERS: [usize; 2] = [1, 4];

/// A kind of work: its name, the tool, its arguments, what it is.
const WORK: [(&str, &str, &str, &str); 4] = [
    ("waits", "list_issues", r#"{"ms":8,"serial":0}"#, "waits for 8 ms, no serial share"),
    ("short", "list_issues", r#"{"ms":8,"serial":0.5}"#, "8 ms, half of it serial"),
    ("search", "search_tree", r#"{"pattern":"unit_17/"}"#, "searches 20,000 paths: processor only"),
    (
        "slow",
        "search_documentation",
        r#"{"query":"task","ms":40,"serial":0.8}"#,
        "40 ms, four fifths of it serial",
    ),
];

/// Of one work: for each number of workers and each rung, throughput, p50 in ms and p99 in ms of the
/// rounds, and all errors.
type Rungs = [[(Vec<[f64; 3]>, f64); IN_FLIGHT.len()]; WORKERS.len()];

/// Measures and writes `bench/results/<date>-<host>/`.
pub fn ladder(root: &Path) -> anyhow::Result<()> {
    let campaign = Campaign::with_build(root, "ladder")?;
    let mut found: Vec<Rungs> = WORK.iter().map(|_| Rungs::default()).collect();
    for round in 0..ROUNDS {
        for (work, rungs) in WORK.iter().zip(&mut found) {
            let mut order: Vec<_> = WORKERS.iter().zip(rungs).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for (workers, rungs) in order {
                let name = format!("ladder-{}-{workers}-workers-{}", work.0, round + 1);
                let file = campaign.file(&name);
                step(&name, || measure(root, work, *workers, &file))?;
                read(&file, rungs)?;
            }
        }
    }
    campaign.publish(&summary(&found))
}

fn measure(
    root: &Path,
    (_, tool, args, _): &(&str, &str, &str, &str),
    workers: usize,
    file: &Path,
) -> anyhow::Result<()> {
    const MCPLANE: &str = "target/dist/mcplane";
    let config = format!("bench/gateways/ladder-{workers}.toml");
    let words = [MCPLANE, "serve", "--config", &config].map(str::to_owned);
    let url = format!("http://127.0.0.1:1849{workers}/mcp");
    let serving = Serving::start(root, &words, &url, false)?;
    let in_flight = IN_FLIGHT.map(|count| count.to_string()).join(",");
    let mut bench = Command::new(root.join(MCPLANE));
    bench
        .arg0(MCPLANE)
        .current_dir(root)
        .args(["bench", "--tool", tool, "--args", args, "--no-floor", "--settle", "1ms"])
        .args(["--concurrency", &in_flight, "--duration", "1s", "--warmup", "200ms"])
        .args(["--pid", &serving.pid().to_string(), "--json"])
        .arg(file.strip_prefix(root).unwrap_or(file))
        .arg(&url)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    run(&mut bench)
}

fn read(file: &Path, rungs: &mut [(Vec<[f64; 3]>, f64)]) -> anyhow::Result<()> {
    let report: Value = serde_json::from_slice(&fs::read(file)?)?;
    let runs = report.get("runs").and_then(Value::as_array).context("no runs in the report")?;
    for (run, (rounds, errors)) in runs.iter().zip(rungs) {
        let number = |path: &str| {
            let found = run.pointer(path).and_then(Value::as_f64);
            found.with_context(|| format!("no number at {path} in the report"))
        };
        let p50 = number("/results/latency/p50_ns")? / 1e6;
        // Too few calls have none.
        let p99 = number("/results/latency/p99_ns").map_or(f64::NAN, |ns| ns / 1e6);
        rounds.push([number("/results/throughput_per_s")?, p50, p99]);
        let counts = run.pointer("/results/errors").and_then(Value::as_object);
        *errors +=
            counts.into_iter().flat_map(|all| all.values()).filter_map(Value::as_f64).sum::<f64>();
    }
    Ok(())
}

fn summary(found: &[Rungs]) -> String {
    let mut out = format!(
        "# The ladder: one worker and four behind the gateway, medians of {ROUNDS} rounds\n\n\
         Command: `cargo xtask speed ladder`. HTTP in front of `mcplane fixture`, policy \
         `recent_idle`, mode `exclusive`: one call at a time on each worker. The serial share of a \
         tool is a lock that all workers wait for, as for one backend behind them.\n"
    );
    for ((_, tool, args, what), [one, four]) in WORK.iter().zip(found) {
        let _ = writeln!(
            out,
            "\n## `{tool} {args}`: {what}\n\n\
             | in flight | 1 worker: calls/s | p50 ms | p99 ms | 4 workers: calls/s | p50 ms | \
             p99 ms | 4 ÷ 1 | errors |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
        );
        for ((in_flight, one), four) in IN_FLIGHT.iter().zip(one).zip(four) {
            let _ = write!(out, "| {in_flight}");
            for (rounds, _) in [one, four] {
                let of = |figure: fn(&[f64; 3]) -> f64| median(rounds.iter().map(figure).collect());
                let (p50, p99) = (of(|[_, p50, _]| *p50), of(|[.., p99]| *p99));
                let p99 = if p99.is_nan() { "n/a".to_owned() } else { format!("{p99:.1}") };
                let _ = write!(out, " | {:.1} | {p50:.1} | {p99}", of(|[per_s, ..]| *per_s));
            }
            let ratios = one.0.iter().zip(&four.0).map(|([a, ..], [b, ..])| b / a);
            let _ = writeln!(out, " | {:.2} × | {:.0} |", median(ratios.collect()), one.1 + four.1);
        }
    }
    out
}
