//! `mcplane bench`: how fast a server is, beside the fastest thing that could stand in its place.

mod args;
mod floor;
mod modes;
mod profile;
mod scenario;
mod transports;
pub(crate) mod watch;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use mcplane_lab::report::{Document, Missing, Style};
use mcplane_lab::{
    Control, Environment, Error, Floor, Plan, Remote, Report, Stream, Target, run as measure,
    run_together,
};
use mcplane_process::Command;

pub use args::BenchArgs;
pub(crate) use args::{RawJson, calls_or_time, duration, raw_json};
pub use floor::{FloorArgs, run as floor};
use transports::Matrix;

use crate::report::{to_stderr, to_stdout};

/// Measures what the arguments name, or the built-in fixture: over memory and stdio, or over every
/// transport. `fixture`
/// serves it on the other end of the stream that it returns; it is called inside the lab's
/// single-threaded runtime.
///
/// Exit code 0: measured without an error; 1: the server answered with errors, or a condition fails;
/// 2: usage; 3: the server could not be reached or spoken to, or a condition cannot be told.
///
/// # Errors
/// When the report cannot be written, or this program cannot be found to start it again.
pub fn run(
    args: &BenchArgs,
    fixture: impl Fn() -> io::Result<Stream> + Send + Sync + 'static,
) -> anyhow::Result<ExitCode> {
    let asked =
        args.outputs.check(args.json.as_deref()).and_then(|()| match &args.modes.scenario {
            Some(path) => scenario::read(path, args),
            None => Ok(vec![args.clone()]),
        });
    let mut jobs = Vec::new();
    for args in match asked {
        Ok(asked) => asked,
        Err(wrong) => return Ok(complain(&format!("error: {wrong}"), 2)),
    } {
        match args.plans().and_then(|plans| Ok((plans, args.remote()?))) {
            Ok((plans, remote)) => jobs.push((args, plans, remote)),
            Err(wrong) => return Ok(complain(&format!("error: {wrong}"), 2)),
        }
    }
    let control = Arc::new(Control::default());
    watch::stop_on_interrupt(&control)?;
    let me = std::env::current_exe().context("cannot find this program to start it again")?;
    let memory = Target::memory("mcplane fixture", fixture);
    let (mut whole, mut failed, mut asked) = (None::<Report>, None, args.clone());
    for (args, plans, remote) in jobs {
        if failed.as_ref().is_some_and(Error::is_usage) {
            break;
        }
        if let Some(whole) = whole.as_mut().filter(|_| failed.is_some() || control.is_stopped()) {
            let what = "not tried, as one before it was not measured to its end".to_owned();
            let why = Error::Unreachable { what };
            for target in targets(&args, remote, (&me, &memory)) {
                plans.iter().for_each(|plan| miss(whole, &target, plan, &why));
            }
            continue;
        }
        let (report, error) = match measure_one(&args, &plans, remote, (&me, &memory), &control) {
            Ok(measured) => measured,
            Err(what) => return Ok(complain(&format!("error: {}", args.extra.blame(&what)), 2)),
        };
        whole = Some(match whole {
            Some(whole) => whole.and(report),
            None => report,
        });
        (failed, asked) = (error, args);
    }
    let Some(report) = whole else { return Ok(complain("error: nothing to measure", 2)) };
    let report = match &asked.modes.assert {
        Some(assertions) => report.asserting(assertions),
        None => report,
    };
    publish(&asked, &report)?;
    Ok(match failed {
        Some(error) if error.is_usage() => {
            complain(&format!("error: {}", asked.extra.blame(&error.to_string())), 2)
        }
        Some(error) if error.is_unreachable() => complain(&format!("error: {error}"), 3),
        Some(error @ Error::Interrupted) => complain(&error.to_string(), watch::INTERRUPTED),
        Some(error) => complain(&format!("error: {error}"), 1),
        None => ExitCode::from(modes::code(&asked, &report)),
    })
}

/// Measures what one command line asks for.
///
/// # Errors
/// In words, what is wrong with the command line.
fn measure_one(
    args: &BenchArgs,
    plans: &[Plan],
    remote: Option<Remote>,
    (me, memory): (&Path, &Target),
    control: &Arc<Control>,
) -> Result<(Report, Option<Error>), String> {
    let environment = Environment::look();
    let targets = targets(args, remote, (me, memory));
    if let Some(kind) = args.profile {
        let (runs, failed) = profile::run(args, kind, plans, control)?;
        let mut report = Report::new(environment, runs);
        if let (Some(target), Some(plan), Some(error)) = (targets.last(), plans.first(), &failed) {
            miss(&mut report, target, plan, error);
        }
        return Ok((report, failed));
    }
    if args.transports {
        return Ok(together(args, plans, (me, memory), control, environment));
    }
    Ok(match targets.last() {
        Some(target) if args.modes.is_any() => {
            modes::measure(args, target, me, control, environment)
        }
        _ => {
            let mut report = Report::new(environment, Vec::new());
            let failed = all(args, plans, (me, &targets), control, &mut report);
            (report, failed)
        }
    })
}

