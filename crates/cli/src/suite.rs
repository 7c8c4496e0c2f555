//! `mcplane suite`: named benchmarks of prior systems, one command each.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, Subcommand};
use mcplane_lab::spec::TargetSpec;
use mcplane_lab::{Control, Stream};
use mcplane_suite::{Asked, Ended, Entry, Form, Record, UnknownId, Verdict, choose, entries};

use crate::bench::watch::{INTERRUPTED, Watcher, stop_on_interrupt};
use crate::bench::{built_in, complain};
use crate::report::to_stdout;

/// Figures shown of a workload that has ended.
const FIGURES_SHOWN: usize = 3;

/// Arguments of `mcplane suite`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  mcplane suite quick\n  mcplane suite run server_pool_stdio\n  \
                  mcplane suite run compare_stdio_echo --target 'npx -y my-server'"
)]
pub struct SuiteArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Every workload that is measured in seconds: less than two minutes
    Quick(RunArgs),
    /// Every workload that fits, with intervals worth quoting: less than a quarter of an hour
    Standard(RunArgs),
    /// Every workload, as long as it needs
    Full(RunArgs),
    /// The workloads that there are
    List,
    /// Does each fault to a server that is broken on purpose, where it has to fail, and to one that is
    /// not, where it has to pass; without a fault the broken one has to pass too
    Check,
    /// These workloads, or those of these modules
    Run {
        /// Ids or modules, as `mcplane suite list` shows them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// How much time each takes: quick, standard or full
        #[arg(long, default_value_t = Form::Quick)]
        form: Form,
        #[command(flatten)]
        run: RunArgs,
    },
}

#[derive(Args, Debug)]
struct RunArgs {
    /// Folder for the results; each run has a folder of its own in it
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// A server, by its address or its command, for the workloads that take one
    #[arg(long, value_name = "URL|COMMAND")]
    target: Option<TargetSpec>,
}

impl SuiteArgs {
    /// The workloads that are asked for.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, UnknownId> {
        let all = |form: Form| entries().into_iter().filter(|entry| entry.since <= form).collect();
        Ok(match &self.what {
            What::Quick(_) => all(Form::Quick),
            What::Standard(_) => all(Form::Standard),
            What::Full(_) | What::List | What::Check => all(Form::Full),
            What::Run { ids, .. } => choose(ids)?,
        })
    }
}

/// Runs what is asked for, and says what came of it, line by line.
///
/// Exit code 0: nothing failed; 1: something did; 2: usage; 130: stopped by the user.
///
/// # Errors
/// When the results cannot be written, or this program cannot be found to start it again.
pub fn run(
    args: &SuiteArgs,
    fixture: impl Fn() -> io::Result<Stream> + Send + Sync + 'static,
) -> anyhow::Result<ExitCode> {
    let chosen = match args.entries() {
        Ok(chosen) => chosen,
        Err(unknown) => return Ok(complain(&unknown.to_string(), 2)),
    };
    let (form, args) = match &args.what {
        What::List => return list(&chosen),
        What::Check => return check(),
        What::Quick(run) => (Form::Quick, run),
        What::Standard(run) => (Form::Standard, run),
        What::Full(run) => (Form::Full, run),
        What::Run { form, run, .. } => (*form, run),
    };
    if args.target.is_some() && !chosen.iter().any(|entry| entry.takes_target) {
        let takes: Vec<_> =
            entries().iter().filter(|one| one.takes_target).map(|one| one.id).collect();
        return Ok(complain(&format!("--target: only {} takes one", takes.join(", ")), 2));
    }
    let folder = Record::folder(&args.out, form)
        .with_context(|| format!("cannot make a folder in {}", args.out.display()))?;
    let control = Arc::new(Control::default());
    stop_on_interrupt(&control)?;
    let record = built_in(fixture, |me, built_in| {
        let asked = Asked { entries: chosen, form, target: args.target.clone(), me, built_in };
        let mut watcher = Watcher::start(&control);
        let each = |ended: Ended<'_>| {
            std::mem::replace(&mut watcher, Watcher::none()).finish();
            Record::write_one(&folder, ended.entered, ended.found)?;
            to_stdout(&line(&ended))?;
            watcher = Watcher::start(&control);
            Ok(())
        };
        let record = mcplane_suite::run(&asked, &control, each);
        watcher.finish();
        record
    })?;
    let record = record.and_then(|record| record.write(&folder).map(|()| record));
    let record = record.with_context(|| format!("cannot write to {}", folder.display()))?;
    let [passed, failed, skipped] = record.counts();
    to_stdout(&format!(
        "\n{passed} passed, {failed} failed, {skipped} skipped in {:.0} s\n{}\n",
        record.seconds,
        folder.join("report.html").display()
    ))?;
    Ok(match (control.is_stopped(), failed) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    })
}

/// What became of one workload: a line of its figures, and one of why it did not pass.
fn line(ended: &Ended<'_>) -> String {
    let entered = ended.entered;
    let (word, why) = match &entered.verdict {
        Verdict::Pass => ("ok  ", None),
        Verdict::Fail(why) => ("FAIL", Some(why)),
        Verdict::Skip(why) => ("skip", Some(why)),
    };
    let figures = entered.figures.iter().take(FIGURES_SHOWN);
    let figures: Vec<_> = figures.map(|of| format!("{} {of}", of.name)).collect();
    let (id, seconds) = (&entered.id, entered.seconds);
    let mut out = format!("{word}  {id:22} {seconds:6.1} s  {}\n", figures.join(" · "));
    if let Some(why) = why {
        let _ = writeln!(out, "      {}", why.replace('\n', "\n      "));
    }
    out
}

/// Shows that each fault is noticed where it has to be, and only there.
fn check() -> anyhow::Result<ExitCode> {
    let me = std::env::current_exe().context("cannot find this program to start it again")?;
    let (mut right, mut all) = (0, 0);
    for checked in mcplane_suite::check(&me) {
        let is_right = checked.is_right();
        (right, all) = (right + usize::from(is_right), all + 1);
        let (word, why) = match &checked.failed {
            Some(why) => ("FAIL", why.as_str()),
            None => ("pass", ""),
        };
        let mark = if is_right { "ok   " } else { "WRONG" };
        let fault = if checked.is_done { "" } else { "no fault" };
        let (id, flaw) = (checked.id, checked.flaw);
        to_stdout(&format!("{mark}  {id:24} {flaw:16} {fault:8} {word}  {why}\n"))?;
    }
    to_stdout(&format!("\n{right} of {all} as they have to be\n"))?;
    Ok(if right == all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list(all: &[Entry]) -> anyhow::Result<ExitCode> {
    let mut out = String::new();
    for Entry { id, module, since, about, .. } in all {
        let _ = writeln!(out, "{module:11} {id:22} {since:9} {about}");
    }
    to_stdout(&out)?;
    Ok(ExitCode::SUCCESS)
}
