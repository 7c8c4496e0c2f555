//! The time of operations that are shorter than a clock's tick: batches of them, and slices of batches.
//!
//! A sample is a slice, never an operation: operations of one slice share its weather. Per operation the
//! median over the slices is given, with its 95 % interval by order statistics.

use std::time::{Duration, Instant};

use mcplane_lab::stats::{Interval, median_interval, quantile};
use mcplane_lab::{Control, samples_min};

use crate::entry::Figure;

/// Slices of a measurement.
const SLICES: usize = 30;

/// What part of the time is thrown away first.
const WARMUP: u32 = 10;

/// What batches of one kind of operation took.
pub(crate) struct Timed {
    /// Operations of a batch.
    batch: u64,
    /// Nanoseconds of every batch.
    batches: Vec<f64>,
    /// Nanoseconds per operation of every slice.
    slices: Vec<f64>,
}

/// Repeats a batch of so many operations for this long.
pub(crate) fn time(batch: u64, time: Duration, control: &Control, mut work: impl FnMut()) -> Timed {
    let until = Instant::now() + time / WARMUP;
    while Instant::now() < until {
        work();
    }
    let (mut batches, mut slices) = (Vec::new(), Vec::new());
    let slice = time / u32::try_from(SLICES).unwrap_or(1);
    for _ in 0..SLICES {
        if control.is_stopped() {
            break;
        }
        let began = Instant::now();
        let (mut at, mut count) = (began, 0_u64);
        // One reading of the clock for each batch: the end of one is the beginning of the next.
        while at.duration_since(began) < slice {
            work();
            let now = Instant::now();
            batches.push(nanoseconds(now.duration_since(at)));
            (at, count) = (now, count + 1);
        }
        slices.push(nanoseconds(at.duration_since(began)) / (count * batch) as f64);
    }
    Timed { batch, batches, slices }
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// The median with its interval; `None` of fewer than six.
pub(crate) fn estimated(samples: &[f64]) -> Option<Interval> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = median_interval(sorted.len())?;
    let end = |rank: usize| sorted.get(rank).copied();
    Some(Interval { value: quantile(&sorted, 0.5)?, low: end(low)?, high: end(high)? })
}

/// Time per operation and operations per second, from nanoseconds per operation of several rounds.
pub(crate) fn rate(of: &str, per_op_ns: &[f64]) -> Vec<Figure> {
    let Some(per_op) = estimated(per_op_ns) else { return Vec::new() };
    let rate = |ns: f64| 1e9 / ns;
    let per_s =
        Interval { value: rate(per_op.value), low: rate(per_op.high), high: rate(per_op.low) };
    let figure = |name, unit, estimate| {
        let name = format!("{of} {name}").trim_start().to_owned();
        Figure::estimate(&name, unit, estimate, per_op_ns.len())
    };
    vec![figure("time per operation", "ns", per_op), figure("rate", "ops/s", per_s)]
}

impl Timed {
    /// Nanoseconds per operation of every slice.
    pub(crate) fn slices(&self) -> &[f64] {
        &self.slices
    }

    /// Time per operation, operations per second, and the percentiles of whole batches that there are
    /// enough of.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let mut figures = rate("", &self.slices);
        let mut sorted = self.batches.clone();
        sorted.sort_by(f64::total_cmp);
        for (name, q) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
            let is_known = sorted.len() as u64 >= samples_min(q);
            if let Some(ns) = quantile(&sorted, q).filter(|_| is_known) {
                let name = format!("{name} of a batch of {}", self.batch);
                let samples = Some(sorted.len());
                figures.push(Figure { samples, ..Figure::of(&name, "us", ns / 1e3) });
            }
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_divided_by_its_operations() {
        let control = Control::default();
        let wait = || std::thread::sleep(Duration::from_micros(500));
        let timed = time(100, Duration::from_millis(90), &control, wait);
        let figures = timed.figures();
        let Figure { value, interval, samples, .. } = figures[0].clone();
        let [low, high] = interval.unwrap();
        assert!(low <= value && value <= high && samples == Some(SLICES), "{figures:?}");
        assert!(low >= 5_000.0, "half a millisecond for a hundred: {figures:?}");
        let names: Vec<_> = figures.into_iter().map(|figure| figure.name).collect();
        // Too few batches for a 99th percentile.
        assert_eq!(
            names,
            ["time per operation", "rate", "p50 of a batch of 100", "p95 of a batch of 100"]
        );
    }
}
