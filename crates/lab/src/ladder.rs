//! The ladder: one opened target under one load after another, and the knee of what came of it.

use std::sync::Arc;

use crate::client::Target;
use crate::control::Control;
use crate::error::Error;
use crate::floor::Floor;
use crate::measure::Trial;
use crate::plan::{CONCURRENCY_MAX, Plan, RATE_PER_S_MAX};
use crate::results::{Ladder, LoadUnit, Run, Step};
use crate::rig::{Rig, Subject};
use crate::run::on_generator;
use crate::spec::{Field, SpecError, Until};
use crate::stats::knee;

/// Most rungs of a ladder.
pub const RUNGS_MAX: usize = 64;

/// Visits of each rung in a closed loop, in turns upwards and downwards.
const VISITS: usize = 4;

/// The same in an open loop, whose queues need time to grow.
const VISITS_OPEN: usize = 2;

/// The loads of a ladder.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "plain data that the caller fills in")]
pub enum Steps {
    /// Calls in flight per session.
    Concurrency(Vec<usize>),
    /// Calls per second, evenly spaced.
    Rate(Vec<f64>),
}

impl Steps {
    /// The plans of the rungs, lightest first, each with its load.
    fn plans(&self, plan: &Plan) -> Result<Vec<(f64, Plan)>, SpecError> {
        let plans: Vec<(f64, Plan)> = match self {
            Self::Concurrency(rungs) => {
                let mut rungs = rungs.clone();
                rungs.sort_unstable();
                rungs.dedup();
                let rung = |concurrency: usize| {
                    #[allow(clippy::cast_precision_loss, reason = "at most a million")]
                    let load = (concurrency * plan.sessions) as f64;
                    (load, Plan { concurrency, arrivals: None, ..plan.clone() })
                };
                rungs.into_iter().map(rung).collect()
            }
            Self::Rate(rungs) => {
                let mut rungs = rungs.clone();
                rungs.sort_by(f64::total_cmp);
                rungs.dedup();
                let rung = |per_s| (per_s, plan.at(per_s));
                rungs.into_iter().map(rung).collect()
            }
        };
        if plans.is_empty() || plans.len() > RUNGS_MAX {
            let takes = format!("1 to {RUNGS_MAX} loads");
            return Err(SpecError::value(self.field(), plans.len(), takes));
        }
        for (load, plan) in &plans {
            plan.validate().map_err(|error| match error.field() {
                Field::Concurrency | Field::Rate => {
                    let takes = match self {
                        Self::Concurrency(_) => format!("1 to {CONCURRENCY_MAX}"),
                        Self::Rate(_) => format!("more than 0 to {RATE_PER_S_MAX:.0} calls/s"),
                    };
                    SpecError::value(self.field(), load, takes)
                }
                _ => error,
            })?;
        }
        Ok(plans)
    }

    const fn field(&self) -> Field {
        match self {
            Self::Concurrency(_) => Field::Ladder,
            Self::Rate(_) => Field::LadderRate,
        }
    }

    const fn visits(&self) -> usize {
        match self {
            Self::Concurrency(_) => VISITS,
            Self::Rate(_) => VISITS_OPEN,
        }
    }
}

