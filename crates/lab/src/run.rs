//! A run from start to end: open, validate, warm up, measure in slices, close. Several targets are
//! measured in turns, slice by slice, so that all of them meet the same weather.

use std::sync::Arc;

use crate::client::Target;
use crate::control::{Control, Stage, unless_stopped};
use crate::error::Error;
use crate::floor::Floor;
use crate::load::{Phase, Show, sharpen};
use crate::measure::{Trial, shares};
use crate::observe::Observer;
use crate::pin::{Affinity, pin};
use crate::plan::Plan;
use crate::results::Run;
use crate::rig::{Rig, Subject};

/// Measures a target, and the floor beside it. Blocks until it is done; meant for a thread that does
/// nothing else, outside of any async runtime.
///
/// # Errors
/// [`Error`] says why there is nothing to report. Failed calls are not an error: they are counted.
pub fn run(
    plan: &Plan,
    target: &Target,
    floor: &Floor,
    control: &Arc<Control>,
) -> Result<Run, Error> {
    let (target, floor) = (target.clone(), floor.clone());
    let subject = Subject { target, floor, speak: plan.speak };
    let mut runs = run_together(plan, &[subject], control)?;
    runs.pop().unwrap_or(Err(Error::Interrupted))
}

/// Measures several targets, and the floor of each, in turns: slice by slice, each round beginning
/// with another target. Gives one outcome for each, in their order. Blocks like [`run`].
///
/// # Errors
/// Only what concerns all of them: the plan, or this machine.
pub fn run_together(
    plan: &Plan,
    subjects: &[Subject],
    control: &Arc<Control>,
) -> Result<Vec<Result<Run, Error>>, Error> {
    plan.validate()?;
    on_generator(plan, control, async |affinity| {
        Box::pin(together(plan, subjects, control, affinity)).await
    })
}

/// Does `work` on the generator's thread, which is prepared for the plan's kind of load.
pub(crate) fn on_generator<T: Send>(
    plan: &Plan,
    control: &Arc<Control>,
    work: impl AsyncFnOnce(Option<Affinity>) -> T + Send,
) -> Result<T, Error> {
    control.begin();
    std::thread::scope(|scope| {
        let load = || on_this_thread(plan, work);
        // A thread of its own, because pinning is for the life of a thread.
        let thread = std::thread::Builder::new().name("mcplane-load".to_owned());
        let machine = |what: &str, source| Error::Machine { what: what.to_owned(), source };
        let handle = thread
            .spawn_scoped(scope, load)
            .map_err(|source| machine("cannot start the generator's thread", source))?;
        handle.join().unwrap_or_else(|_| {
            Err(machine("the generator failed", std::io::Error::other("it panicked")))
        })
    })
}

fn on_this_thread<T>(
    plan: &Plan,
    work: impl AsyncFnOnce(Option<Affinity>) -> T,
) -> Result<T, Error> {
    let affinity = pin(plan.pin)?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    if plan.arrivals.is_some() {
        sharpen();
        // While it waits for the next call to be due, no answer is read late.
        builder.event_interval(1);
    }
    let runtime = builder.enable_all().build().map_err(|source| Error::Machine {
        what: "cannot start the generator".to_owned(),
        source,
    })?;
    Ok(runtime.block_on(work(affinity)))
}

async fn together(
    plan: &Plan,
    subjects: &[Subject],
    control: &Arc<Control>,
    affinity: Option<Affinity>,
) -> Vec<Result<Run, Error>> {
    let mut rigs = Vec::new();
    for subject in subjects {
        let opening = Rig::open(plan, subject, control, affinity.clone());
        rigs.push(unless_stopped(control, opening).await);
    }
    control.enter(Stage::WarmingUp);
    for rig in rigs.iter_mut().flatten() {
        rig.warm_up().await;
    }
    let fit = |rig: &&mut Rig| rig.broken.is_none() && !control.is_stopped();
    let mut fit: Vec<_> = rigs.iter_mut().flatten().filter(fit).collect();
    let mut trials = Vec::new();
    if !fit.is_empty() {
        control.enter(Stage::Measuring);
        trials = measure(plan, &mut fit, control, affinity).await;
    }
    control.enter(Stage::Finishing);
    let (mut trials, mut runs) = (trials.into_iter(), Vec::new());
    for rig in rigs {
        runs.push(match rig {
            Err(error) => Err(error),
            Ok(rig) => {
                let trial = if rig.broken.is_none() { trials.next() } else { None };
                rig.finish(trial).await
            }
        });
    }
    runs
}

/// Runs the slices of a plan on every rig in turn; gives a trial for each. Each round begins with another
/// rig, and each rig's turn with its other side. One that breaks is left out from then on.
async fn measure(
    plan: &Plan,
    rigs: &mut [&mut Rig],
    control: &Arc<Control>,
    affinity: Option<Affinity>,
) -> Vec<Trial> {
    let shares = shares(plan);
    let gauges = rigs.iter().flat_map(|rig| rig.gauges()).collect();
    let observer = Observer::start(gauges, control, affinity);
    let sides = rigs.iter().map(|rig| if rig.floor.is_some() { 2 } else { 1 });
    let of = shares.len() as u64 * sides.sum::<u64>();
    let new = |rig: &&mut Rig| Trial::new(rig.plan.clone(), shares.len());
    let mut trials: Vec<_> = rigs.iter().map(new).collect();
    let mut index = 0;
    'rounds: for (round, share) in shares.iter().enumerate() {
        let order = (0..rigs.len()).map(|at| (at + round) % rigs.len().max(1));
        for at in order.collect::<Vec<_>>() {
            let (Some(rig), Some(trial)) = (rigs.get_mut(at), trials.get_mut(at)) else {
                continue;
            };
            for is_target in [round % 2 == 0, round % 2 == 1] {
                let show = Show::Part { index, of, calls: is_target };
                let phase = || {
                    let phase = Phase::new(share.until, plan.timeout, show, Arc::clone(control));
                    phase.paced(share.schedule.clone(), plan.may_spin())
                };
                index += u64::from(trial.slice(rig.fleets(), is_target, phase).await);
                if control.is_stopped() {
                    break 'rounds;
                }
            }
        }
    }
    let mut seen = observer.finish().into_iter();
    let mut next = || seen.next().unwrap_or_default();
    trials.iter_mut().for_each(|trial| trial.observe([next(), next()]));
    trials
}
