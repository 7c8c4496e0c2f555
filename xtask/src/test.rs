//! Every test, and one line that sums them up.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::mem;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::api;
use crate::check;
use crate::conformance;
use crate::interop;
use crate::run::{cargo, in_ci, line, run, step};
use crate::site;
use crate::supply;
use crate::tidy;

/// Whether the tests against other implementations run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interop {
    Run,
    LeaveOut,
}

/// Test programs that mostly wait for processes which they start.
const LANES: [&[&str]; 2] = [&["conformance"], &["attacks", "cli", "gateway"]];

/// Other people's clients ask and answer many things at once. How many wait at a time is up to their
/// speed, and what a client may have waiting is bounded: nothing runs beside them.
const LAST: &str = "interop";

/// Tells the interop tests to pass without doing anything.
const INTEROP_OFF: (&str, &str) = ("MCPLANE_INTEROP", "off");

/// Checks, then runs every test of the workspace, and those of what is published once more as its
/// users build it: without the features that the rest of the workspace asks for.
pub fn test(root: &Path, with: Interop) -> anyhow::Result<()> {
    check::check(root)?;
    api::check(root)?;
    let mut tally = Tally::default();
    let metadata = tidy::metadata(root)?;
    let alone = check::published_with_features(&metadata);
    let alone: Vec<_> = alone.map(|package| ["test", "--no-fail-fast", "-p", package]).collect();
    let mut lanes = lanes(root, &metadata, &alone);
    let mut last = cargo(root, &["test", "--workspace", "--no-fail-fast", "--test", LAST]);
    match with {
        Interop::Run => {
            // Not a test that was skipped: the nightly run has the network for it.
            if let Some(unreached) = supply::supply(root, false)? {
                println!("       {unreached}");
            }
            tally.skipped = set_up(root)?;
            tally.skipped.extend(site::site(root)?);
        }
        Interop::LeaveOut => {
            for command in lanes.iter_mut().flatten().chain([&mut last]) {
                command.env(INTEROP_OFF.0, INTEROP_OFF.1);
            }
        }
    }
    // All of them first: a compiler beside a test takes its time away.
    for which in
        [["test", "--workspace"].as_slice()].into_iter().chain(alone.iter().map(|a| &a[..]))
    {
        let build = &mut cargo(root, &[which, &["--no-run"]].concat());
        step("test programs", || run(build))?;
    }
    count(lanes, last, tally)
}

/// What runs side by side: programs of [`LANES`], and all others.
fn lanes(root: &Path, metadata: &Value, alone: &[[&str; 4]]) -> Vec<Vec<Command>> {
    let tests = |which: &[&str]| {
        let args = [&["test", "--workspace", "--no-fail-fast"], which].concat();
        let mut command = cargo(root, &args);
        // Node starts a few hundred times, and each time with the same scripts.
        command.env("NODE_COMPILE_CACHE", root.join(".interop/node-cache"));
        command
    };
    let named = |names: &[&'static str]| {
        let words = names.iter().flat_map(|name| ["--test", name]);
        tests(&words.collect::<Vec<_>>())
    };
    let others = check::test_targets(metadata).into_iter();
    let others = others.filter(|name| *name != LAST && !LANES.iter().any(|l| l.contains(name)));
    let others: Vec<_> = others.flat_map(|name| ["--test", name]).collect();
    let alone = alone.iter().map(|args| cargo(root, args));
    let rest = tests(&[&["--lib", "--bins"], &*others].concat());
    let mut lanes: Vec<_> = LANES.iter().map(|lane| vec![named(lane)]).collect();
    lanes.push([rest, tests(&["--doc"])].into_iter().chain(alone).collect());
    lanes
}

/// Runs only the tests against other implementations.
pub fn interop(root: &Path) -> anyhow::Result<()> {
    one(root, "interop", set_up(root)?)
}

/// Runs only the official conformance suite.
pub fn conformance(root: &Path) -> anyhow::Result<()> {
    step("conformance set-up", || conformance::setup(root))?;
    let skipped = step("SDK set-up", || interop::setup_sdks(root, in_ci()))?;
    one(root, "conformance", skipped)
}

fn one(root: &Path, target: &str, skipped: Vec<String>) -> anyhow::Result<()> {
    let tally = Tally { skipped, ..Tally::default() };
    let args = ["test", "--package", "mcplane-tests", "--test", target, "--no-fail-fast"];
    count(Vec::new(), cargo(root, &args), tally)
}

fn set_up(root: &Path) -> anyhow::Result<Vec<String>> {
    step("interop set-up", || interop::setup(root, in_ci()))
}

/// Runs the commands of each lane one after the other, the lanes side by side, and the last by itself.
fn count(lanes: Vec<Vec<Command>>, last: Command, mut tally: Tally) -> anyhow::Result<()> {
    let run = |commands: Vec<Command>| commands.into_iter().map(watched).collect::<Vec<_>>();
    let mut outcomes: Vec<_> = thread::scope(|scope| {
        let lanes: Vec<_> = lanes.into_iter().map(|lane| scope.spawn(move || run(lane))).collect();
        let outcomes =
            lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|why| resume_unwind(why)));
        outcomes.flatten().collect()
    });
    outcomes.push(watched(last));
    let mut died = Ok(());
    for (theirs, outcome) in outcomes {
        if theirs.failed.is_empty() {
            died = died.and(outcome); // something did not compile, or a test program died
        }
        tally.append(theirs);
    }
    tally.print();
    died?;
    tally.verdict(in_ci())
}

