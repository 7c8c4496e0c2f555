//! One opened target that is measured under one load after another.

use std::sync::Arc;
use std::time::Duration;

use crate::control::{Control, Stage};
use crate::error::Error;
use crate::job::Entry;
use crate::job::{Job, Ready};
use crate::load::{Course, Phase, Schedule, Show};
use crate::measure::Turn;
use crate::observe::{Observer, Seen};
use crate::pin::Affinity;
use crate::plan::Plan;
use crate::results::{Results, Run};
use crate::run::unless_stopped;
use crate::spec::Until;

/// A target that is open and warm.
pub(crate) struct Rig {
    entry: Entry,
    job: Job,
    ready: Ready,
    control: Arc<Control>,
    affinity: Option<Affinity>,
}

/// One load, and what was seen under it so far.
pub(crate) struct Rung {
    pub(crate) plan: Plan,
    turn: Turn,
    seen: [Seen; 2],
}

impl Rung {
    /// A load that is visited so often.
    pub(crate) fn new(plan: Plan, visits: usize) -> Self {
        Self { plan, turn: Turn::new(visits), seen: Default::default() }
    }

    /// What was seen so far.
    pub(crate) fn results(&self) -> Results {
        self.turn.target().results()
    }

    /// Whether the target broke under it.
    pub(crate) const fn is_broken(&self) -> bool {
        self.turn.over
    }

    /// What a visit has to do, and its share of the arrivals.
    fn share(&self, visit: usize, visits: usize) -> (Until, Option<Schedule>) {
        let (many, index) = (u32::try_from(visits).unwrap_or(1).max(1), visit as u64);
        let course = self.plan.arrivals.zip(self.plan.course());
        match self.plan.until {
            Until::Elapsed(time) => {
                let each = (time / many).max(Duration::from_millis(1));
                let start = each * u32::try_from(visit).unwrap_or(0);
                let within =
                    |(_, course): (_, Course)| Schedule::within(course, start, each, index);
                (Until::Elapsed(each), course.map(within))
            }
            Until::Calls(calls) => {
                let (visits, more) = (u64::from(many), calls % u64::from(many));
                let each = calls / visits + u64::from(index < more);
                let before = calls / visits * index + more.min(index);
                let after = |(_, course): (_, Course)| Schedule::after(course, before, each, index);
                (Until::Calls(each.max(1)), course.map(after))
            }
        }
    }
}

impl Rig {
    /// Opens a target, tries the call and warms up under `plan`.
    pub(crate) async fn open(
        plan: &Plan,
        entry: &Entry,
        control: &Arc<Control>,
        affinity: Option<Affinity>,
    ) -> Result<Self, Error> {
        let job = Job::new(plan, entry, control);
        let mut ready = unless_stopped(control, job.prepare()).await?;
        control.enter(Stage::WarmingUp);
        job.warm_up(&mut ready).await;
        control.enter(Stage::Measuring);
        let (entry, control) = (entry.clone(), Arc::clone(control));
        Ok(Self { entry, job, ready, control, affinity })
    }

    /// Whether there is reason to measure no further: the wish to stop, or a target that broke.
    pub(crate) fn is_over(&self, rungs: &[Rung]) -> bool {
        let broken = self.ready.broken.is_some() || rungs.iter().any(Rung::is_broken);
        broken || self.control.is_stopped()
    }

    /// Runs visit number `visit` of `visits` under one load, target and floor. `progress` is the part
    /// of the whole that this is.
    pub(crate) async fn visit(
        &mut self,
        rung: &mut Rung,
        (visit, visits): (usize, usize),
        (index, of): (u64, u64),
    ) {
        let floor = self.ready.floor.as_ref().map(|floor| Arc::clone(&floor.gauge));
        let sides = vec![Arc::clone(&self.ready.fleet.gauge), floor.unwrap_or_default()];
        let observer = Observer::start(sides, &self.control, self.affinity.clone());
        for is_target in [visit % 2 == 0, visit % 2 == 1] {
            let (until, schedule) = rung.share(visit, visits);
            let plan = rung.plan.clone();
            let show = Show::Part { index, of, calls: is_target };
            let phase = || {
                Phase::new(until, plan.timeout, show, Arc::clone(&self.control))
                    .limited(plan.concurrency)
                    .paced(schedule, plan.may_spin())
            };
            rung.turn.take(&mut self.ready.pair(), is_target, phase).await;
        }
        for (seen, now) in rung.seen.iter_mut().zip(observer.finish()) {
            seen.join(&now);
        }
    }

    /// Closes everything; gives a run for each load, in their order.
    pub(crate) async fn close(mut self, rungs: Vec<Rung>) -> Result<Vec<Run>, Error> {
        self.control.enter(Stage::Finishing);
        let mut measured = Vec::new();
        for rung in rungs {
            let seen = rung.turn.finish(rung.seen);
            if seen.target.total.sent > 0 {
                measured.push((rung.plan, seen));
            }
        }
        let (Some(_), None) = (measured.first(), &self.ready.broken) else {
            return self.job.finish(self.ready, None).await.map(|run| vec![run]);
        };
        let broke = measured.iter().any(|(_, seen)| seen.broken.is_some());
        let words = self.job.close(&mut self.ready, broke).await;
        let words = words.map(|words| words.to_string()).unwrap_or_default();
        let report = |(plan, seen): (Plan, crate::measure::Measured)| {
            let why = seen.broken.as_ref().map(|why| format!("{why}{words}"));
            Job::new(&plan, &self.entry, &self.control).report(&self.ready, &seen, why)
        };
        Ok(measured.into_iter().map(report).collect())
    }
}
