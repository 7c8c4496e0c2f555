//! `mcplane gate`: whether a result may pass.

use std::env;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use mcplane_lab::verdict::{Assertions, Finding, Gate, Outcome, PROFILES, Profile, Recorded, gate};

use crate::bench::complain;
use crate::input;
use crate::report::{to_stderr, to_stdout, write_json};

/// Judge a result against a baseline and limits.
///
/// Files are those of `mcplane bench --json` or `mcplane compare --json`, or counts:
/// {"instructions": {"scenario": 1}}, likewise allocations, syscalls and bytes.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  mcplane gate baseline.json result.json
  mcplane gate baseline.json result.json --profile cmcp-inline --assert 'p99<5ms,errors=0'
  mcplane gate baseline.json result.json --github

Exit code: 0 passed, 1 a regression, 2 usage or a file that cannot be read or written, 3 cannot tell.")]
#[allow(clippy::exhaustive_structs, reason = "what clap fills in")]
pub struct GateArgs {
    /// The baseline
    #[arg(value_name = "BASELINE")]
    pub baseline: PathBuf,
    /// The result to judge
    #[arg(value_name = "RESULT")]
    pub result: PathBuf,
    /// Limits: default, erlmcp, cmcp-inline, cmcp-pool or cmcp-http
    #[arg(long, value_name = "NAME", value_parser = profile, default_value = "default")]
    pub profile: Profile,
    /// Limits on the result itself: p99<5ms,errors=0,throughput>=1000/s
    #[arg(long = "assert", value_name = "LIMITS")]
    pub assertions: Option<Assertions>,
    /// Write a job summary and annotations for GitHub Actions
    #[arg(long)]
    pub github: bool,
    /// Write everything as JSON to a file, or to stdout in place of the table (-)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Judges, prints, and returns the exit code.
///
/// # Errors
/// None: what cannot be read or written has an exit code of its own.
pub fn run(args: &GateArgs) -> anyhow::Result<ExitCode> {
    let read = |path: &Path| {
        let wrong = |what: String| format!("{}: {what}", path.display());
        let text = input::result(path).map_err(|error| wrong(error.to_string()))?;
        Recorded::parse(&text).map_err(|error| wrong(error.to_string()))
    };
    let (baseline, result) = match (read(&args.baseline), read(&args.result)) {
        (Ok(baseline), Ok(result)) => (baseline, result),
        (Err(wrong), _) | (_, Err(wrong)) => return Ok(complain(&wrong, 2)),
    };
    let assertions = args.assertions.clone().unwrap_or_default();
    let judged = gate(&baseline, &result, &args.profile, &assertions);
    Ok(match publish(args, &judged) {
        Ok(()) => ExitCode::from(judged.outcome.exit_code()),
        Err(error) => complain(&format!("{error:#}"), 2),
    })
}

/// Files first, then stdout, whose reader may have gone away.
fn publish(args: &GateArgs, judged: &Gate) -> anyhow::Result<()> {
    args.json.as_deref().map_or(Ok(()), |path| write_json(path, judged))?;
    let mut annotations = String::new();
    if args.github {
        summarize(judged)?;
        for line in judged.findings.iter().filter_map(annotation) {
            annotations.push_str(&line);
            annotations.push('\n');
        }
    }
    // The runner reads both; JSON on stdout stays alone there.
    if args.json.as_deref() == Some(Path::new("-")) {
        to_stderr(&annotations);
        return Ok(());
    }
    to_stdout(&(table(judged, args.assertions.is_some()) + &annotations))
        .context("cannot write to stdout")
}

fn profile(name: &str) -> Result<Profile, String> {
    Profile::named(name)
        .ok_or_else(|| format!("there are {}", PROFILES.map(|profile| profile.name).join(", ")))
}

fn table(judged: &Gate, is_asserted: bool) -> String {
    let (mut text, mut run) = (String::new(), None);
    for finding in &judged.findings {
        // Writing to a string cannot fail.
        if run.replace(&finding.run) != Some(&finding.run) {
            let _ = writeln!(text, "{}", finding.run);
        }
        let Finding { what, baseline, result, limit, outcome, note, .. } = finding;
        let ratio = change(finding);
        let outcome = word(*outcome);
        let _ = writeln!(
            text,
            "  {what:<14}{baseline:>14} → {result:<14}{ratio:<26}{limit:<20} {outcome:<12}{note}"
        );
    }
    let and = if is_asserted { " and --assert" } else { "" };
    let _ = writeln!(text, "{} by the profile `{}`{and}", word(judged.outcome), judged.profile);
    text
}

/// The ratio as a change in percent.
fn change(finding: &Finding) -> String {
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    match finding.ratio {
        None => String::new(),
        #[allow(clippy::float_cmp, reason = "an exact figure has the same three")]
        Some(ratio) if ratio.low == ratio.high => format!("{:+.2} %", percent(ratio.value)),
        Some(ratio) => format!(
            "{:+.1} % [{:+.1}, {:+.1}]",
            percent(ratio.value),
            percent(ratio.low),
            percent(ratio.high)
        ),
    }
}

const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "passed",
        Outcome::CannotTell => "cannot tell",
        Outcome::Regression => "regression",
    }
}