fn watched(command: Command) -> (Tally, anyhow::Result<()>) {
    println!("       {}", line(&command));
    let mut tally = Tally::default();
    let outcome = step("tests", || watch(command, &mut tally));
    (tally, outcome)
}

/// Runs a test command, counts the results in what it prints, and shows that program by program: what
/// others print meanwhile does not come between.
fn watch(mut command: Command, tally: &mut Tally) -> anyhow::Result<()> {
    let named = line(&command);
    let (output, input) = std::io::pipe().context("cannot make a pipe")?;
    let mut child = command
        .stdout(input.try_clone().context("cannot use a pipe twice")?)
        .stderr(input)
        .spawn()
        .context("cannot start cargo")?;
    drop(command); // else the pipe has no end
    let mut program = String::new();
    for text in BufReader::new(output).split(b'\n') {
        let text = text.context("cannot read what the tests print")?;
        let text = String::from_utf8_lossy(&text);
        if text.trim_start().starts_with("Running ") || text.contains(" has been running for ") {
            println!("{text}");
        }
        program.push_str(&text);
        program.push('\n');
        if tally.add(&text) {
            print!("{}", mem::take(&mut program));
        }
    }
    print!("{program}");
    match child.wait().context("cannot wait for cargo")? {
        status if status.success() => Ok(()),
        status => bail!("`{named}` failed: {status}"),
    }
}

/// The results of many test programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    /// By their names.
    failed: Vec<String>,
    /// What did not run, and why.
    skipped: Vec<String>,
}

impl Tally {
    /// Takes one line of a test program's output; whether it is the last one.
    fn add(&mut self, line: &str) -> bool {
        // What a test leaves running may have written the start of a line before it.
        let sum = ["test result: ok. ", "test result: FAILED. "]
            .into_iter()
            .find_map(|start| line.split_once(start));
        if let Some((_, counts)) = sum {
            self.passed += before(counts, " passed");
        } else if let Some((name, why)) = ignored(line) {
            self.skipped.push(format!("{name}: {why}"));
        } else if let Some(why) = line.strip_prefix("skipped: ") {
            self.skipped.push(why.to_owned());
        } else if let Some(name) = failed(line) {
            self.failed.push(name.to_owned());
        }
        sum.is_some()
    }

    fn append(&mut self, mut other: Self) {
        self.passed += other.passed;
        self.failed.append(&mut other.failed);
        self.skipped.append(&mut other.skipped);
    }

    fn print(&self) {
        let mut times = BTreeMap::new();
        for why in &self.skipped {
            *times.entry(why).or_insert(0) += 1;
        }
        for (why, times) in times {
            println!("skipped {why} ({times} ×)");
        }
        for failed in &self.failed {
            println!("failed  {failed}");
        }
        let (passed, failed, skipped) = (self.passed, self.failed.len(), self.skipped.len());
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }

    fn verdict(&self, in_ci: bool) -> anyhow::Result<()> {
        if !self.failed.is_empty() {
            bail!("{} tests failed; they are named above", self.failed.len());
        }
        if in_ci && !self.skipped.is_empty() {
            bail!("in CI nothing may be skipped (CI is set); install what the lines above miss");
        }
        Ok(())
    }
}

/// The number in front of `label`.
fn before(counts: &str, label: &str) -> u64 {
    let number = counts.split_once(label).and_then(|(start, _)| start.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The name in `test name ... FAILED`.
fn failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// The name and the reason in `test name ... ignored, reason`.
fn ignored(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
    let why = rest.trim_start_matches([',', ' ']);
    Some((name, if why.is_empty() { "ignored" } else { why }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str) -> Tally {
        let mut tally = Tally::default();
        for line in output.lines() {
            tally.add(line);
        }
        tally
    }

    #[test]
    fn results_of_all_programs_add_up() {
        let tally = tally(
            "running 2 tests\n\
             test a ... ok\n\
             test b - c (line 3) ... ignored, needs a moon\n\
             test d ... ignored\n\
             skipped: no moon in PATH\n\
             test e - should panic ... FAILED\n\
             test result: ok. 10 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\n\
             half a linetest result: FAILED. 7 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        let skipped = vec![
            "b - c (line 3): needs a moon".to_owned(),
            "d: ignored".to_owned(),
            "no moon in PATH".to_owned(),
        ];
        assert_eq!(
            tally,
            Tally { passed: 17, failed: vec!["e - should panic".to_owned()], skipped }
        );
    }

    #[test]
    fn a_failure_fails_and_a_skip_fails_in_ci() {
        let passed = tally("test result: ok. 1 passed; 0 failed; 0 ignored");
        assert!(passed.verdict(true).is_ok());
        let failed =
            tally("test it ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored");
        assert!(failed.verdict(false).is_err());
        let skipped = tally("test a ... ignored");
        assert!(skipped.verdict(false).is_ok());
        assert!(skipped.verdict(true).is_err());
    }
}
