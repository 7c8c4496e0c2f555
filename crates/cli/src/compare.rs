//! `mcplane compare`: which of several servers is faster, or what a gateway costs.
//!
//! * `words`   — what a target is, from one argument.
//! * `service` — a command that listens at a known address.
//! * `rounds`  — the runs, in turns.
//! * `files`   — results that were measured apart.

mod files;
mod rounds;
mod service;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::{ArgMatches, Args};
use mcplane_lab::report::Document;
use mcplane_lab::verdict::{Contest, PAIRS_DEFAULT, PAIRS_MIN, Role};
use mcplane_lab::{
    Arrivals, Control, Environment, Error, Plan, Shape, Spacing, Speak, Until, open_in_flight,
};

use crate::bench::{RawJson, calls_or_time, duration, raw_json, watch};
use crate::report::{Outputs, to_stderr, to_stdout};
use words::Subject;

/// Most targets at once.
const TARGETS_MAX: usize = 16;

/// Most pairs of runs.
const PAIRS_MAX: usize = 1000;

/// Measure several servers in turns and say which is faster, or what a gateway adds.
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
#[allow(clippy::exhaustive_structs, reason = "what clap fills in")]
pub struct CompareArgs {
    /// Servers, or results; the first is what the others are compared with
    #[arg(value_name = "TARGET", required = true)]
    pub targets: Vec<String>,
    /// A gateway: the first server is measured directly and through it (repeatable)
    #[arg(long, value_name = "GATEWAY")]
    pub through: Vec<String>,
    /// Runs of each target
    #[arg(long, value_name = "N", default_value_t = PAIRS_DEFAULT)]
    pub pairs: usize,
    /// Least effect that matters
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "5%")]
    pub effect: f64,
    /// Do not measure the first target against itself
    #[arg(long)]
    pub no_calibration: bool,
    /// Tool to call; by default one that is cheap and changes nothing
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Arguments of the tool; by default built from its input schema
    #[arg(long, value_name = "JSON", value_parser = raw_json, requires = "tool")]
    pub args: Option<RawJson>,
    /// Calls in flight per session [default: 1]. With --rate at most so many [default: 1024 over all
    /// sessions]
    #[arg(long, short, value_name = "N")]
    pub concurrency: Option<usize>,
    /// Open loop: begin so many calls per second, whether others have ended or not
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// How the calls of an open loop are spread: evenly, or as many callers do who do not know of
    /// each other
    #[arg(long, default_value = "constant", value_name = "constant|poisson", requires = "rate")]
    pub arrivals: Spacing,
    /// Where the random spread begins: every run has the same instants
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rate")]
    pub seed: u64,
    /// Connections; over stdio, processes
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    pub sessions: usize,
    /// Time of each run
    #[arg(long, short, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub duration: Duration,
    /// Calls of each run, in place of a time
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "duration")]
    pub requests: Option<u64>,
    /// Calls (100) or time (1s) to throw away at the start of each run
    #[arg(long, value_name = "N|TIME", value_parser = calls_or_time, default_value = "500ms")]
    pub warmup: Until,
    /// Longest time for one call
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub timeout: Duration,
    /// Longest time for each step of starting up
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "20s")]
    pub start_timeout: Duration,
    /// Do not compare each result with the first
    #[arg(long)]
    pub no_check: bool,
    /// Keep generator and servers on this core
    #[arg(long, value_name = "CPU")]
    pub pin: Option<usize>,
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
    let (subjects, plan) = match asked(args) {
        Ok(asked) => asked,
        Err(wrong) => return Ok(complain(&wrong, 2)),
    };
    let environment = Environment::look();
    let control = Arc::new(Control::default());
    watch::stop_on_interrupt(&control)?;
    let (sides, failed) = rounds::measure(&subjects, &plan, args.pairs, &control)?;
    let has_pairs = sides.iter().all(|(_, _, runs)| runs.len() >= PAIRS_MIN);
    let contest = Contest::new(environment, args.effect, sides);
    if has_pairs {
        publish(args, &contest)?;
    }
    Ok(match failed {
        Some(error) if error.is_usage() => complain(&error.to_string(), 2),
        Some(error) if error.is_unreachable() => complain(&error.to_string(), 3),
        Some(Error::Interrupted) if has_pairs => {
            to_stderr(&format!("stopped after {} of {} pairs\n", contest.pairs, args.pairs));
            ExitCode::from(u8::from(!contest.is_clean()))
        }
        Some(Error::Interrupted) => complain("stopped before there were three pairs", 130),
        Some(error) => complain(&error.to_string(), 1),
        None => ExitCode::from(u8::from(!contest.is_clean())),
    })
}

