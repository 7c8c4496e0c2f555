//! `mcplane compare`: which of several servers is faster, or what a gateway costs.
//!
//! * `files` — results that were measured apart.

mod files;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{ArgMatches, Args};
use mcplane_lab::report::Document;
use mcplane_lab::verdict::{Contest, PAIRS_DEFAULT, PAIRS_MIN};
use mcplane_lab::{Address, ContestError, ContestSpec, Control, Error, Speak, contest};

use crate::bench::complain;
use crate::bench::watch::{self, Watcher};
use crate::load::{LoadArgs, Source};
use crate::report::{Outputs, to_stderr, to_stdout};

/// Measure several servers in turn and say which is faster, or what a gateway adds.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A target is one argument:
  'npx -y my-server'                 a command that speaks over stdio
  'my-server --http @ http'          a command that prints the address where it listens (http, sse, ws, tcp, unix)
  'my-server --port 9 @ http://127.0.0.1:9/mcp'   a command that listens at that address
  http://127.0.0.1:9/mcp             a server that runs already
  result.json                        a result of `mcplane bench --json` (all targets, or none)
A gateway has the same forms; {server} in its command is where the server's command goes, and a
command without @ prints its HTTP address.

Examples:
  mcplane compare 'node a.js' 'python b.py' --tool echo --args '{\"text\":\"x\"}'
  mcplane compare 'node a.js' --through 'mcplane serve --listen 127.0.0.1:0 -- {server}'
  mcplane compare before.json after.json

Exit code: 0 compared, 1 a server answered with errors, 2 usage, 3 a server could not be reached or
results are too short to be compared, 130 interrupted before there were three pairs.")]
#[command(
    mut_arg("concurrency", |arg| arg.help("Calls in flight per session [default: 1]. In an open \
        loop at most so many [default: 1024 over all sessions]")),
    mut_arg("duration", |arg| arg.help("Time of each run [default: 2s]")),
    mut_arg("requests", |arg| arg.help("Calls of each run, in place of a time")),
    mut_arg("warmup", |arg| arg.help("Calls (100) or time (1s) to throw away at the start of each run \
        [default: 500ms, and on until latencies show no trend, for 5s at most]")),
)]
#[allow(clippy::exhaustive_structs, reason = "what clap fills in")]
pub struct CompareArgs {
    /// Servers, or results; the others are compared with the first
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,
    /// A gateway: the first server is measured directly and through it (repeatable)
    #[arg(long, value_name = "GATEWAY")]
    pub through: Vec<String>,
    /// Runs of each target
    #[arg(long, value_name = "N", default_value_t = PAIRS_DEFAULT)]
    pub pairs: usize,
    /// The least effect that matters
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "5%")]
    pub effect: f64,
    /// Do not measure the first target against itself
    #[arg(long)]
    pub no_calibration: bool,
    #[command(flatten)]
    pub load: LoadArgs,
    /// Handshake: auto, legacy, modern, or a revision such as 2025-06-18; one for all, or one for
    /// each target and then each gateway, with commas
    #[arg(
        long,
        visible_alias = "revision",
        value_name = "ERA",
        default_value = "auto",
        value_delimiter = ','
    )]
    pub era: Vec<Speak>,
    /// Header of every HTTP request and of the WebSocket handshake to every address (repeatable)
    #[arg(long = "header", value_name = "'NAME: VALUE'")]
    pub headers: Vec<String>,
    /// Write everything as JSON to a file, or to stdout in place of the table (-)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub outputs: Outputs,
}

/// Measures the targets in turns, or reads their results, and prints what they come to. `given` is what
/// the arguments were read from.
///
/// # Errors
/// When the report cannot be written.
pub fn run(args: &CompareArgs, given: Option<&ArgMatches>) -> anyhow::Result<ExitCode> {
    if let Err(wrong) = args.outputs.check(args.json.as_deref()) {
        return Ok(complain(&wrong, 2));
    }
    if args.targets.iter().any(|target| is_result(target)) {
        if let Some(other) = args.targets.iter().find(|target| !is_result(target)) {
            let wrong = format!(
                "all targets must be results, or none: `{other}` is none; `mcplane bench --json FILE` \
                 makes one"
            );
            return Ok(complain(&wrong, 2));
        }
        return match given.and_then(files::measuring) {
            Some(flag) => {
                Ok(complain(&format!("--{flag} is for servers; all of these are results"), 2))
            }
            None => files::compare(args),
        };
    }
    let control = Arc::new(Control::default());
    watch::stop_on_interrupt(&control)?;
    let watcher = Watcher::start(&control);
    let measured = contest(&args.spec(), &control);
    watcher.finish();
    let (contest, failed) = match measured {
        Ok(measured) => measured,
        Err(wrong) => return Ok(complain(&words(&wrong), 2)),
    };
    let has_pairs = contest.pairs >= PAIRS_MIN;
    if has_pairs {
        publish(args, &contest)?;
    }
    let clean = ExitCode::from(u8::from(!contest.is_clean()));
    Ok(match failed {
        Some(error) if error.is_usage() => complain(&Source::CommandLine.error(&error), 2),
        Some(error) if error.is_unreachable() => complain(&error.to_string(), 3),
        Some(Error::Interrupted) if has_pairs => {
            to_stderr(&format!("stopped after {} of {} pairs\n", contest.pairs, args.pairs));
            clean
        }
        Some(Error::Interrupted) => complain("stopped before there were three pairs", 130),
        Some(error) => complain(&error.to_string(), 1),
        None => clean,
    })
}

