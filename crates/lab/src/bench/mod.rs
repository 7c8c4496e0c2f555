//! What `mcplane bench` does with a [`Spec`]: each target under each load, or in the mode that is asked
//! for, beside the fastest thing that could stand in its place.
//!
//! * [`bench()`] — one target after another (this file).
//! * `transports` — the built-in server over every transport, in turns.

mod transports;

use std::sync::Arc;

use mcplane_process::Command;

use crate::asked::{Mode, Named};
use crate::client::{Target, Transport};
use crate::cold::{Fresh, cold_start};
use crate::control::Control;
use crate::error::Error;
use crate::floor::Floor;
use crate::ladder::climb;
use crate::limit::find_limit;
use crate::plan::Plan;
use crate::profile::Profile;
use crate::results::{Environment, Missing, Report, Run};
use crate::run::run;
use crate::spec::{Field, Spec, SpecError, TargetSpec};

/// What this program has to offer: a server, to be measured where none is named, and floors.
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct BuiltIn<'a> {
    /// The server in this process.
    pub memory: Target,
    /// What starts it to speak over stdio.
    pub stdio: Command,
    /// What starts it to listen at an address, over a transport.
    pub listening: &'a dyn Fn(Transport, &str) -> Command,
    /// What starts a floor.
    pub floor: Command,
}

/// What was measured, and what could not be.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// As much as was measured; what could not be is in `missing`.
    pub report: Report,
    /// Why there is not more.
    pub failed: Option<Error>,
}

/// What a spec asks for, on its way.
struct Bench<'a> {
    spec: &'a Spec,
    built_in: &'a BuiltIn<'a>,
    control: &'a Arc<Control>,
}

/// Measures what is asked for, one target after the other, up to the first that cannot be measured to its
/// end. Blocks like [`run`].
///
/// # Errors
/// [`SpecError`] if what is asked for makes no sense: nothing was started then.
pub fn bench(
    spec: &Spec,
    built_in: &BuiltIn<'_>,
    control: &Arc<Control>,
) -> Result<Outcome, SpecError> {
    let (mode, named) = spec.asked()?;
    let bench = Bench { spec, built_in, control };
    let mut whole = None::<Outcome>;
    for (index, named) in named.iter().enumerate() {
        let targets = bench.targets(named);
        let Some(before) = whole.take() else {
            whole = Some(bench.measure(&mode, (index, named), &targets));
            continue;
        };
        let is_over = before.failed.is_some() || control.is_stopped();
        whole = Some(match is_over {
            true => before.not_tried(&targets, mode.plans()),
            false => before.and(bench.measure(&mode, (index, named), &targets)),
        });
    }
    let none = || Outcome { report: Report::new(Environment::look(), Vec::new()), failed: None };
    let Outcome { report, failed } = whole.unwrap_or_else(none);
    let report = match &spec.assert {
        Some(assertions) => report.asserting(assertions),
        None => report,
    };
    Ok(Outcome { report, failed })
}

impl Outcome {
    /// Whether what `spec` asks for holds: its assertions alone, if it has some; that a rate was found;
    /// or else that nothing failed and nothing leaks. `None` if that cannot be told.
    #[must_use]
    pub fn holds(&self, spec: &Spec) -> Option<bool> {
        let report = &self.report;
        match (report.limit(), &spec.assert) {
            (Some(found), _) if found.unfinished.is_some() => None,
            (Some(found), _) => Some(found.limit_per_s.is_some()),
            (None, Some(_)) => report.holds(),
            (None, None) => {
                let failed = report.cold_start().is_some_and(|cold| cold.failed > 0);
                let is_good = |run: &Run| run.is_clean() && run.leak().is_none();
                Some(report.runs.iter().all(is_good) && !failed)
            }
        }
    }

    fn and(self, next: Self) -> Self {
        Self { report: self.report.and(next.report), failed: next.failed }
    }

    /// The same with targets that came after one that failed; a wrong spec is an error.
    fn not_tried(mut self, targets: &[Target], plans: &[Plan]) -> Self {
        if !self.failed.as_ref().is_some_and(Error::is_usage) {
            let what = "not tried, as one before it was not measured to its end".to_owned();
            let why = Error::Unreachable { what };
            for target in targets {
                plans.iter().for_each(|plan| miss(&mut self.report, target, plan, &why));
            }
        }
        self
    }
}

/// Notes what could not be measured; a wrong spec is an error.
fn miss(report: &mut Report, target: &Target, plan: &Plan, error: &Error) {
    if !error.is_usage() {
        report.missing.push(Missing {
            target: target.to_string(),
            concurrency: plan.concurrency.saturating_mul(plan.sessions),
            why: error.to_string(),
        });
    }
}