/// The targets with their parts, and the plan of a run.
fn asked(args: &CompareArgs) -> Result<(Vec<(Subject, Role)>, Plan), String> {
    if !(PAIRS_MIN..=PAIRS_MAX).contains(&args.pairs) {
        return Err(format!("--pairs: got {}; it takes {PAIRS_MIN} to {PAIRS_MAX}", args.pairs));
    }
    let count = args.targets.len() + args.through.len();
    if !(2..=TARGETS_MAX).contains(&count) {
        return Err(format!("{count} targets; it takes 2 to {TARGETS_MAX}, or one and --through"));
    }
    let mut subjects = Vec::new();
    for target in &args.targets {
        let role = if subjects.is_empty() { Role::Base } else { Role::Rival };
        subjects.push((Subject::parse(target, &args.headers)?, role));
    }
    for gateway in &args.through {
        let server = args.targets.first().map_or("", String::as_str);
        subjects.push((Subject::gateway(gateway, server, &args.headers)?, Role::Gateway));
    }
    for (at, (subject, _)) in subjects.iter_mut().enumerate() {
        subject.speak = match args.era.as_slice() {
            [all] => *all,
            each if each.len() == count => each.get(at).copied().unwrap_or_default(),
            each => return Err(format!("--era: {} for {count} targets", each.len())),
        };
    }
    if !args.no_calibration {
        let base = subjects.first().map(|(base, _)| (base.clone(), Role::Calibration));
        subjects.extend(base);
    }
    let plan = plan(args);
    plan.validate().map_err(|error| error.to_string())?;
    Ok((subjects, plan))
}

fn plan(args: &CompareArgs) -> Plan {
    let arrivals = args.rate.map(|per_s| Arrivals {
        shape: Shape::Rate { per_s },
        spacing: args.arrivals,
        seed: args.seed,
    });
    let in_flight = arrivals.map_or(1, |_| open_in_flight(args.sessions));
    Plan {
        tool: args.tool.clone(),
        args: args.args.clone().map(RawJson::into_inner),
        concurrency: args.concurrency.unwrap_or(in_flight),
        arrivals,
        until: args.requests.map_or(Until::Elapsed(args.duration), Until::Calls),
        warmup: args.warmup,
        timeout: args.timeout,
        start_timeout: args.start_timeout,
        sessions: args.sessions,
        check: !args.no_check,
        pin: args.pin,
        slices: 1,
        seed: args.seed,
        ..Plan::default()
    }
}

/// Whether this names a file of results, be it there or not.
fn is_result(target: &str) -> bool {
    let file = target.rsplit_once('#').map_or(target, |(file, _)| file);
    let is_word = !target.contains(char::is_whitespace) && !words::is_address(target);
    let endings = [".json", ".json.gz", ".jsonl", ".jsonl.gz"];
    endings.iter().any(|ending| file.ends_with(ending)) && (is_word || Path::new(file).is_file())
}

/// Files first, then stdout, whose reader may have gone away.
fn publish(args: &CompareArgs, contest: &Contest) -> anyhow::Result<()> {
    let document = Document::of_contest(contest);
    if args.outputs.write_with(&document, args.json.as_deref(), contest)? {
        return Ok(());
    }
    to_stdout(&contest.to_text()).context("cannot write to stdout")
}

/// A fraction: `5%`, or `5`.
fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').trim().parse().map_err(|_| "not a percentage")?;
    match number {
        number if number > 0.0 && number <= 100.0 => Ok(number / 100.0),
        _ => Err("it takes more than 0 % to 100 %".to_owned()),
    }
}

