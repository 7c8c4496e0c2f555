//! One rig under one load after another.

use std::sync::Arc;
use std::time::Duration;

use super::{Rig, Subject};
use crate::control::{Control, Stage, unless_stopped};
use crate::error::Error;
use crate::load::{Course, Phase, Schedule, Show};
use crate::measure::Trial;
use crate::observe::Observer;
use crate::pin::Affinity;
use crate::plan::Plan;
use crate::results::Run;
use crate::spec::Until;

impl Trial {
    /// What a visit has to do, and its share of the arrivals.
    fn share(&self, visit: usize, visits: usize) -> (Until, Option<Schedule>) {
        let (many, index) = (u32::try_from(visits).unwrap_or(1).max(1), visit as u64);
        let course = self.plan.course();
        match self.plan.until {
            Until::Elapsed(time) => {
                let each = (time / many).max(Duration::from_millis(1));
                let start = each * u32::try_from(visit).unwrap_or(0);
                let within = |course: Course| Schedule::within(course, start, each, index);
                (Until::Elapsed(each), course.map(within))
            }
            Until::Calls(calls) => {
                let (visits, more) = (u64::from(many), calls % u64::from(many));
                let each = calls / visits + u64::from(index < more);
                let before = calls / visits * index + more.min(index);
                let after = |course: Course| Schedule::after(course, before, each, index);
                (Until::Calls(each.max(1)), course.map(after))
            }
        }
    }
}

impl Rig {
    /// Opens a subject, tries the call and warms up, unless the user stops it first.
    pub(crate) async fn open_warm(
        plan: &Plan,
        subject: &Subject,
        control: &Arc<Control>,
        affinity: Option<Affinity>,
    ) -> Result<Self, Error> {
        let opening = Self::open(plan, subject, control, affinity);
        let mut rig = unless_stopped(control, opening).await?;
        control.enter(Stage::WarmingUp);
        rig.warm_up().await;
        control.enter(Stage::Measuring);
        Ok(rig)
    }

    /// Whether there is reason to measure no further: the wish to stop, or a target that broke.
    pub(crate) fn is_over(&self, trials: &[Trial]) -> bool {
        let broken = self.broken.is_some() || trials.iter().any(Trial::is_over);
        broken || self.control.is_stopped()
    }

    /// Runs visit number `visit` of `visits` under one load, target and floor: part `index` of `of`.
    pub(crate) async fn visit(
        &mut self,
        trial: &mut Trial,
        (visit, visits): (usize, usize),
        (index, of): (u64, u64),
    ) {
        let gauges = self.gauges().into();
        let observer = Observer::start(gauges, &self.control, self.affinity.clone());
        for is_target in [visit % 2 == 0, visit % 2 == 1] {
            let (until, schedule) = trial.share(visit, visits);
            let plan = trial.plan.clone();
            let (show, control) =
                (Show::Part { index, of, calls: is_target }, Arc::clone(&self.control));
            let phase = || {
                Phase::new(until, plan.timeout, show, control)
                    .limited(plan.concurrency)
                    .paced(schedule, plan.may_spin())
            };
            trial.slice(self.fleets(), is_target, phase).await;
        }
        let mut seen = observer.finish().into_iter();
        let mut next = || seen.next().unwrap_or_default();
        trial.observe([next(), next()]);
    }

    /// Closes everything; gives a run for each load, in their order.
    pub(crate) async fn finish_all(mut self, trials: Vec<Trial>) -> Result<Vec<Run>, Error> {
        self.control.enter(Stage::Finishing);
        let measured: Vec<_> =
            trials.into_iter().filter(|trial| trial.target.total.sent > 0).collect();
        if measured.is_empty() || self.broken.is_some() {
            return self.finish(None).await.map(|run| vec![run]);
        }
        let broke = measured.iter().any(|trial| trial.broken.is_some());
        let words = self.close(broke).await;
        let words = words.map(|words| words.to_string()).unwrap_or_default();
        let report = |trial: &Trial| {
            self.report(trial, trial.broken.as_ref().map(|why| format!("{why}{words}")))
        };
        Ok(measured.iter().map(report).collect())
    }
}
