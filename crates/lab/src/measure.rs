//! A trial: slices of target and floor in turn (A B B A …), so that both meet the same weather and their
//! ratio comes from one run.

use std::time::Duration;

use crate::load::{Fleet, Phase, Schedule};
use crate::observe::{Seen, Spent};
use crate::plan::Plan;
use crate::record::Total;
use crate::record::ns;
use crate::results::{Little, Open, Resources, Results, Second, Slice, Sockets};
use crate::spec::Until;

/// The shortest slice of an open loop: a cut ends what has piled up, which belongs to the load.
const OPEN_SLICE: Duration = Duration::from_secs(5);

/// Most slices of a measurement.
const SLICES_MAX: usize = 1000;

/// One load on one rig, and what was recorded of it so far.
pub(crate) struct Trial {
    pub(crate) plan: Plan,
    pub(crate) target: Side,
    floor: Side,
    pub(crate) slices: usize,
    /// Why the target's part ended early, if it did by itself.
    pub(crate) broken: Option<String>,
    /// One of its sides broke.
    over: bool,
}

/// One side of a trial: the target, or its floor.
#[derive(Default)]
pub(crate) struct Side {
    pub(crate) total: Total,
    spent: Option<Spent>,
    slices: Vec<Slice>,
    seen: Seen,
    sockets: Option<Sockets>,
}

impl Trial {
    pub(crate) fn new(plan: Plan, slices: usize) -> Self {
        let (target, floor) = (Side::default(), Side::default());
        Self { plan, target, floor, slices, broken: None, over: false }
    }

    /// The floor's side, if it was called.
    pub(crate) fn floor(&self) -> Option<&Side> {
        (self.floor.total.sent > 0).then_some(&self.floor)
    }

    /// Whether one of its sides broke.
    pub(crate) const fn is_over(&self) -> bool {
        self.over
    }

    /// Notes what was seen of the processes of both sides.
    pub(crate) fn observe(&mut self, [target, floor]: [Seen; 2]) {
        self.target.seen.join(&target);
        self.floor.seen.join(&floor);
    }

    /// Runs one slice of one side, if there is one to run.
    pub(crate) async fn slice(
        &mut self,
        (target, floor): (&mut Fleet, Option<&mut Fleet>),
        is_target: bool,
        phase: impl FnOnce() -> Phase,
    ) -> bool {
        if self.over {
            return false;
        }
        let why = match (is_target, floor) {
            (true, _) => self.target.take(target, phase).await,
            (false, Some(floor)) => self.floor.take(floor, phase).await,
            (false, None) => return false,
        };
        self.over = why.is_some();
        self.broken = why.filter(|_| is_target);
        true
    }
}

impl Side {
    /// Runs one slice; returns the reason if it broke.
    async fn take(&mut self, fleet: &mut Fleet, phase: impl FnOnce() -> Phase) -> Option<String> {
        let (before, traffic) = (fleet.gauge.begin(), fleet.traffic.begin());
        let seconds = self.total.seconds.take();
        let (total, why) = fleet.run(phase().recorded(seconds)).await;
        let after = fleet.gauge.end();
        if let Some(sockets) = fleet.traffic.since(&traffic) {
            self.sockets.get_or_insert_default().add(&sockets);
        }
        let spent = before.zip(after).map(|(before, after)| Spent::between(&before, &after));
        let latency = total.latencies.summary();
        self.slices.push(Slice {
            calls_ok: total.ok(),
            wall_ns: ns(total.wall),
            throughput_per_s: total.throughput_per_s(),
            p50_ns: latency.p50_ns,
            p99_ns: latency.p99_ns,
            cpu_ns_per_call: spent.and_then(|spent| per_call(spent.cpu_ns, total.sent)),
        });
        if let Some(spent) = spent {
            self.spent.get_or_insert_default().add(&spent);
        }
        self.total.append(total);
        why
    }