pub(crate) fn complain(what: &str, code: u8) -> ExitCode {
    to_stderr(&format!("error: {what}\n"));
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

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

    fn roles(words: &[&str]) -> Result<Vec<Role>, String> {
        let (subjects, _) = asked(&parse(words).unwrap())?;
        Ok(subjects.into_iter().map(|(_, role)| role).collect())
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
    fn each_target_has_its_part() {
        use Role::{Base, Calibration, Gateway, Rival};
        assert_eq!(roles(&["a", "b"]).unwrap(), [Base, Rival, Calibration]);
        assert_eq!(roles(&["a", "b", "c", "--no-calibration"]).unwrap(), [Base, Rival, Rival]);
        let through = ["a", "--through", "gw -- {server}", "--no-calibration"];
        assert_eq!(roles(&through).unwrap(), [Base, Gateway]);
    }

    #[test]
    fn each_target_has_its_era() {
        let eras = |words: &[&str]| {
            let (subjects, _) = asked(&parse(words).unwrap()).unwrap();
            subjects.into_iter().map(|(subject, _)| subject.speak).collect::<Vec<_>>()
        };
        let (old, new) = ("legacy".parse().unwrap(), "modern".parse().unwrap());
        let own = ["a", "b", "--through", "gw -- {server}", "--era", "legacy,modern,modern"];
        assert_eq!(eras(&own), [old, new, new, old]);
        assert_eq!(eras(&["a", "b", "--era", "modern"]), [new; 3]);
        assert_eq!(eras(&["a", "b"]), [Speak::default(); 3]);
    }

    #[test]
    fn flags_reach_the_plan() {
        let words = ["a", "b", "-c", "4", "-d", "1s", "--warmup", "20", "--effect", "2.5%"];
        let args = parse(&words).unwrap();
        let (_, plan) = asked(&args).unwrap();
        assert_eq!((plan.concurrency, plan.warmup), (4, Until::Calls(20)));
        assert_eq!(plan.until, Until::Elapsed(Duration::from_secs(1)));
        assert!((args.effect - 0.025).abs() < 1e-12 && args.pairs == 10);
    }

    #[test]
    fn an_open_loop_has_one_schedule_and_room() {
        let plan = |words: &[&str]| asked(&parse(words).unwrap()).unwrap().1;
        let open = plan(&["a", "b", "--rate", "500", "--arrivals", "poisson", "--seed", "7"]);
        let arrivals = open.arrivals.unwrap();
        assert_eq!(arrivals.shape, Shape::Rate { per_s: 500.0 });
        assert_eq!((arrivals.spacing, arrivals.seed, open.seed), (Spacing::Poisson, 7, 7));
        assert_eq!(open.concurrency, 1024);
        let own = plan(&["a", "b", "--rate", "500", "-c", "8", "-s", "2"]);
        assert_eq!((own.concurrency, own.arrivals.unwrap().spacing), (8, Spacing::Constant));
        let closed = plan(&["a", "b"]);
        assert_eq!((closed.concurrency, closed.arrivals), (1, None));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let open = ["a", "b", "--rate", "0"];
        assert!(roles(&open).unwrap_err().starts_with("--rate"));
        for words in [&["--seed", "1"][..], &["--arrivals", "poisson"]] {
            assert!(parse(&[&["a", "b"][..], words].concat()).is_err(), "{words:?}");
        }
        assert!(parse(&["a", "b", "--rate", "1", "--arrivals", "x"]).is_err());
        assert!(roles(&["a"]).unwrap_err().contains("2 to 16"));
        assert!(roles(&["a", "b", "--pairs", "2"]).unwrap_err().starts_with("--pairs"));
        let eras = ["a", "b", "c", "--era", "legacy,modern"];
        assert_eq!(roles(&eras).unwrap_err(), "--era: 2 for 3 targets");
        assert!(roles(&["a", "b", "-c", "0"]).unwrap_err().starts_with("--concurrency"));
        assert!(roles(&["a", "'b"]).unwrap_err().contains("not closed"));
        for words in [&[][..], &["a", "--effect", "0"], &["a", "--args", "{}"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
