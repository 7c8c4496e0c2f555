//! `mcplane bench --profile`: one run of a command under a profiler.

use std::sync::Arc;

use mcplane_lab::profile::{Kind, Profile};
use mcplane_lab::report::Run;
use mcplane_lab::{Control, Error, Floor, Plan, Target, run as measure};

use super::args::{BenchArgs, Profiled};
use super::watcher;

/// Measures the command under a profiler, without a floor; the run says where the profile is.
///
/// # Errors
/// A sentence: there is no profiler, or it wrote nothing.
pub(super) fn run(
    args: &BenchArgs,
    kind: Profiled,
    plans: &[Plan],
    control: &Arc<Control>,
) -> Result<(Vec<Run>, Option<Error>), String> {
    let kind = match kind {
        Profiled::Cpu => Kind::Cpu,
        Profiled::Heap => Kind::Heap,
        Profiled::Stages => Kind::Stages,
    };
    let profile = Profile::new(kind, &args.profile_out, &args.command)?;
    let (Some(plan), Some(command)) = (plans.first(), profile.wrap(&args.command)) else {
        return Ok((Vec::new(), None));
    };
    let command = command.inherit_env(args.extra.inherited());
    let watcher = watcher(args, control, profile.name().to_owned());
    let measured = measure(&profile.stretch(plan), &Target::Stdio(command), &Floor::Off, control);
    watcher.finish();
    let mut run = match measured {
        Ok(run) => run,
        Err(error) => return Ok((Vec::new(), Some(error))),
    };
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let files = profile.finish(&words.join(" "))?;
    let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    run.notes.push(format!("The profile is in {}.", files.join(" and ")));
    run.profiled = Some(profile.name().to_owned());
    Ok((vec![run], None))
}