impl CompareArgs {
    fn spec(&self) -> ContestSpec {
        ContestSpec {
            targets: self.targets.clone(),
            through: self.through.clone(),
            headers: self.headers.clone(),
            eras: self.era.clone(),
            pairs: self.pairs,
            effect: self.effect,
            calibration: !self.no_calibration,
            load: self.load.spec(),
        }
    }
}

/// What is wrong with the command line.
fn words(wrong: &ContestError) -> String {
    match wrong {
        ContestError::Load(wrong) => Source::CommandLine.complaint(wrong),
        ContestError::Pairs(_) => format!("--pairs: {wrong}"),
        ContestError::Eras { .. } => format!("--era: {wrong}"),
        wrong => wrong.to_string(),
    }
}

/// Whether this names a file of results, be it there or not.
fn is_result(target: &str) -> bool {
    let file = target.rsplit_once('#').map_or(target, |(file, _)| file);
    let is_word = !target.contains(char::is_whitespace) && !Address::is_written(target);
    let endings = [".json", ".json.gz", ".jsonl", ".jsonl.gz"];
    endings.iter().any(|ending| file.ends_with(ending)) && (is_word || Path::new(file).is_file())
}

/// Files first, then stdout, whose reader may have gone away.
fn publish(args: &CompareArgs, contest: &Contest) -> anyhow::Result<()> {
    let document = Document::of_contest(contest);
    if args.outputs.write_with(&document, args.json.as_deref(), contest)? {
        return Ok(());
    }
    to_stdout(&contest.to_text(columns())).context("cannot write to stdout")
}

/// How wide the terminal is; what is not a terminal has 80 columns.
fn columns() -> usize {
    terminal_size::terminal_size_of(std::io::stdout()).map_or(80, |(width, _)| width.0.into())
}

/// A fraction: `5%`, or `5`.
fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').trim().parse().map_err(|_| "not a percentage")?;
    match number {
        number if number > 0.0 && number <= 100.0 => Ok(number / 100.0),
        _ => Err("it takes more than 0 % to 100 %".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;
    use mcplane_lab::Until;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        compare: CompareArgs,
    }

    fn parse(words: &[&str]) -> Result<CompareArgs, clap::Error> {
        let cli = Cli::try_parse_from(["compare"].iter().chain(words));
        cli.map(|cli| cli.compare)
    }

    #[test]
    fn a_file_that_is_not_there_is_still_no_command() {
        for target in ["/nowhere/base.json", "base.json.gz", "all.jsonl.gz#one"] {
            assert!(is_result(target), "{target}");
        }
        for target in ["server", "node server.json", "http://a/b.json", "unix:/tmp/s.json"] {
            assert!(!is_result(target), "{target}");
        }
    }

    #[test]
    fn flags_reach_the_spec() {
        let words = ["a", "b", "-c", "4", "-d", "1s", "--warmup", "20", "--effect", "2.5%"];
        let spec = parse(&words).unwrap().spec();
        assert_eq!((spec.load.concurrency, spec.load.warmup), (vec![4], Some(Until::Calls(20))));
        assert_eq!(spec.load.duration, Some(Duration::from_secs(1)));
        assert!((spec.effect - 0.025).abs() < 1e-12 && spec.pairs == 10 && spec.calibration);
        let eras = ["a", "b", "--era", "legacy,modern", "--no-calibration"];
        let spec = parse(&eras).unwrap().spec();
        assert_eq!(spec.eras, ["legacy", "modern"].map(|era| era.parse().unwrap()));
        assert!(!spec.calibration);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |line: &[&str]| {
            let control = Arc::new(Control::default());
            words(&contest(&parse(line).unwrap().spec(), &control).unwrap_err())
        };
        for (line, wrong) in [
            (&["a", "b", "--rate", "0"][..], "--rate: got 0"),
            (&["a", "b", "--seed", "1"], "--seed: it takes --rate"),
            (&["a", "b", "--arrivals", "poisson"], "--arrivals: it takes --rate"),
            (&["a", "b", "--args", "{}"], "--args: it takes --tool"),
            (&["a"], "1 targets; it takes 2 to 16"),
            (&["a", "b", "--pairs", "2"], "--pairs: got 2; it takes 3 to 1000"),
            (&["a", "b", "c", "--era", "legacy,modern"], "--era: 2 for 3 targets"),
            (&["a", "b", "-c", "0"], "--concurrency: got 0"),
            (&["a", "'b"], "'b: a ' is not closed"),
        ] {
            assert!(refused(line).starts_with(wrong), "{line:?}: {}", refused(line));
        }
        assert!(parse(&["a", "b", "--rate", "1", "--arrivals", "x"]).is_err());
        for words in [&[][..], &["a", "--effect", "0"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
