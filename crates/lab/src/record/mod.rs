//! What was seen: latencies, errors by kind, calls in flight.
//!
//! * `counts` — what one holds, packed.
//! * `figures` — the same as a result tells it.
//! * `paced` — what an open loop knows beyond that.
//! * `seconds` — the same second by second.
//! * `tools` — the same of each tool of a mix.
//! * [`Errors`], [`InFlight`], [`Tally`] — this file.

mod counts;
mod figures;
mod paced;
mod seconds;
mod tools;

use std::time::{Duration, Instant};

use crate::results::{Errors, Latencies};
pub(crate) use paced::Paced;
pub(crate) use seconds::{Interval, Seconds};
pub(crate) use tools::{PerTool, tool};

/// Calls in flight as they were, not as they were meant to be.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    now: u64,
    max: u64,
    since: Instant,
    /// Calls times nanoseconds.
    area: u128,
}

impl InFlight {
    pub(crate) fn new(at: Instant) -> Self {
        Self { now: 0, max: 0, since: at, area: 0 }
    }

    /// From `at` on there are `is` calls in flight in place of `was`.
    pub(crate) fn change(&mut self, was: u64, is: u64, at: Instant) {
        let span = at.saturating_duration_since(self.since);
        self.area += u128::from(self.now) * span.as_nanos();
        self.since = self.since.max(at);
        self.now = (self.now + is).saturating_sub(was);
        self.max = self.max.max(self.now);
    }

    /// When a call last began or ended.
    pub(crate) const fn last_change(&self) -> Instant {
        self.since
    }
}

/// Everything that the sessions saw in one phase.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) errors: Errors,
    pub(crate) latencies: Latencies,
    /// Calls still unanswered when the phase was broken off: neither success nor error.
    pub(crate) unfinished: u64,
    /// What the first failure looked like.
    pub(crate) first_failure: Option<String>,
    pub(crate) in_flight: InFlight,
    /// How long the calls that did not succeed were in flight, added up.
    pub(crate) failed_time: Duration,
    /// An open loop only.
    pub(crate) paced: Option<Box<Paced>>,
    /// What is measured only.
    pub(crate) seconds: Option<Box<Seconds>>,
    /// A mix only.
    pub(crate) tools: Vec<PerTool>,
}

impl Tally {
    pub(crate) fn new(at: Instant) -> Self {
        Self {
            sent: 0,
            errors: Errors::default(),
            latencies: Latencies::new(),
            unfinished: 0,
            first_failure: None,
            in_flight: InFlight::new(at),
            failed_time: Duration::ZERO,
            paced: None,
            seconds: None,
            tools: Vec::new(),
        }
    }

    /// Counts a call that succeeded.
    pub(crate) fn succeed(&mut self, intended: Instant, sent: Instant, now: Instant) {
        let latency = now.saturating_duration_since(intended);
        self.latencies.record(latency);
        if let Some(seconds) = &mut self.seconds {
            seconds.succeed(now, latency);
        }
        if let Some(paced) = &mut self.paced {
            paced.raw.record(now.saturating_duration_since(sent));
        }
    }

    /// Counts a call that failed after `time` in flight.
    pub(crate) fn fail_after(
        &mut self,
        time: Duration,
        fault: Fault,
        describe: impl FnOnce() -> String,
    ) {
        self.failed_time += time;
        self.fail(fault, describe);
    }

    /// What an open loop has to add.
    pub(crate) fn pace(&mut self, add: impl FnOnce(&mut Paced)) {
        if let Some(paced) = &mut self.paced {
            add(paced);
        }
    }

    /// Counts a failure and keeps the first description.
    pub(crate) fn fail(&mut self, fault: Fault, describe: impl FnOnce() -> String) {
        self.errors.count(fault);
        if let Some(seconds) = &mut self.seconds {
            seconds.fail(Instant::now(), fault);
        }
        self.first_failure.get_or_insert_with(describe);
    }
}

/// What was seen in one slice, or in several, added up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Total {
    pub(crate) sent: u64,
    pub(crate) errors: Errors,
    pub(crate) latencies: Latencies,
    pub(crate) unfinished: u64,
    pub(crate) first_failure: Option<String>,
    pub(crate) wall: Duration,
    pub(crate) in_flight_max: u64,
    /// Calls times nanoseconds.
    in_flight_area: u128,
    pub(crate) failed_time: Duration,
    /// An open loop only.
    pub(crate) paced: Option<Box<Paced>>,
    /// CPU time of the generator's thread, where it is known.
    pub(crate) cpu: Option<Duration>,
    /// What is measured only.
    pub(crate) seconds: Option<Box<Seconds>>,
    /// A mix only.
    pub(crate) tools: Vec<PerTool>,
}

