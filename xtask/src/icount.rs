//! Instructions per operation, counted by valgrind: a figure that no noisy neighbour changes.
//!
//! The program in `bench/icount` names its scenarios, and does the operation of one N times. Two runs
//! that differ only in N cancel start-up and shut-down.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::run::{cargo, output, step};

/// Operations in the two runs, by how much a scenario moves: the end of its name says it. An operation
/// on a large message takes as many instructions as hundreds on a small one.
const OPERATIONS: [(&str, u64, u64); 4] =
    [("-1m", 10, 30), ("-64k", 100, 300), ("-64k-escapes", 100, 300), ("", 1_000, 3_000)];

/// How far a count may move before it is a finding, in percent: hash seeds and the order of
/// addresses account for less.
const TOLERANCE_PERCENT: f64 = 3.0;

const MANIFEST: &str = "bench/icount/Cargo.toml";
const BASELINE: &str = "bench/icount/baseline.json";

/// What is done with the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// They are compared with the committed baseline.
    Baseline,
    /// They become the baseline.
    Nothing,
}

/// Instructions per operation, by scenario.
type Counts = BTreeMap<String, f64>;

/// Counts every scenario; with a baseline, a count that grew is an error.
pub fn icount(root: &Path, against: Against) -> anyhow::Result<()> {
    if !root.join(MANIFEST).exists() {
        bail!("there is no {MANIFEST}, so there is no scenario to count");
    }
    if output(Command::new("valgrind").arg("--version")).is_err() {
        bail!(
            "counting needs valgrind; install it with the system's packages (apt install valgrind)"
        );
    }
    let program = step("build", || build(root))?;
    let names = String::from_utf8(output(&mut Command::new(&program))?)?;
    let mut counts = Counts::new();
    for name in names.lines() {
        let count = step(name, || count(name, &program))?;
        counts.insert(name.to_owned(), count);
    }
    let compiler = String::from_utf8(output(Command::new("rustc").arg("--version"))?)?;
    match against {
        Against::Nothing => write(root, compiler.trim(), &counts),
        Against::Baseline => compare(root, compiler.trim(), &counts),
    }
}

/// Builds the program.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let args = ["build", "--profile", "dist", "--manifest-path", MANIFEST];
    let mut command = cargo(root, &args);
    command.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let stdout = output(&mut command)?;
    let messages = String::from_utf8_lossy(&stdout);
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs =
        messages.filter_map(|message| Some(message.get("executable")?.as_str()?.into()));
    programs.next().context("cargo has built no program")
}

fn count(name: &str, program: &Path) -> anyhow::Result<f64> {
    let (few, many) = operations(name);
    let [first, second] = [few, many].map(|times| instructions(program, name, times));
    let (first, second) = (first?, second?);
    let more = second.checked_sub(first).context("more operations took fewer instructions")?;
    Ok((more as f64 / (many - few) as f64 * 10.0).round() / 10.0)
}

/// How many operations a scenario does in the two runs.
fn operations(name: &str) -> (u64, u64) {
    let found = OPERATIONS.iter().find(|(end, ..)| name.ends_with(end));
    found.map_or((1, 2), |(_, few, many)| (*few, *many))
}

fn instructions(program: &Path, name: &str, operations: u64) -> anyhow::Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).arg(name).arg(operations.to_string()).stdin(Stdio::null());
    let output = command.output().context("cannot start valgrind")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{name} failed under valgrind: {}\n{stderr}", output.status);
    }
    collected(&stderr).with_context(|| format!("valgrind gave no count:\n{stderr}"))
}

/// The number in `==PID== Collected : NUMBER`.
fn collected(stderr: &str) -> Option<u64> {
    let line = stderr.lines().find_map(|line| line.split_once(" Collected : "))?.1;
    line.split_whitespace().next()?.parse().ok()
}

fn write(root: &Path, compiler: &str, counts: &Counts) -> anyhow::Result<()> {
    for (name, count) in counts {
        println!("       {name}: {count} instructions");
    }
    let text = json!({ "compiler": compiler, "instructions": counts });
    fs::write(root.join(BASELINE), format!("{text:#}\n")).context(BASELINE)?;
    println!("       written to {BASELINE}");
    Ok(())
}

fn compare(root: &Path, compiler: &str, counts: &Counts) -> anyhow::Result<()> {
    let update = "`cargo xtask icount --update` writes it";
    let text = fs::read_to_string(root.join(BASELINE))
        .with_context(|| format!("no baseline in {BASELINE}; {update}"))?;
    let baseline: Value = serde_json::from_str(&text).context(BASELINE)?;
    let mut findings = 0;
    for (name, count) in counts {
        let before = baseline.get("instructions").and_then(|counts| counts.get(name)?.as_f64());
        let (text, is_finding) = judge(*count, before);
        println!("       {name}: {text}");
        findings += usize::from(is_finding);
    }
    let made_with =
        baseline.get("compiler").and_then(Value::as_str).unwrap_or("an unknown compiler");
    match findings {
        0 => Ok(()),
        _ if made_with != compiler => {
            println!(
                "       not judged: the baseline was made with {made_with}, this is {compiler}"
            );
            Ok(())
        }
        _ => bail!("{findings} scenarios grew or have no baseline; if that is meant, {update}"),
    }
}

/// What to say of a count, and whether it fails.
fn judge(count: f64, before: Option<f64>) -> (String, bool) {
    let Some(before) = before.filter(|before| *before > 0.0) else {
        return (format!("{count} instructions, no baseline"), true);
    };
    let percent = (count / before - 1.0) * 100.0;
    let verdict = match percent {
        p if p > TOLERANCE_PERCENT => "GREW",
        p if p < -TOLERANCE_PERCENT => "shrank; update the baseline",
        _ => "ok",
    };
    let text = format!("{count} instructions, baseline {before} ({percent:+.1} %): {verdict}");
    (text, percent > TOLERANCE_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valgrind_is_understood() {
        let stderr = "==7== Events    : Ir\n==7== Collected : 306728\n==7== \n";
        assert_eq!(collected(stderr), Some(306_728));
        assert_eq!(collected("==7== Command: x\n"), None);
    }

    #[test]
    fn only_growth_beyond_the_tolerance_fails() {
        assert!(!judge(102.9, Some(100.0)).1);
        assert!(judge(103.1, Some(100.0)).1);
        assert!(!judge(50.0, Some(100.0)).1);
        assert!(judge(50.0, None).1);
        assert_eq!(judge(110.0, Some(100.0)).0, "110 instructions, baseline 100 (+10.0 %): GREW");
    }

    #[test]
    fn a_scenario_that_moves_much_does_it_less_often() {
        assert_eq!(operations("echo"), (1_000, 3_000));
        assert_eq!(operations("echo-64k"), (100, 300));
        assert_eq!(operations("scan-64k-escapes"), (100, 300));
        assert_eq!(operations("scan-1m"), (10, 30));
    }
}
