//! What happened second by second, in memory that does not grow with the run.

use std::time::{Duration, Instant};

use super::Fault;
use super::counts::Counts;
use crate::results::{Errors, Latencies};

/// Most intervals that are kept. A longer run has longer ones: their length doubles.
const INTERVALS_MAX: u64 = 600;

/// Most bytes that their latencies take, for the same reason: some 300 intervals at 100,000 calls/s.
const BYTES_MAX: usize = 2 * 1024 * 1024;

/// The first length of an interval.
const LENGTH: Duration = Duration::from_secs(1);

/// Intervals of the measured time of one side, its slices joined end to end.
#[derive(Clone, Debug)]
pub(crate) struct Seconds {
    length: Duration,
    /// Measured time before the current slice.
    before: Duration,
    /// When the current slice began.
    start: Instant,
    /// When the current interval is over.
    end: Instant,
    index: u64,
    errors: Errors,
    latencies: Latencies,
    /// Those that are over and in which something happened, in order.
    kept: Vec<Interval>,
    /// Whether the last of them has not been shown yet.
    fresh: bool,
}

/// One interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interval {
    index: u64,
    pub(crate) errors: Errors,
    counts: Counts,
}

impl Interval {
    /// Its latencies.
    pub(crate) fn latencies(&self) -> Latencies {
        let mut latencies = Latencies::new();
        self.counts.iter().for_each(|(ns, count)| latencies.record_many(ns, count));
        latencies
    }

    /// Those that occurred, and how often.
    pub(crate) const fn counts(&self) -> &Counts {
        &self.counts
    }

    fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.errors.total() == 0
    }

    /// Adds the interval after it.
    fn merge(&mut self, other: &Self) {
        self.errors.merge(&other.errors);
        self.counts = self.counts.and(&other.counts);
    }
}

impl Seconds {
    /// Nothing yet.
    pub(crate) fn new(start: Instant) -> Self {
        Self {
            length: LENGTH,
            before: Duration::ZERO,
            start,
            end: start + LENGTH,
            index: 0,
            errors: Errors::default(),
            latencies: Latencies::new(),
            kept: Vec::new(),
            fresh: false,
        }
    }

    /// A slice begins.
    pub(crate) fn resume(&mut self, start: Instant) {
        self.start = start;
        self.end = self.end_of(self.index);
    }

    /// The slice is over; it took `wall`.
    pub(crate) fn pause(&mut self, wall: Duration) {
        self.before += wall;
    }

    /// A call succeeded.
    pub(crate) fn succeed(&mut self, now: Instant, latency: Duration) {
        self.turn(now);
        self.latencies.record(latency);
    }

    /// A call failed.
    pub(crate) fn fail(&mut self, now: Instant, fault: Fault) {
        self.turn(now);
        self.errors.count(fault);
    }

    /// Every interval up to the end of the measured time, those in which nothing happened as well:
    /// when it began, how long it was, and what it held.
    pub(crate) fn intervals(&self) -> Vec<(Duration, Duration, Interval)> {
        let mut held = self.clone();
        held.keep();
        let mut kept = held.kept.into_iter().peekable();
        let mut intervals = Vec::new();
        for index in 0.. {
            let start = self.length.saturating_mul(index);
            if start >= self.before && kept.peek().is_none() {
                break;
            }
            let length = self.length.min(self.before.saturating_sub(start));
            let interval = kept.next_if(|interval| interval.index == u64::from(index));
            intervals.push((start, length, interval.unwrap_or_default()));
        }
        intervals
    }

    /// The last interval that is over and its length, once.
    pub(crate) fn fresh(&mut self) -> Option<(Duration, &Interval)> {
        std::mem::take(&mut self.fresh).then_some(())?;
        self.kept.last().map(|last| (self.length, last))
    }

    fn end_of(&self, index: u64) -> Instant {
        let end = u32::try_from(index + 1).map_or(Duration::MAX, |n| self.length.saturating_mul(n));
        let left = end.saturating_sub(self.before);
        self.start.checked_add(left).unwrap_or(self.start)
    }

    /// Goes on to the interval of `now`.
    fn turn(&mut self, now: Instant) {
        if now < self.end {
            return;
        }
        self.keep();
        self.fresh = true;
        let at = self.before + now.saturating_duration_since(self.start);
        loop {
            let index = at.as_nanos() / self.length.as_nanos();
            self.index = u64::try_from(index).unwrap_or(u64::MAX);
            if self.index < INTERVALS_MAX && self.bytes() <= BYTES_MAX {
                break;
            }
            self.coarsen();
        }
        self.end = self.end_of(self.index);
    }

