//! The warm-up: real calls that are thrown away, until their latencies show no trend.

use std::sync::Arc;
use std::time::Duration;

use crate::control::Control;
use crate::load::{Fleet, Phase, Schedule, Show};
use crate::plan::Plan;
use crate::record;
use crate::results::Warmup;
use crate::spec::Until;

/// Windows that are compared: the first half of them with the second.
const WINDOWS: usize = 8;

/// A difference between the halves that does not matter, as a part of the earlier one.
const MATTERS: f64 = 0.05;

/// What came of a warm-up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warm {
    /// Calls that succeeded.
    pub(crate) calls: u64,
    pub(crate) wall: Duration,
    /// Whether the last windows showed no trend; `None` if there were too few to tell.
    pub(crate) steady: Option<bool>,
    /// Why it ended early, if it did by itself.
    pub(crate) broken: Option<String>,
}

/// Calls until the plan's end of the warm-up, and if that is a time, on from there until latencies
/// are steady or the plan's patience is over.
pub(crate) async fn warm_up(fleet: &mut Fleet, plan: &Plan, control: &Arc<Control>) -> Warm {
    let (mut warm, mut medians) = (Warm::default(), Vec::new());
    let base = match plan.warmup {
        Until::Elapsed(base) => base,
        Until::Calls(_) => Duration::ZERO,
    };
    let most = base.saturating_mul(plan.warmup_stretch.max(1));
    while !control.is_stopped() {
        let (until, schedule) = window(plan, warm.wall, medians.len());
        let phase = Phase::new(until, plan.timeout, Show::Nothing, Arc::clone(control));
        let (total, why) = fleet.run(phase.paced(schedule, plan.may_spin())).await;
        warm.calls += total.ok();
        warm.wall += total.wall;
        medians.push(total.latencies.median_ns());
        warm.steady = is_steady(&medians);
        warm.broken = why;
        let enough = warm.wall >= base && (warm.steady == Some(true) || warm.wall >= most);
        if enough || warm.broken.is_some() {
            break;
        }
    }
    warm
}

/// The next window: all of it, if the warm-up is a number of calls.
fn window(plan: &Plan, start: Duration, index: usize) -> (Until, Option<Schedule>) {
    let course = plan.course().map(|course| course.level());
    let slice = u64::MAX - index as u64;
    match plan.warmup {
        Until::Calls(calls) => {
            let schedule = course.map(|course| Schedule::after(course, 0, calls, slice));
            (Until::Calls(calls), schedule)
        }
        Until::Elapsed(base) => {
            let least = plan.arrivals.map(|arrivals| arrivals.shape.curve().window_min());
            let least = least.unwrap_or(Duration::from_millis(1));
            let time = (base / WINDOWS as u32).max(least);
            let schedule = course.map(|course| Schedule::within(course, start, time, slice));
            (Until::Elapsed(time), schedule)
        }
    }
}

/// Whether the last windows show no trend: the median of their second half is that of the first, up
/// to what does not matter, or to twice the median distance of a window from the median of its half.
/// Windows in which no call ended say nothing.
#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn is_steady(medians_ns: &[Option<u64>]) -> Option<bool> {
    let known: Vec<f64> = medians_ns.iter().rev().flatten().map(|ns| *ns as f64).collect();
    let (late, early) = known.get(..WINDOWS)?.split_at(WINDOWS / 2);
    let (before, after) = (median(early.to_vec())?, median(late.to_vec())?);
    let distances = early.iter().map(|x| (x - before).abs());
    let spread = median(distances.chain(late.iter().map(|x| (x - after).abs())).collect())?;
    Some((after - before).abs() <= (MATTERS * before).max(2.0 * spread))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(*values.get(low)?, *values.get(high)?))
}

impl Warmup {
    pub(crate) fn of(warm: &Warm) -> Self {
        Self { calls_ok: warm.calls, wall_ns: record::ns(warm.wall), steady: warm.steady }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(medians: &[u64]) -> Option<bool> {
        is_steady(&medians.iter().map(|ns| Some(*ns)).collect::<Vec<_>>())
    }

    #[test]
    fn a_trend_is_seen_and_noise_is_not() {
        assert_eq!(steady(&[100; 7]), None);
        assert_eq!(steady(&[100; 8]), Some(true));
        // A fall, a fall that is over, a step, noise around a level, a drift that does not matter.
        assert_eq!(steady(&[900, 800, 700, 600, 500, 400, 300, 200]), Some(false));
        let over = [900, 500, 300, 103, 101, 100, 99, 100, 102, 98, 100];
        assert_eq!((steady(&over[..8]), steady(&over)), (Some(false), Some(true)));
        assert_eq!(steady(&[200, 201, 199, 200, 100, 101, 99, 100]), Some(false));
        assert_eq!(steady(&[90, 120, 100, 80, 110, 85, 105, 95]), Some(true));
        assert_eq!(steady(&[1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007]), Some(true));
    }

    #[test]
    fn windows_without_calls_say_nothing() {
        let mut windows = vec![None; 20];
        assert_eq!(is_steady(&windows), None);
        windows.extend([Some(5); 8]);
        assert_eq!(is_steady(&windows), Some(true));
    }
}