impl Total {
    /// What was seen in a slice that took `wall`, and `cpu` of the generator.
    pub(crate) fn of(mut tally: Tally, wall: Duration, cpu: Option<Duration>) -> Self {
        if let Some(seconds) = &mut tally.seconds {
            seconds.pause(wall);
        }
        Self {
            sent: tally.sent,
            errors: tally.errors,
            latencies: tally.latencies,
            unfinished: tally.unfinished,
            first_failure: tally.first_failure,
            wall,
            in_flight_max: tally.in_flight.max,
            in_flight_area: tally.in_flight.area,
            failed_time: tally.failed_time,
            paced: tally.paced,
            cpu,
            seconds: tally.seconds,
            tools: tally.tools,
        }
    }

    /// Adds a later slice, which went on with the seconds of this.
    pub(crate) fn append(&mut self, slice: Self) {
        self.sent += slice.sent;
        self.errors.merge(&slice.errors);
        self.latencies.merge(&slice.latencies);
        self.unfinished += slice.unfinished;
        self.first_failure = self.first_failure.take().or(slice.first_failure);
        self.seconds = slice.seconds;
        tools::merge(&mut self.tools, &slice.tools);
        self.wall += slice.wall;
        self.in_flight_max = self.in_flight_max.max(slice.in_flight_max);
        self.in_flight_area += slice.in_flight_area;
        self.failed_time += slice.failed_time;
        if let Some(paced) = &slice.paced {
            self.paced.get_or_insert_default().merge(paced);
        }
        if let Some(cpu) = slice.cpu {
            *self.cpu.get_or_insert_default() += cpu;
        }
    }

    /// The part of the time, 0 to 1, that the generator's thread was at work.
    pub(crate) fn cpu_share(&self) -> Option<f64> {
        let spun = self.paced.as_ref().map_or(Duration::ZERO, |paced| paced.spun);
        let worked = self.cpu?.saturating_sub(spun).as_secs_f64();
        (!self.wall.is_zero()).then(|| worked / self.wall.as_secs_f64())
    }

    pub(crate) fn ok(&self) -> u64 {
        self.latencies.count()
    }

    #[allow(clippy::cast_precision_loss, reason = "a report needs three digits")]
    pub(crate) fn in_flight_mean(&self) -> f64 {
        if self.wall.is_zero() {
            return 0.0;
        }
        self.in_flight_area as f64 / self.wall.as_nanos() as f64
    }

    #[allow(clippy::cast_precision_loss, reason = "a report needs three digits")]
    pub(crate) fn throughput_per_s(&self) -> f64 {
        if self.wall.is_zero() {
            return 0.0;
        }
        self.ok() as f64 / self.wall.as_secs_f64()
    }
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Transport,
    JsonRpc,
    IsError,
    Timeout,
    WrongContent,
}

impl Errors {
    pub(crate) const fn count(&mut self, fault: Fault) {
        let counter = match fault {
            Fault::Transport => &mut self.transport,
            Fault::JsonRpc => &mut self.json_rpc,
            Fault::IsError => &mut self.is_error,
            Fault::Timeout => &mut self.timeout,
            Fault::WrongContent => &mut self.wrong_content,
        };
        *counter += 1;
    }
}

pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_add_up_by_kind() {
        let mut errors = Errors::default();
        for fault in [
            Fault::Transport,
            Fault::JsonRpc,
            Fault::IsError,
            Fault::Timeout,
            Fault::WrongContent,
            Fault::Timeout,
        ] {
            errors.count(fault);
        }
        let want = Errors { transport: 1, json_rpc: 1, is_error: 1, timeout: 2, wrong_content: 1 };
        assert_eq!((errors, errors.total()), (want, 6));
    }

    #[test]
    fn in_flight_is_a_time_weighted_mean() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut tally = Tally::new(start);
        // 0 for 10 ms, 4 for 20 ms, 2 for 10 ms: (0 + 80 + 20) / 40 = 2.5.
        for (was, is, ms) in [(0, 4, 10), (4, 2, 30), (2, 0, 40)] {
            tally.in_flight.change(was, is, at(ms));
        }
        let total = Total::of(tally, Duration::from_millis(40), None);
        assert!((total.in_flight_mean() - 2.5).abs() < 1e-9);
        assert_eq!(total.in_flight_max, 4);
    }
}