/// What is named, or the fixture.
fn targets(
    args: &BenchArgs,
    remote: Option<Remote>,
    (me, memory): (&Path, &Target),
) -> Vec<Target> {
    match (remote, args.command.split_first()) {
        (Some(remote), _) => vec![Target::Remote(Box::new(remote))],
        (None, Some((program, rest))) => {
            let command = Command::new(program).args(rest).inherit_env(args.extra.inherited());
            vec![Target::Stdio(command)]
        }
        (None, None) => {
            let fixture = Command::new(me).arg("fixture").inherit_env(["*"]);
            vec![memory.clone(), Target::Stdio(fixture)]
        }
    }
}

/// Every plan on every target, up to the first that cannot be measured.
fn all(
    args: &BenchArgs,
    plans: &[Plan],
    (me, targets): (&Path, &[Target]),
    control: &Arc<Control>,
    report: &mut Report,
) -> Option<Error> {
    let of = targets.len() * plans.len();
    for target in targets {
        let floor = match target {
            Target::Memory(_) if !args.no_floor => Floor::Memory,
            _ => process_floor(args, me),
        };
        for plan in plans {
            if control.is_stopped() && !report.runs.is_empty() {
                miss(report, target, plan, &Error::Interrupted);
                continue;
            }
            let title = match of {
                1 => String::new(),
                _ => {
                    let (at, many) = (report.runs.len() + 1, plan.concurrency);
                    format!("{at}/{of} {} × {many}", target.transport())
                }
            };
            let watcher = watcher(args, control, title);
            let result = measure(plan, target, &floor, control);
            watcher.finish();
            match result {
                Ok(run) => report.runs.push(run),
                Err(error) => {
                    miss(report, target, plan, &error);
                    return Some(error);
                }
            }
        }
    }
    None
}

/// Notes what could not be measured; a wrong command line is no result.
fn miss(report: &mut Report, target: &Target, plan: &Plan, error: &Error) {
    if !error.is_usage() {
        report.missing.push(Missing {
            target: target.to_string(),
            concurrency: plan.concurrency.saturating_mul(plan.sessions),
            why: error.to_string(),
        });
    }
}

fn watcher(args: &BenchArgs, control: &Arc<Control>, title: String) -> watch::Watcher {
    if args.quiet { watch::Watcher::none() } else { watch::Watcher::start(control, title) }
}

/// The fixture over every transport, for each plan in turns. What cannot be measured does not keep
/// the others from it.
fn together(
    args: &BenchArgs,
    plans: &[Plan],
    (me, memory): (&Path, &Target),
    control: &Arc<Control>,
    environment: Environment,
) -> (Report, Option<Error>) {
    let (mut runs, mut missing, mut failed) = (Vec::new(), Vec::new(), None);
    for plan in plans {
        let matrix = Matrix::new(me, memory, &process_floor(args, me));
        let title = format!("every transport × {}", plan.concurrency);
        let watcher = watcher(args, control, title);
        let outcomes = run_together(plan, &matrix.entries, control);
        watcher.finish();
        match outcomes {
            Ok(outcomes) => Matrix::sort(plan, outcomes, &mut runs, &mut missing),
            Err(error) => failed = Some(error),
        }
        if control.is_stopped() || failed.is_some() {
            break;
        }
    }
    if failed.is_none() {
        failed = match missing.first() {
            Some(first) => Some(Error::Unreachable { what: first.why.clone() }),
            None if runs.is_empty() => Some(Error::Interrupted),
            None => None,
        };
    }
    (Report::together(environment, runs, missing), failed)
}

fn process_floor(args: &BenchArgs, me: &Path) -> Floor {
    if args.no_floor {
        return Floor::Off;
    }
    let plain = args.plain_floor.then_some("--plain");
    Floor::Process(Command::new(me).arg("__floor").args(plain).inherit_env(["*"]))
}

/// Writes what was measured, and what could not be: files first, then stdout, whose reader may have
/// gone away. Without a measurement nothing is written for people.
fn publish(args: &BenchArgs, report: &Report) -> anyhow::Result<()> {
    let measured = !report.runs.is_empty() || report.cold_start().is_some();
    if !measured && report.missing.is_empty() {
        return Ok(());
    }
    let is_shown = args.outputs.write_with(&Document::of(report), args.json.as_deref(), report)?;
    if measured && !is_shown {
        let colour = io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        to_stdout(&report.to_text(Style { colour })).context("cannot write to stdout")?;
    }
    Ok(())
}

fn complain(what: &str, code: u8) -> ExitCode {
    to_stderr(&format!("{what}\n"));
    ExitCode::from(code)
}