impl Bench<'_> {
    /// What is measured of a server that is named.
    fn targets(&self, named: &Named) -> Vec<Target> {
        match named {
            Named::Remote(remote) => vec![Target::Remote(remote.clone())],
            Named::Command(command, _) => vec![Target::Stdio(command.clone())],
            Named::BuiltIn => {
                vec![self.built_in.memory.clone(), Target::Stdio(self.built_in.stdio.clone())]
            }
        }
    }

    fn floor(&self, target: &Target) -> Floor {
        match target {
            _ if self.spec.no_floor => Floor::Off,
            Target::Memory(_) => Floor::Memory,
            _ => {
                let plain = self.spec.plain_floor.then_some("--plain");
                Floor::Process(self.built_in.floor.clone().args(plain))
            }
        }
    }

    fn measure(&self, mode: &Mode, (index, named): (usize, &Named), targets: &[Target]) -> Outcome {
        let mut report = Report::new(Environment::look(), Vec::new());
        let Some(target) = targets.last() else { return Outcome { report, failed: None } };
        let measured = match mode {
            Mode::Loads(plans) => {
                let failed = self.loads(plans, targets, &mut report);
                return Outcome { report, failed };
            }
            Mode::Transports(plans) => return self.transports(plans),
            Mode::Ladder(plan, steps) => {
                self.control.show("ladder");
                climb(plan, steps, target, &self.floor(target), self.control).map(
                    |(runs, ladder)| {
                        report.measured = ladder.into();
                        runs
                    },
                )
            }
            Mode::Limit(plan, conditions) => {
                self.control.show("finding the limit");
                find_limit(plan, conditions, target, self.control).map(|(runs, found)| {
                    report.measured = found.into();
                    runs
                })
            }
            Mode::ColdStart(plan, starts) => {
                self.control.show("cold starts");
                let fresh = match named {
                    Named::Command(command, Some(remote)) => {
                        Fresh::Listening(command.clone(), remote.clone())
                    }
                    _ => Fresh::Target(target.clone()),
                };
                cold_start(plan, &fresh, *starts, self.control).map(|cold| {
                    report.measured = cold.into();
                    Vec::new()
                })
            }
            Mode::Profile(plan, kind, out) => {
                let named = self.spec.targets.get(index);
                let profile =
                    |named| self.profile(named, plan, Profile::new(*kind, out, &named.command));
                named.map_or_else(|| Ok(Vec::new()), profile)
            }
        };
        let failed = match measured {
            Ok(runs) => {
                report.runs = runs;
                None
            }
            Err(error) => {
                mode.plans()
                    .iter()
                    .take(1)
                    .for_each(|plan| miss(&mut report, target, plan, &error));
                Some(error)
            }
        };
        Outcome { report, failed }
    }

    /// Every load on every target, up to the first that cannot be measured.
    fn loads(&self, plans: &[Plan], targets: &[Target], report: &mut Report) -> Option<Error> {
        let of = targets.len() * plans.len();
        for target in targets {
            let floor = self.floor(target);
            for plan in plans {
                if self.control.is_stopped() && !report.runs.is_empty() {
                    miss(report, target, plan, &Error::Interrupted);
                    continue;
                }
                let (at, many) = (report.runs.len() + 1, plan.concurrency);
                self.control.show(match of {
                    1 => String::new(),
                    _ => format!("{at}/{of} {} × {many}", target.transport()),
                });
                match run(plan, target, &floor, self.control) {
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

    /// A command under a profiler, without a floor; the run says where the profile is.
    fn profile(
        &self,
        named: &TargetSpec,
        plan: &Plan,
        profile: Result<Profile, String>,
    ) -> Result<Vec<Run>, Error> {
        let wrong = |what: String| SpecError::text(Field::Profile, what);
        let profile = profile.map_err(wrong)?;
        let Some(command) = profile.wrap(&named.command) else { return Ok(Vec::new()) };
        let target = Target::Stdio(command.inherit_env(&named.inherit_env));
        self.control.show(profile.name());
        let mut run = run(&profile.stretch(plan), &target, &Floor::Off, self.control)?;
        let words: Vec<_> = named.command.iter().map(|word| word.to_string_lossy()).collect();
        let files = profile.finish(&words.join(" ")).map_err(wrong)?;
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        run.notes.push(format!("The profile is in {}.", files.join(" and ")));
        run.profiled = Some(profile.name().to_owned());
        Ok(vec![run])
    }
}
