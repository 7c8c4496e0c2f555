//! Every test, and one line that sums them up.

use std::io::{BufRead, BufReader};
use std::iter;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::api;
use crate::check;
use crate::conformance;
use crate::interop;
use crate::run::{cargo, in_ci, line, step};
use crate::site;
use crate::supply;
use crate::tidy;

/// Whether the tests against other implementations run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interop {
    Run,
    LeaveOut,
}

/// Tells the interop tests to pass without doing anything.
const INTEROP_OFF: (&str, &str) = ("MCPLANE_INTEROP", "off");

/// Checks, then runs every test of the workspace, and those of what is published once more as its
/// users build it: without the features that the rest of the workspace asks for.
pub fn test(root: &Path, with: Interop) -> anyhow::Result<()> {
    check::check(root)?;
    api::check(root)?;
    let mut tally = Tally::default();
    let mut command = cargo(root, &["test", "--workspace", "--no-fail-fast"]);
    let metadata = tidy::metadata(root)?;
    let alone = check::published_with_features(&metadata);
    let alone = alone.map(|package| cargo(root, &["test", "-p", package, "--no-fail-fast"]));
    let alone: Vec<_> = alone.collect();
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
            command.env(INTEROP_OFF.0, INTEROP_OFF.1);
            tally.skipped.push("interop: left out by --fast".to_owned());
        }
    }
    count(iter::once(command).chain(alone), tally)
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
    count([cargo(root, &args)], tally)
}

fn set_up(root: &Path) -> anyhow::Result<Vec<String>> {
    step("interop set-up", || interop::setup(root, in_ci()))
}

fn count(commands: impl IntoIterator<Item = Command>, mut tally: Tally) -> anyhow::Result<()> {
    for mut command in commands {
        println!("       {}", line(&command));
        let failed = tally.failed;
        let outcome = step("tests", || watch(&mut command, &mut tally));
        if tally.failed == failed {
            outcome?; // not for a test's sake: something did not compile, or a test program died
        }
    }
    tally.print();
    tally.verdict(in_ci())
}

/// Runs a test command, shows what it prints, and counts the results in it. Stderr, where cargo
/// says what it builds and runs, goes straight through.
fn watch(command: &mut Command, tally: &mut Tally) -> anyhow::Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let stdout = child.stdout.take().context("stdout is piped")?;
    for text in BufReader::new(stdout).split(b'\n') {
        let text = text.context("cannot read what the tests print")?;
        let text = String::from_utf8_lossy(&text);
        println!("{text}");
        tally.add(&text);
    }
    match child.wait().context("cannot wait for cargo")? {
        status if status.success() => Ok(()),
        status => bail!("`{}` failed: {status}", line(command)),
    }
}

/// The results of many test programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    /// What did not run, and why.
    skipped: Vec<String>,
}

impl Tally {
    /// Takes one line of a test program's output.
    fn add(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += before(counts, " passed");
            self.failed += before(counts, " failed");
        } else if let Some((name, why)) = ignored(line) {
            self.skipped.push(format!("{name}: {why}"));
        }
    }

    fn print(&self) {
        for skipped in &self.skipped {
            println!("skipped {skipped}");
        }
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped.len());
    }

    fn verdict(&self, in_ci: bool) -> anyhow::Result<()> {
        if self.failed > 0 {
            bail!("{} tests failed; they are named above", self.failed);
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
        output.lines().for_each(|line| tally.add(line));
        tally
    }

    #[test]
    fn results_of_all_programs_add_up() {
        let tally = tally(
            "running 2 tests\n\
             test a ... ok\n\
             test b - c (line 3) ... ignored, needs a moon\n\
             test d ... ignored\n\
             test result: ok. 10 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\n\
             test result: FAILED. 7 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        let skipped = vec!["b - c (line 3): needs a moon".to_owned(), "d: ignored".to_owned()];
        assert_eq!(tally, Tally { passed: 17, failed: 3, skipped });
    }

    #[test]
    fn a_failure_fails_and_a_skip_fails_in_ci() {
        let passed = tally("test result: ok. 1 passed; 0 failed; 0 ignored");
        assert!(passed.verdict(true).is_ok());
        let failed = tally("test result: FAILED. 1 passed; 1 failed; 0 ignored");
        assert!(failed.verdict(false).is_err());
        let skipped = tally("test a ... ignored");
        assert!(skipped.verdict(false).is_ok());
        assert!(skipped.verdict(true).is_err());
    }
}
