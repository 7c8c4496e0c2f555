//! `mcplane bench`: how fast a server is, beside the fastest thing that could stand in its place.

mod args;
mod watch;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use mcplane_lab::report::{Run, Style};
use mcplane_lab::{
    Control, Environment, Error, Floor, Plan, Report, Stream, Target, run as measure,
};
use mcplane_process::Command;

pub use args::BenchArgs;

/// Measures what the arguments name, or the built-in fixture over memory and stdio. `fixture`
/// serves it on the other end of the stream that it returns; it is called inside the lab's
/// single-threaded runtime.
///
/// Exit code 0: measured without an error; 1: the server answered with errors; 2: usage; 3: the
/// server could not be reached or spoken to.
///
/// # Errors
/// When the report cannot be written, or this program cannot be found to start it again.
pub fn run(
    args: &BenchArgs,
    fixture: impl Fn() -> io::Result<Stream> + Send + Sync + 'static,
) -> anyhow::Result<ExitCode> {
    let plans = match args.plans() {
        Ok(plans) => plans,
        Err(wrong) => return Ok(complain(&format!("error: {wrong}"), 2)),
    };
    let environment = Environment::look();
    let control = Arc::new(Control::default());
    watch::stop_on_interrupt(&control)?;
    let (runs, failed) = all(args, &plans, fixture, &control)?;
    let clean = runs.iter().all(Run::is_clean);
    if !runs.is_empty() {
        print(args, &Report::new(environment, runs))?;
    }
    Ok(match failed {
        Some(error) if error.is_usage() => complain(&format!("error: {error}"), 2),
        Some(error) if error.is_unreachable() => complain(&format!("error: {error}"), 3),
        Some(error @ Error::Interrupted) => complain(&error.to_string(), watch::INTERRUPTED),
        Some(error) => complain(&format!("error: {error}"), 1),
        None => ExitCode::from(u8::from(!clean)),
    })
}

/// Every plan on every target, up to the first that cannot be measured.
fn all(
    args: &BenchArgs,
    plans: &[Plan],
    fixture: impl Fn() -> io::Result<Stream> + Send + Sync + 'static,
    control: &Arc<Control>,
) -> anyhow::Result<(Vec<Run>, Option<Error>)> {
    let me = std::env::current_exe().context("cannot find this program to start it again")?;
    let floor = |memory: bool| match (args.no_floor, memory) {
        (true, _) => Floor::Off,
        (false, true) => Floor::Memory,
        (false, false) => {
            let plain = args.plain_floor.then_some("--plain");
            Floor::Process(Command::new(&me).arg("__floor").args(plain))
        }
    };
    let targets = match args.command.split_first() {
        Some((program, rest)) => {
            vec![(Target::Stdio(Command::new(program).args(rest)), floor(false))]
        }
        None => vec![
            (Target::memory("mcplane fixture", fixture), floor(true)),
            (Target::Stdio(Command::new(&me).arg("fixture")), floor(false)),
        ],
    };
    let mut runs = Vec::new();
    let of = targets.len() * plans.len();
    for (target, floor) in &targets {
        for plan in plans {
            let title = match of {
                1 => String::new(),
                _ => {
                    format!("{}/{of} {} × {}", runs.len() + 1, target.transport(), plan.concurrency)
                }
            };
            let watcher = watch::Watcher::start(control, title);
            let result = measure(plan, target, floor, control);
            watcher.finish();
            match result {
                Ok(run) => runs.push(run),
                Err(error) => return Ok((runs, Some(error))),
            }
            if control.is_stopped() {
                return Ok((runs, None));
            }
        }
    }
    Ok((runs, None))
}

fn print(args: &BenchArgs, report: &Report) -> anyhow::Result<()> {
    let to_stdout = args.json.as_deref() == Some(Path::new("-"));
    let mut stdout = io::stdout().lock();
    if to_stdout {
        serde_json::to_writer_pretty(&mut stdout, report)?;
        return Ok(writeln!(stdout)?);
    }
    let colour =
        stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    stdout.write_all(report.to_text(Style { colour }).as_bytes())?;
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