/// A finding as a workflow command of GitHub Actions.
fn annotation(finding: &Finding) -> Option<String> {
    let kind = match finding.outcome {
        Outcome::Pass => return None,
        Outcome::CannotTell => "warning",
        Outcome::Regression => "error",
    };
    let Finding { run, what, baseline, result, limit, note, outcome, .. } = finding;
    let change = change(finding);
    let told = format!("{run}: {what} {baseline} → {result} {change} (limit {limit}) {note}");
    let told = told.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    Some(format!("::{kind} title=mcplane gate%3A {}::{told}", word(*outcome)))
}

/// Adds a table to the job's summary, or prints it where there is no job.
fn summarize(judged: &Gate) -> anyhow::Result<()> {
    let text = markdown(judged);
    let Some(path) = env::var_os("GITHUB_STEP_SUMMARY").map(PathBuf::from) else {
        to_stderr(&text);
        return Ok(());
    };
    let cannot = || format!("cannot write {}", path.display());
    let mut file = OpenOptions::new().append(true).create(true).open(&path).with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)
}

fn markdown(judged: &Gate) -> String {
    let mut text = format!(
        "### mcplane gate: {} (profile `{}`)\n\n\
         | run | figure | baseline | result | change [95 %] | limit | outcome |\n\
         |---|---|---:|---:|---:|---|---|\n",
        word(judged.outcome),
        judged.profile
    );
    let cell = |text: &str| text.replace('|', "\\|").replace(['\r', '\n'], " ");
    for finding in &judged.findings {
        let Finding { run, what, baseline, result, limit, .. } = finding;
        let outcome = match finding.outcome {
            Outcome::Pass => "passed",
            Outcome::CannotTell => "**cannot tell**",
            Outcome::Regression => "**regression**",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {outcome} |",
            cell(run),
            cell(what),
            cell(baseline),
            cell(result),
            change(finding),
            cell(limit)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A count that rose by 2 %, and one that did not.
    fn judged() -> Gate {
        let read = |n: u32| {
            let text = format!("{{\"instructions\": {{\"a|b\": {n}, \"c\": 5}}}}");
            Recorded::parse(&text).unwrap()
        };
        let profile = Profile::named("default").unwrap();
        gate(&read(100), &read(102), &profile, &Assertions::default())
    }

    #[test]
    fn a_regression_is_an_annotation_and_a_pass_is_none() {
        let judged = judged();
        let lines: Vec<_> = judged.findings.iter().filter_map(annotation).collect();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("::error title=mcplane gate%3A regression::"), "{}", lines[0]);
        assert!(lines[0].contains("100 → 102 +2.00 %25 (limit +1 %25)"), "{}", lines[0]);
    }

    #[test]
    fn the_summary_is_a_table() {
        let text = markdown(&judged());
        assert!(text.starts_with("### mcplane gate: regression (profile `default`)"), "{text}");
        assert!(text.contains("instructions of a\\|b"), "{text}");
        let pipes = |line: &str| line.replace("\\|", "").matches('|').count();
        assert!(text.lines().skip(2).all(|line| pipes(line) == 8), "{text}");
    }

    #[test]
    fn profiles_have_names() {
        assert_eq!(profile("erlmcp").unwrap().name, "erlmcp");
        assert!(profile("x").unwrap_err().contains("cmcp-http"));
    }
}
