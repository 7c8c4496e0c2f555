//! Target and floor of one run beside each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Results, Slice};

/// Target divided by floor.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ratios {
    /// Of the throughputs: more is better.
    pub throughput: Option<Ratio>,
    /// Of the medians: less is better.
    pub p50: Option<Ratio>,
    /// Of the 99th percentiles: less is better.
    pub p99: Option<Ratio>,
    /// Of the CPU time per call: less is better.
    pub cpu_per_call: Option<Ratio>,
}

/// A ratio, and how far it moved between pairs of slices.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ratio {
    /// Over the whole run: the figure of the target by the figure of the floor.
    pub whole: f64,
    /// The median over pairs of neighbouring slices, which one disturbed slice does not move.
    pub median: Option<f64>,
    /// The least of any pair.
    pub min: Option<f64>,
    /// The greatest of any pair.
    pub max: Option<f64>,
}

impl Ratio {
    /// The figure to quote: the median where there is one.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.median.unwrap_or(self.whole)
    }

    fn of(whole: f64, mut pairs: Vec<f64>) -> Self {
        pairs.sort_by(f64::total_cmp);
        let at = |index: usize| pairs.get(index).copied();
        let middle = pairs.len() / 2;
        let median = match pairs.len() {
            0 => None,
            len if len % 2 == 1 => at(middle),
            _ => at(middle - 1).zip(at(middle)).map(|(a, b)| f64::midpoint(a, b)),
        };
        Self { whole, median, min: at(0), max: pairs.last().copied() }
    }
}

impl Ratios {
    pub(crate) fn of(target: &Results, floor: &Results) -> Self {
        let pairs: Vec<_> = target.slices.iter().zip(&floor.slices).collect();
        let ratio = |whole: Option<f64>, part: fn(&Slice, &Slice) -> Option<f64>| {
            let parts = pairs.iter().filter_map(|(a, b)| part(a, b)).collect();
            whole.map(|whole| Ratio::of(whole, parts))
        };
        let some = |value: f64| Some(value);
        Self {
            throughput: ratio(
                divide(some(target.throughput_per_s), some(floor.throughput_per_s)),
                |a, b| divide(Some(a.throughput_per_s), Some(b.throughput_per_s)),
            ),
            p50: ratio(by(target.latency.p50_ns, floor.latency.p50_ns), |a, b| {
                by(a.p50_ns, b.p50_ns)
            }),
            p99: ratio(by(target.latency.p99_ns, floor.latency.p99_ns), |a, b| {
                by(a.p99_ns, b.p99_ns)
            }),
            cpu_per_call: ratio(
                divide(target.resources.cpu_ns_per_call, floor.resources.cpu_ns_per_call),
                |a, b| divide(a.cpu_ns_per_call, b.cpu_ns_per_call),
            ),
        }
    }
}

fn divide(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).filter(|(_, b)| *b > 0.0).map(|(a, b)| a / b)
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn by(a: Option<u64>, b: Option<u64>) -> Option<f64> {
    divide(a.map(|ns| ns as f64), b.map(|ns| ns as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::sample;

    #[test]
    fn a_ratio_carries_its_range_over_pairs_of_slices() {
        let ratios = sample(100, true).ratios.unwrap();
        let throughput = ratios.throughput.unwrap();
        assert_eq!((throughput.whole, throughput.median), (0.5, Some(0.5)));
        assert_eq!((throughput.min, throughput.max), (Some(0.25), Some(0.75)));
        assert_eq!(ratios.p50.unwrap().value(), 1.0);
        let odd = Ratio::of(9.0, vec![3.0, 1.0, 2.0]);
        assert_eq!((odd.value(), odd.min, odd.max), (2.0, Some(1.0), Some(3.0)));
        assert_eq!(Ratio::of(9.0, vec![]).value(), 9.0);
        assert!(ratios.p99.is_none(), "100 samples are too few for p99");
    }
}
