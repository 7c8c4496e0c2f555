//! A run from start to end: open, validate, warm up, measure in slices, close. Several targets are
//! measured in turns, slice by slice, so that all of them meet the same weather.

use std::sync::Arc;

use crate::client::Target;
use crate::control::{Control, Stage};
use crate::error::Error;
use crate::floor::Floor;
use crate::job::{Entry, Job, Ready};
use crate::load::sharpen;
use crate::measure::{Measured, Pair};
use crate::pin::{Affinity, pin};
use crate::plan::Plan;
use crate::results::Run;

/// Measures a target, and the floor beside it. Blocks until it is done; meant for a thread that does
/// nothing else, outside of any async runtime.
///
/// # Errors
/// [`Error`] says why there is nothing to report. Failed calls are no error: they are counted.
pub fn run(
    plan: &Plan,
    target: &Target,
    floor: &Floor,
    control: &Arc<Control>,
) -> Result<Run, Error> {
    let (target, floor) = (target.clone(), floor.clone());
    let entry = Entry { target, floor, speak: plan.speak };
    let mut runs = run_together(plan, &[entry], control)?;
    runs.pop().unwrap_or(Err(Error::Interrupted))
}

/// Measures several targets, and the floor of each, in turns: slice by slice, each round beginning
/// with another target. Gives one outcome for each, in their order. Blocks like [`run`].
///
/// # Errors
/// Only what concerns all of them: the plan, or this machine.
pub fn run_together(
    plan: &Plan,
    entries: &[Entry],
    control: &Arc<Control>,
) -> Result<Vec<Result<Run, Error>>, Error> {
    plan.validate()?;
    on_generator(plan, control, async |affinity| {
        let jobs: Vec<_> = entries.iter().map(|entry| Job::new(plan, entry, control)).collect();
        Box::pin(together(plan, &jobs, control, affinity)).await
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
    jobs: &[Job],
    control: &Arc<Control>,
    affinity: Option<Affinity>,
) -> Vec<Result<Run, Error>> {
    let mut readies = Vec::new();
    for job in jobs {
        readies.push(unless_stopped(control, job.prepare()).await);
    }
    control.enter(Stage::WarmingUp);
    for (job, ready) in jobs.iter().zip(&mut readies) {
        if let Ok(ready) = ready {
            job.warm_up(ready).await;
        }
    }
    let mut measured = Vec::new();
    let fit = |ready: &&mut Ready| ready.broken.is_none() && !control.is_stopped();
    let mut pairs: Vec<_> = readies.iter_mut().flatten().filter(fit).map(Ready::pair).collect();
    if !pairs.is_empty() {
        control.enter(Stage::Measuring);
        measured = Measured::take(plan, &mut pairs, control, affinity).await;
    }
    drop(pairs);
    control.enter(Stage::Finishing);
    let (mut measured, mut runs) = (measured.into_iter(), Vec::new());
    for (job, ready) in jobs.iter().zip(readies) {
        runs.push(match ready {
            Err(error) => Err(error),
            Ok(ready) => {
                let measured = if ready.broken.is_none() { measured.next() } else { None };
                job.finish(ready, measured).await
            }
        });
    }
    runs
}

/// One target that is measured, in turns with its floor.
impl Ready {
    pub(crate) fn pair(&mut self) -> Pair<'_> {
        Pair { target: &mut self.fleet, floor: self.floor.as_mut() }
    }
}

/// The result of `work`, unless the user stops it first.
pub(crate) async fn unless_stopped<T>(
    control: &Control,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut work = std::pin::pin!(work);
    let mut stopped = std::pin::pin!(control.stopped());
    std::future::poll_fn(|cx| {
        if let std::task::Poll::Ready(done) = work.as_mut().poll(cx) {
            return std::task::Poll::Ready(done);
        }
        stopped.as_mut().poll(cx).map(|()| Err(Error::Interrupted))
    })
    .await
}