    /// Puts the current interval to those that are over.
    fn keep(&mut self) {
        let counts = Counts::of(self.latencies.counts());
        let interval = Interval { index: self.index, errors: self.errors, counts };
        self.latencies.clear();
        self.errors = Errors::default();
        if interval.is_empty() {
            return;
        }
        match self.kept.last_mut() {
            Some(last) if last.index == interval.index => last.merge(&interval),
            _ => self.kept.push(interval),
        }
    }

    /// What the latencies of the intervals that are over take.
    fn bytes(&self) -> usize {
        self.kept.iter().map(|interval| interval.counts.bytes()).sum()
    }

    /// Merges neighbours: each interval becomes twice as long.
    fn coarsen(&mut self) {
        self.length *= 2;
        for mut interval in std::mem::take(&mut self.kept) {
            interval.index /= 2;
            match self.kept.last_mut() {
                Some(last) if last.index == interval.index => last.merge(&interval),
                _ => self.kept.push(interval),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn slices_are_joined_and_empty_seconds_are_told() {
        let start = Instant::now();
        let mut seconds = Seconds::new(start);
        for at in [0, 500, 999, 1500, 3200] {
            seconds.succeed(start + Duration::from_millis(at), Duration::from_millis(2));
        }
        seconds.pause(Duration::from_millis(3400));
        // The next slice begins much later, which does not count: 3.4 s to 4.4 s.
        let later = start + 60 * S;
        seconds.resume(later);
        seconds.succeed(later + Duration::from_millis(500), S);
        seconds.fail(later + Duration::from_millis(900), Fault::Timeout);
        seconds.pause(S);
        let (length, last) = seconds.fresh().unwrap();
        assert_eq!((length, last.counts().iter().count()), (S, 2), "3.2 s and 3.9 s");
        assert!(seconds.fresh().is_none(), "it was shown");
        let intervals = seconds.intervals();
        let counts: Vec<_> = intervals.iter().map(|(.., i)| i.latencies().count()).collect();
        assert_eq!(counts, [3, 1, 0, 2, 0]);
        assert_eq!(intervals[4].2.errors.timeout, 1);
        assert_eq!((intervals[2].0, intervals[2].1), (2 * S, S));
        assert_eq!((intervals[4].0, intervals[4].1), (4 * S, Duration::from_millis(400)));
    }

    #[test]
    fn a_long_run_has_longer_intervals_and_loses_nothing() {
        let start = Instant::now();
        let (mut seconds, mut whole) = (Seconds::new(start), Latencies::new());
        for second in 0..3000_u32 {
            for i in 1..=3 {
                let latency = Duration::from_micros(u64::from(second * 7 % 900 + i * 50));
                whole.record(latency);
                seconds.succeed(start + second * S + i * S / 4, latency);
            }
            if second % 100 == 0 {
                seconds.fail(start + second * S + S / 2, Fault::IsError);
            }
        }
        seconds.pause(3000 * S);
        let intervals = seconds.intervals();
        assert_eq!((seconds.length, intervals.len()), (8 * S, 375));
        let (mut sum, mut errors) = (Latencies::new(), 0);
        for (_, length, interval) in &intervals {
            assert_eq!((*length, interval.latencies().count()), (8 * S, 24));
            sum.merge(&interval.latencies());
            errors += interval.errors.is_error;
        }
        assert_eq!((sum.encode(), errors), (whole.encode(), 30));
    }

    #[test]
    fn intervals_of_a_busy_hour_take_bounded_memory() {
        let start = Instant::now();
        let (mut seconds, mut most) = (Seconds::new(start), 0);
        for second in 0..3600_u32 {
            // Of 1,600 latencies that are told apart, other 1,000 every second.
            for i in 0..1000 {
                let spread = u64::from(i * 997 + second * 7919) % 1600;
                let latency = Duration::from_nanos(263_000 + 256 * spread);
                seconds.succeed(start + second * S + i * S / 1000, latency);
            }
            most = most.max(seconds.bytes());
        }
        seconds.pause(3600 * S);
        let intervals = seconds.intervals();
        assert!((BYTES_MAX / 2..=BYTES_MAX).contains(&most), "{most}");
        assert!((100..=600).contains(&intervals.len()), "{}", intervals.len());
        let calls: u64 = intervals.iter().map(|(.., held)| held.latencies().count()).sum();
        assert_eq!(calls, 3_600_000);
    }
}
