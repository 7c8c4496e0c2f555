//! `mcplane bench`: how fast a server is, beside the fastest thing that could stand in its place.

mod args;
mod floor;
mod modes;
mod profile;
mod scenario;
mod transports;
pub(crate) mod watch;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use mcplane_lab::report::{Document, Run, Style};
use mcplane_lab::{
    Control, Environment, Error, Floor, Plan, Remote, Report, Stream, Target, run as measure,
    run_together,
};
use mcplane_process::Command;

pub use args::BenchArgs;
pub(crate) use args::{RawJson, calls_or_time, duration, raw_json};
pub use floor::{FloorArgs, run as floor};
use transports::Matrix;

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
        let (report, error) = match measure_one(&args, &plans, remote, (&me, &memory), &control) {
            Ok(measured) => measured,
            Err(what) => return Ok(complain(&format!("error: {what}"), 2)),
        };
        whole = Some(match whole {
            Some(whole) => whole.and(report),
            None => report,
        });
        (failed, asked) = (error, args);
        if failed.is_some() || control.is_stopped() {
            break;
        }
    }
    let Some(report) = whole else { return Ok(complain("error: nothing to measure", 2)) };
    let report = match &asked.modes.assert {
        Some(assertions) => report.asserting(assertions),
        None => report,
    };
    if !report.runs.is_empty() || report.cold_start.is_some() {
        print(&asked, &report)?;
        asked.outputs.write(&Document::of(&report))?;
    }
    Ok(match failed {
        Some(error) if error.is_usage() => complain(&format!("error: {error}"), 2),
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
    if let Some(kind) = args.profile {
        let (runs, failed) = profile::run(args, kind, plans, control)?;
        return Ok((Report::new(environment, runs), failed));
    }
    if args.transports {
        return Ok(together(args, plans, (me, memory), control, environment));
    }
    let targets = match (remote, args.command.split_first()) {
        (Some(remote), _) => vec![Target::Remote(Box::new(remote))],
        (None, Some((program, rest))) => vec![Target::Stdio(Command::new(program).args(rest))],
        (None, None) => vec![memory.clone(), Target::Stdio(Command::new(me).arg("fixture"))],
    };
    Ok(match targets.last() {
        Some(target) if args.modes.is_any() => {
            modes::measure(args, target, me, control, environment)
        }
        _ => {
            let (runs, failed) = all(args, plans, (me, &targets), control);
            (Report::new(environment, runs), failed)
        }
    })
}

/// Every plan on every target, up to the first that cannot be measured.
fn all(
    args: &BenchArgs,
    plans: &[Plan],
    (me, targets): (&Path, &[Target]),
    control: &Arc<Control>,
) -> (Vec<Run>, Option<Error>) {
    let mut runs = Vec::new();
    let of = targets.len() * plans.len();
    for target in targets {
        let floor = match target {
            Target::Memory(_) if !args.no_floor => Floor::Memory,
            _ => process_floor(args, me),
        };
        for plan in plans {
            let title = match of {
                1 => String::new(),
                _ => {
                    format!("{}/{of} {} × {}", runs.len() + 1, target.transport(), plan.concurrency)
                }
            };
            let watcher = watcher(args, control, title);
            let result = measure(plan, target, &floor, control);
            watcher.finish();
            match result {
                Ok(run) => runs.push(run),
                Err(error) => return (runs, Some(error)),
            }
            if control.is_stopped() {
                return (runs, None);
            }
        }
    }
    (runs, None)
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
    Floor::Process(Command::new(me).arg("__floor").args(plain))
}

fn print(args: &BenchArgs, report: &Report) -> anyhow::Result<()> {
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let mut stdout = io::stdout().lock();
    if to_stdout {
        serde_json::to_writer_pretty(&mut stdout, report)?;
        return Ok(writeln!(stdout)?);
    }
    if !args.outputs.has_stdout() {
        let colour =
            stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        stdout.write_all(report.to_text(Style { colour }).as_bytes())?;
    }
    if let Some(path) = &args.json {
        let cannot = || format!("cannot write {}", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(cannot)?);
        serde_json::to_writer_pretty(&mut file, report).with_context(cannot)?;
        file.write_all(b"\n").and_then(|()| file.flush()).with_context(cannot)?;
    }
    Ok(())
}

fn complain(what: &str, code: u8) -> ExitCode {
    eprintln!("{what}");
    ExitCode::from(code)
}
