//! Five times as many calls as can be answered: how many are answered then, of those that are when
//! there are as many as can be.
//!
//! The gateway and its server have one core, the load has the other: else the load takes what is
//! missing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use super::campaign::Campaign;
use super::median;
use super::peers::{Subject, subjects};
use super::serving::Serving;
use crate::run::step;

const ROUNDS: usize = 5;
const SUBJECTS: [&str; 4] =
    ["mcplane-legacy-legacy", "relay-legacy", "mcplane-modern-modern", "relay-modern"];

/// Seconds of each run.
const SECONDS: f64 = 4.0;

/// Calls in flight of the load that takes what it can get.
const PEAK_IN_FLIGHT: &str = "64";
const TIMES: f64 = 5.0;

/// Answered calls per second with as many as can be and with [`TIMES`] as many, and refused ones.
type Round = [f64; 3];

/// Measures and writes `bench/results/<date>-<host>/`.
pub fn overload(root: &Path) -> anyhow::Result<()> {
    let campaign = Campaign::with_build(root, "overload")?;
    let all = subjects().into_iter().filter(|subject| SUBJECTS.contains(&subject.name));
    let mut rows: Vec<(Subject, Vec<Round>)> = all.map(|subject| (subject, Vec::new())).collect();
    for round in 0..ROUNDS {
        let mut order: Vec<_> = rows.iter_mut().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (subject, rounds) in order {
            let name = format!("overload-{}-{}", subject.name, round + 1);
            rounds.push(step(&name, || measure(root, subject, &campaign.file(&name)))?);
        }
    }
    campaign.publish(&summary(&rows))
}

fn measure(root: &Path, subject: &Subject, stem: &Path) -> anyhow::Result<Round> {
    let serving = Serving::start(root, &subject.command, subject.url, true)?;
    let peak = load(root, subject, &serving, stem, ("peak", &["--concurrency", PEAK_IN_FLIGHT]))?;
    let rate = format!("{:.0}", peak[0] * TIMES);
    let over = load(root, subject, &serving, stem, ("over", &["--rate", &rate]))?;
    Ok([peak[0], over[0], over[1]])
}

/// Answered and refused calls, per second for which calls began.
fn load(
    root: &Path,
    subject: &Subject,
    serving: &Serving,
    stem: &Path,
    (name, load): (&str, &[&str]),
) -> anyhow::Result<[f64; 2]> {
    let named = stem.file_stem().unwrap_or_default().to_string_lossy();
    let file = stem.with_file_name(format!("{named}-{name}.json"));
    let mut bench = Command::new("taskset");
    bench
        .current_dir(root)
        .args(["--cpu-list", "1", "target/dist/mcplane", "bench", "--no-floor"])
        .args(["--era", subject.client.as_str(), "--tool", subject.tool])
        .args(["--args", r#"{"message":"hello"}"#, "--settle", "1ms", "--warmup", "300ms"])
        .args(["--duration", &format!("{SECONDS}s"), "--pid", &serving.pid().to_string()])
        .args(load)
        .arg("--json")
        .arg(file.strip_prefix(root).unwrap_or(&file))
        .arg(subject.url);
    // Refused calls make it fail.
    let outcome = bench.stdin(Stdio::null()).output().context("cannot start the load")?;
    if !file.exists() {
        bail!("{}", String::from_utf8_lossy(&outcome.stderr).trim());
    }
    let report: Value = serde_json::from_slice(&fs::read(&file)?)?;
    let number = |path: &str| {
        let found = report.pointer(path).and_then(Value::as_f64);
        found.with_context(|| format!("no number at {path} in the report"))
    };
    let refused = number("/runs/0/results/errors/transport")?;
    Ok([number("/runs/0/results/calls_ok")? / SECONDS, refused / SECONDS])
}

fn summary(rows: &[(Subject, Vec<Round>)]) -> String {
    let mut out = format!(
        "# Overload: HTTP in front of one stdio echo server, medians of {ROUNDS} rounds\n\n\
         Command: `cargo xtask speed overload`. The gateway and its server are on one core, the load \
         on another. The peak is that of {PEAK_IN_FLIGHT} calls in flight; then {TIMES} times as \
         many calls a second are offered, of which {IN_FLIGHT_MAX} at most are in flight. What counts \
         are calls that were answered, per second of the {SECONDS} in which calls began. The relay \
         refuses nothing.\n\n\
         | gateway | peak, calls/s | at {TIMES} × | ÷ peak | refused/s |\n|---|---:|---:|---:|---:|\n"
    );
    for (subject, rounds) in rows {
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
        let _ = writeln!(
            out,
            "| {} | {:.0} | {:.0} | {:.2} | {:.0} |",
            subject.name,
            of(|[peak, ..]| *peak),
            of(|[_, over, _]| *over),
            of(|[peak, over, _]| over / peak),
            of(|[.., refused]| *refused),
        );
    }
    out
}

/// The load's own bound.
const IN_FLIGHT_MAX: usize = 1024;
