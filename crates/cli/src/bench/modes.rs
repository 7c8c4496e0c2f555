//! What `mcplane bench` does beside measuring one load: a ladder of them, the highest rate that
//! holds, assertions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use mcplane_lab::report::Run;
use mcplane_lab::verdict::Assertions;
use mcplane_lab::{
    Control, Environment, Error, Fresh, Report, Steps, Target, climb, cold_start, find_limit,
    listening_at, open_in_flight,
};

use super::{BenchArgs, process_floor, watcher};

/// Arguments of the modes of `mcplane bench`.
#[derive(Clone, Debug, Default, Args)]
#[allow(clippy::exhaustive_structs, reason = "what clap fills in")]
pub struct ModeArgs {
    /// Measure each of these numbers of calls in flight, upwards and downwards in turns, and find
    /// the knee: from where on more load gives no more throughput
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', group = "mode")]
    #[arg(conflicts_with_all = ["concurrency", "open", "transports"])]
    pub ladder: Vec<usize>,
    /// The same with rates of an open loop, in calls per second
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', groups = ["mode", "arriving"])]
    #[arg(conflicts_with_all = ["open", "transports"])]
    pub ladder_rate: Vec<f64>,
    /// Find the highest rate at which all of these hold, within 3 %
    #[arg(long, value_name = "'p99<50ms,errors=0'", groups = ["mode", "arriving"])]
    #[arg(conflicts_with_all = ["open", "transports", "assert"])]
    pub find_limit: Option<Assertions>,
    /// Start so many fresh processes (for a URL: connections), one after the other, to the first
    /// call: what each step takes, with the 95 % interval of the median; 30 or more say something
    #[arg(long, value_name = "N", group = "mode")]
    #[arg(conflicts_with_all = ["concurrency", "open", "transports", "assert", "sessions"])]
    pub cold_start: Option<usize>,
    /// Where the command of --cold-start listens; without it, it speaks over stdio
    #[arg(long, value_name = "URL")]
    pub listens: Option<String>,
    /// Take everything from a file of TOML; see docs/lab/scenario.md. Beside it may stand
    /// --quiet, --json and the other outputs
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["url", "headers", "transport", "ca", "pid", "command", "mode",
        "listens", "open", "arrivals", "seed", "transports", "assert", "tool", "args",
        "concurrency", "requests", "duration", "warmup", "timeout", "start_timeout", "sessions", "no_check",
        "distinct", "settle", "no_floor", "plain_floor", "pin", "era", "profile", "profile_out"])]
    pub scenario: Option<PathBuf>,
    /// Exit with 1 if one of these does not hold for a run, with 3 if that cannot be told or the
    /// run was interrupted; they alone decide then
    #[arg(long, value_name = "'p99<5ms,errors=0'")]
    pub assert: Option<Assertions>,
}

impl ModeArgs {
    /// Whether something else than one load after another is measured.
    pub(super) const fn is_any(&self) -> bool {
        !self.ladder.is_empty() || self.rates_by().is_some() || self.cold_start.is_some()
    }

    /// The flag that makes one load after another an open loop at another rate, if one does.
    pub(super) const fn rates_by(&self) -> Option<&'static str> {
        match (self.ladder_rate.is_empty(), &self.find_limit) {
            (false, _) => Some("--ladder-rate"),
            (true, Some(_)) => Some("--find-limit"),
            (true, None) => None,
        }
    }
}

/// Measures in the mode that was asked for.
pub(super) fn measure(
    args: &BenchArgs,
    target: &Target,
    me: &Path,
    control: &Arc<Control>,
    environment: Environment,
) -> (Report, Option<Error>) {
    let modes = &args.modes;
    let given = args.concurrency.first().copied();
    let plan = args.plan(given.unwrap_or_else(|| open_in_flight(args.sessions)));
    let steps = match modes.ladder_rate.as_slice() {
        [] => Steps::Concurrency(modes.ladder.clone()),
        rates => Steps::Rate(rates.to_vec()),
    };
    let title = match (&modes.find_limit, modes.cold_start) {
        (Some(_), _) => "finding the limit",
        (None, Some(_)) => "cold starts",
        (None, None) => "ladder",
    };
    let shown = watcher(args, control, title.to_owned());
    let mut report = Report::new(environment, Vec::new());
    let outcome: Result<Vec<Run>, Error> = match &modes.find_limit {
        _ if modes.cold_start.is_some() => {
            let starts = modes.cold_start.unwrap_or_default();
            cold(args, target).and_then(|fresh| cold_start(&plan, &fresh, starts, control)).map(
                |cold| {
                    report.measured = cold.into();
                    Vec::new()
                },
            )
        }
        Some(conditions) => find_limit(&plan, conditions, target, control).map(|(runs, found)| {
            report.measured = found.into();
            runs
        }),
        None => {
            climb(&plan, &steps, target, &process_floor(args, me), control).map(|(runs, ladder)| {
                report.measured = ladder.into();
                runs
            })
        }
    };
    shown.finish();
    match outcome {
        Ok(runs) => {
            report.runs = runs;
            (report, None)
        }
        Err(error) => {
            super::miss(&mut report, target, &plan, &error);
            (report, Some(error))
        }
    }
}

/// What is started again and again.
fn cold(args: &BenchArgs, target: &Target) -> Result<Fresh, Error> {
    match (&args.modes.listens, target) {
        (Some(url), Target::Stdio(command)) => {
            let remote = listening_at(url).map_err(|what| Error::Unreachable { what })?;
            Ok(Fresh::Listening(command.clone(), Box::new(remote)))
        }
        _ => Ok(Fresh::Target(target.clone())),
    }
}

/// The exit code of what was measured in full.
pub(super) fn code(args: &BenchArgs, report: &Report) -> u8 {
    let failed = report.cold_start().is_some_and(|cold| cold.failed > 0);
    let clean = report.runs.iter().all(Run::is_clean) && !failed;
    match (report.limit(), &args.modes.assert) {
        (Some(found), _) => match (found.limit_per_s, &found.unfinished) {
            (_, Some(_)) => 3,
            (limit, None) => u8::from(limit.is_none()),
        },
        (None, Some(_)) => match report.holds() {
            Some(holds) => u8::from(!holds),
            None => 3,
        },
        (None, None) => u8::from(!clean),
    }
}