    pub(crate) fn results(&self) -> Results {
        let total = &self.total;
        let each = |part: fn(&Spent) -> u64| {
            self.spent.as_ref().and_then(|spent| per_call(part(spent), total.sent))
        };
        Results {
            calls_sent: total.sent,
            calls_ok: total.ok(),
            calls_unfinished: total.unfinished,
            errors: total.errors,
            first_failure: total.first_failure.clone(),
            wall_ns: ns(total.wall),
            throughput_per_s: total.throughput_per_s(),
            in_flight_mean: total.in_flight_mean(),
            in_flight_max: total.in_flight_max,
            latency: total.latencies.summary(),
            latency_histogram: total.latencies.encode(),
            open: total.paced.as_ref().map(|paced| Open::of(total, paced)),
            seconds: total.seconds.as_ref().map(|seconds| Second::all(seconds)).unwrap_or_default(),
            little: Some(Little::of(total)),
            generator_cpu_share: total.cpu_share(),
            warmup: None,
            sockets: self.sockets,
            resources: Resources {
                cpu_ns_per_call: each(|spent| spent.cpu_ns),
                cpu_user_ns_per_call: each(|spent| spent.user_ns),
                cpu_system_ns_per_call: each(|spent| spent.system_ns),
                ctx_switches_per_call: each(|spent| spent.switches),
                ..self.seen.whole.clone()
            },
            resources_seconds: self.seen.course.all(),
            slices: self.slices.clone(),
            tools: Vec::new(),
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a report needs three digits")]
fn per_call(amount: u64, calls: u64) -> Option<f64> {
    (calls > 0).then(|| amount as f64 / calls as f64)
}

/// What a slice has to do.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) until: Until,
    /// An open loop only. Target and floor get the same.
    pub(crate) schedule: Option<Schedule>,
}

/// What each slice has to do, the arrivals going on from slice to slice.
pub(crate) fn shares(plan: &Plan) -> Vec<Share> {
    let course = plan.course();
    let (mut time_before, mut calls_before) = (Duration::ZERO, 0);
    let share = |(index, until)| {
        let schedule = course.map(|course| match until {
            Until::Elapsed(time) => Schedule::within(course, time_before, time, index),
            Until::Calls(calls) => Schedule::after(course, calls_before, calls, index),
        });
        match until {
            Until::Elapsed(time) => time_before += time,
            Until::Calls(calls) => calls_before += calls,
        }
        Share { until, schedule }
    };
    (0..).zip(cut(plan)).map(share).collect()
}

/// When each slice ends. A small number of calls is not cut so far that filling and draining the
/// slots would be most of a slice, and an open loop not so far that its queues could not grow.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn cut(plan: &Plan) -> Vec<Until> {
    let slices = plan.slices.clamp(1, SLICES_MAX) as u64;
    let open = |seconds: f64| ((seconds / OPEN_SLICE.as_secs_f64()) as u64).clamp(1, slices);
    match (plan.until, plan.arrivals) {
        (Until::Elapsed(time), arrivals) => {
            let count = arrivals.map_or(slices, |_| open(time.as_secs_f64()));
            let each = time / u32::try_from(count).unwrap_or(1);
            (0..count).map(|_| Until::Elapsed(each.max(Duration::from_millis(1)))).collect()
        }
        (Until::Calls(calls), arrivals) => {
            let at_once = (plan.concurrency * plan.sessions) as u64;
            #[allow(clippy::cast_precision_loss, reason = "a rough number of seconds")]
            let count = match arrivals {
                Some(arrivals) => open(calls as f64 / arrivals.rate_per_s()),
                None => (calls / (10 * at_once)).clamp(1, slices),
            };
            let more = calls % count;
            (0..count).map(|i| Until::Calls(calls / count + u64::from(i < more))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::shape::Ramp;
    use crate::results::{Arrivals, Shape, Spacing};

    fn calls(concurrency: usize, calls: u64) -> Vec<u64> {
        let until = Until::Calls(calls);
        let plan = Plan { concurrency, until, slices: 4, ..Plan::default() };
        let only = |until: Until| match until {
            Until::Calls(calls) => calls,
            Until::Elapsed(_) => 0,
        };
        cut(&plan).into_iter().map(only).collect()
    }

    #[test]
    fn calls_are_shared_out_to_the_last() {
        assert_eq!(calls(1, 4002), [1001, 1001, 1000, 1000]);
        assert_eq!(calls(1, 20), [10, 10]);
        assert_eq!(calls(32, 300), [300]);
        assert_eq!(calls(1, 1), [1]);
    }

    #[test]
    fn time_is_shared_out() {
        let until = Until::Elapsed(Duration::from_secs(2));
        let plan = Plan { until, slices: 4, ..Plan::default() };
        assert_eq!(cut(&plan), [Until::Elapsed(Duration::from_millis(500)); 4]);
    }

    #[test]
    fn the_schedule_of_an_open_loop_goes_on_from_slice_to_slice() {
        let shape = Shape::Ramp(Ramp { from_per_s: 0.0, to_per_s: 100.0 });
        let arrivals = Some(Arrivals { shape, spacing: Spacing::Constant, seed: 0 });
        for (until, slices) in [
            (Until::Elapsed(Duration::from_secs(3)), 1),
            (Until::Elapsed(Duration::from_secs(20)), 4),
            (Until::Calls(1000), 4),
        ] {
            let shares = shares(&Plan { until, arrivals, ..Plan::default() });
            let counts: Vec<_> =
                shares.iter().filter_map(|share| Some(share.schedule.clone()?.count())).collect();
            assert_eq!(counts.len(), slices);
            let calls = if slices == 1 { 150 } else { 1000 };
            assert!(counts.iter().sum::<usize>().abs_diff(calls) <= 1, "{counts:?}");
            if until == Until::Elapsed(Duration::from_secs(20)) {
                assert!((60..=64).contains(&counts[0]) && counts[3] > 400, "{counts:?}");
            }
        }
    }
}