/// Measures one target under each load of a ladder, with its floor beside it. The rungs are visited
/// upwards, downwards, and so on; the plan's end is that of one rung. Blocks like [`crate::run()`].
///
/// # Errors
/// As those of [`crate::run()`].
pub fn climb(
    plan: &Plan,
    steps: &Steps,
    target: &Target,
    floor: &Floor,
    control: &Arc<Control>,
) -> Result<(Vec<Run>, Ladder), Error> {
    let plans = steps.plans(plan)?;
    let (Some((_, lightest)), Some((_, heaviest))) = (plans.first(), plans.last()) else {
        return Err(Error::Interrupted);
    };
    // Slots for the heaviest; a warm-up of an open loop at the lightest rate.
    let base = match steps {
        Steps::Concurrency(_) => heaviest.clone(),
        Steps::Rate(_) => lightest.clone(),
    };
    let subject = Subject { target: target.clone(), floor: floor.clone(), speak: plan.speak };
    let visits = match plan.until {
        Until::Calls(calls) => {
            usize::try_from(calls).unwrap_or(usize::MAX).clamp(1, steps.visits())
        }
        Until::Elapsed(_) => steps.visits(),
    };
    let runs = on_generator(&base, control, async |affinity| {
        let mut rig = Rig::open_warm(&base, &subject, control, affinity).await?;
        let mut trials: Vec<_> =
            plans.iter().map(|(_, plan)| Trial::new(plan.clone(), visits)).collect();
        let of = (visits * trials.len()) as u64;
        let mut index = 0;
        for visit in 0..visits {
            let mut order: Vec<usize> = (0..trials.len()).collect();
            if visit % 2 == 1 {
                order.reverse();
            }
            for at in order {
                if rig.is_over(&trials) {
                    break;
                }
                if let Some(trial) = trials.get_mut(at) {
                    rig.visit(trial, (visit, visits), (index, of)).await;
                }
                index += 1;
            }
        }
        Box::pin(rig.finish_all(trials)).await
    })??;
    let ladder = Ladder::of(steps, visits, &runs);
    Ok((runs, ladder))
}

impl Ladder {
    fn of(steps: &Steps, visits: usize, runs: &[Run]) -> Self {
        let step = |run: &Run| Step {
            load: run.load_size(),
            throughput_per_s: run.results.throughput_per_s,
            p50_ns: run.results.latency.p50_ns,
            p99_ns: run.results.latency.p99_ns,
            errors: run.results.errors,
        };
        let rungs: Vec<_> = runs.iter().map(step).collect();
        let points: Vec<_> = rungs.iter().map(|rung| (rung.load, rung.throughput_per_s)).collect();
        let unit = match steps {
            Steps::Concurrency(_) => LoadUnit::CallsInFlight,
            Steps::Rate(_) => LoadUnit::CallsPerS,
        };
        Self { load: unit.to_owned(), rungs, visits, knee: knee(&points) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::shape::Rate;
    use crate::results::{Arrivals, Shape, Spacing};

    #[test]
    fn rungs_are_sorted_and_checked() {
        let plan = Plan { sessions: 2, ..Plan::default() };
        let plans = Steps::Concurrency(vec![8, 1, 8, 2]).plans(&plan).unwrap();
        let loads: Vec<_> = plans.iter().map(|(load, plan)| (*load, plan.concurrency)).collect();
        assert_eq!(loads, [(2.0, 1), (4.0, 2), (16.0, 8)]);
        let rates = Steps::Rate(vec![200.0, 100.0]).plans(&plan).unwrap();
        let slow = Arrivals {
            shape: Shape::Rate(Rate { per_s: 100.0 }),
            spacing: Spacing::Constant,
            seed: 0,
        };
        assert_eq!(rates[0].1.arrivals, Some(slow));
        let random = Arrivals { spacing: Spacing::Poisson, seed: 7, ..slow };
        let plan = Plan { arrivals: Some(random), ..plan };
        let rates = Steps::Rate(vec![200.0]).plans(&plan).unwrap();
        let shape = Shape::Rate(Rate { per_s: 200.0 });
        assert_eq!(rates[0].1.arrivals, Some(Arrivals { shape, ..random }));
        for (wrong, field) in [
            (Steps::Concurrency(vec![]), Field::Ladder),
            (Steps::Concurrency(vec![1, 0]), Field::Ladder),
            (Steps::Concurrency((1..=RUNGS_MAX + 1).collect()), Field::Ladder),
            (Steps::Rate(vec![0.0, 1.0]), Field::LadderRate),
            (Steps::Rate(vec![f64::NAN]), Field::LadderRate),
        ] {
            assert_eq!(wrong.plans(&plan).unwrap_err().field(), field, "{wrong:?}");
        }
    }
}
