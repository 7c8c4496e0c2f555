//! `mcplane bench`: how fast a server is, beside the fastest thing that could stand in its place.

mod args;
mod floor;
pub(crate) mod watch;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use mcplane_lab::report::{Document, Style};
use mcplane_lab::spec::{self, Spec};
use mcplane_lab::{
    BuiltIn, Control, Error, Outcome, Report, Stream, Target, Transport, bench as measure,
};
use mcplane_process::Command;

pub use args::BenchArgs;
pub use floor::{FloorArgs, run as floor};
use watch::Watcher;

use crate::load::Source;
use crate::report::{Outputs, to_stderr, to_stdout};

/// What is to be measured, and where the results go.
struct Asked {
    spec: Spec,
    source: Source,
    quiet: bool,
    json: Option<PathBuf>,
    outputs: Outputs,
}

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
    let asked = match asked(args) {
        Ok(asked) => asked,
        Err(wrong) => return Ok(complain(&wrong, 2)),
    };
    let control = Arc::new(Control::default());
    watch::stop_on_interrupt(&control)?;
    let watcher = if asked.quiet { Watcher::none() } else { Watcher::start(&control) };
    let measured = built_in(fixture, |_, built_in| measure(&asked.spec, built_in, &control));
    watcher.finish();
    let outcome = match measured? {
        Ok(outcome) => outcome,
        Err(wrong) => return Ok(complain(&asked.source.complaint(&wrong), 2)),
    };
    publish(&asked, &outcome.report)?;
    Ok(ended(&asked, &outcome))
}

/// Does `work` with this program, and what it has to offer.
///
/// # Errors
/// When this program cannot be found to start it again.
pub(crate) fn built_in<T>(
    fixture: impl Fn() -> io::Result<Stream> + Send + Sync + 'static,
    work: impl FnOnce(&Path, &BuiltIn<'_>) -> T,
) -> anyhow::Result<T> {
    let me = std::env::current_exe().context("cannot find this program to start it again")?;
    let started = |word: &str| Command::new(&me).arg(word).inherit_env(["*"]);
    let listening = |transport: Transport, at: &str| {
        let way = ["--transport", transport.as_str(), "--listen", at, "--accept-rate", "0"];
        started("fixture").args(way)
    };
    let built_in = BuiltIn {
        memory: Target::memory("mcplane fixture", fixture),
        stdio: started("fixture"),
        listening: &listening,
        floor: started("__floor"),
    };
    Ok(work(&me, &built_in))
}

/// What the command line asks for, or the scenario that it names.
///
/// # Errors
/// A sentence that names the flag, or the place in the file.
fn asked(args: &BenchArgs) -> Result<Asked, String> {
    let (spec, source) = match &args.scenario {
        Some(path) => spec::read(path).map(|(spec, places)| (spec, Source::File(places)))?,
        None => (args.spec(), Source::CommandLine),
    };
    let outputs = args.outputs.clone().or(Outputs::of(&spec));
    let json = args.json.clone().or_else(|| spec.json.clone());
    outputs.check(json.as_deref())?;
    spec.check().map_err(|wrong| source.complaint(&wrong))?;
    Ok(Asked { quiet: args.quiet || spec.quiet, spec, source, json, outputs })
}

fn ended(asked: &Asked, outcome: &Outcome) -> ExitCode {
    let Some(error) = &outcome.failed else {
        return ExitCode::from(match outcome.holds(&asked.spec) {
            Some(holds) => u8::from(!holds),
            None => 3,
        });
    };
    match error {
        error if error.is_usage() => complain(&asked.source.error(error), 2),
        error if error.is_unreachable() => complain(&error.to_string(), 3),
        Error::Interrupted => {
            to_stderr(&format!("{error}\n"));
            ExitCode::from(watch::INTERRUPTED)
        }
        error => complain(&error.to_string(), 1),
    }
}

/// Writes what was measured, and what could not be: files first, then stdout, whose reader may have
/// gone away. Without a measurement nothing is written for people.
fn publish(asked: &Asked, report: &Report) -> anyhow::Result<()> {
    let measured = !report.runs.is_empty() || report.cold_start().is_some();
    if !measured && report.missing.is_empty() {
        return Ok(());
    }
    let is_shown =
        asked.outputs.write_with(&Document::of(report), asked.json.as_deref(), report)?;
    if measured && !is_shown {
        let colour = io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        to_stdout(&report.to_text(Style { colour })).context("cannot write to stdout")?;
    }
    Ok(())
}

/// Says what is wrong, and returns the exit code.
pub(crate) fn complain(what: &str, code: u8) -> ExitCode {
    to_stderr(&format!("error: {what}\n"));
    ExitCode::from(code)
}
