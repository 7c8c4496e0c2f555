//! The statistics behind the lab's verdicts: small pure functions, each named after its paper.
//!
//! The unit of a sample is a run, or a slice of one; never a request, because requests of one run
//! share its weather. Every function is deterministic. What cannot be computed from the samples
//! given (too few, not finite, not positive where a logarithm is taken) is `None`.
//!
//! * [`quantile`], [`median`], [`mean`], [`Interval`] — this file.
//! * `distribution` — the normal and Student's t.
//! * `rank`         — Mann–Whitney, Wilcoxon, and the Hodges–Lehmann estimates.
//! * `ratio`        — a ratio of two sets of samples, with its interval.
//! * `bootstrap`    — intervals by resampling.
//! * `trend`        — Theil–Sen and Mann–Kendall.

mod bootstrap;
mod distribution;
mod knee;
mod order;
mod rank;
mod ratio;
mod trend;

use serde::{Deserialize, Serialize};

pub use bootstrap::{Bootstrap, Rng, bootstrap};
pub use distribution::{normal_cdf, normal_quantile, t_cdf, t_quantile};
pub use knee::{Knee, knee};
pub use order::median_interval;
pub use rank::{MannWhitney, hodges_lehmann, mann_whitney, signed_rank};
pub use ratio::{ratio_by_ranks, ratio_of_medians, ratio_paired, ratio_unpaired};
pub use trend::{MannKendall, TREND_POINTS_MAX, mann_kendall, theil_sen};

/// The confidence of every interval that the lab prints.
pub const LEVEL: f64 = 0.95;

/// An estimate and the interval around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "three numbers")]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies within the interval, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The same with every number put through a rising function.
    pub(crate) fn map(self, rising: impl Fn(f64) -> f64) -> Self {
        Self { value: rising(self.value), low: rising(self.low), high: rising(self.high) }
    }
}

/// The arithmetic mean; `None` of nothing.
#[must_use]
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// The variance with n − 1 below; `None` of fewer than two.
#[must_use]
pub fn variance(samples: &[f64]) -> Option<f64> {
    let mean = mean(samples).filter(|_| samples.len() > 1)?;
    let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
    Some(squares / (samples.len() - 1) as f64)
}

/// A quantile by linear interpolation between order statistics, the definition 7 of Hyndman and Fan,
/// "Sample Quantiles in Statistical Packages" (1996), which R and `NumPy` use by default.
#[must_use]
pub fn quantile(samples: &[f64], q: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

/// The median of samples in any order: [`quantile`] at one half.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
pub(crate) fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = *sorted.get(place.floor() as usize)?;
    let above = *sorted.get(place.ceil() as usize)?;
    Some(below + (above - below) * place.fract())
}

/// The logarithms, if every sample has one.
fn logs(samples: &[f64]) -> Option<Vec<f64>> {
    samples.iter().map(|x| Some(x.ln()).filter(|ln| ln.is_finite())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!((mean(&[]), median(&[]), variance(&[1.0])), (None, None, None));
    }

    #[test]
    fn spread_is_that_of_a_sample() {
        // Deviations −2 0 2: 8 / 2.
        assert_eq!(variance(&[1.0, 3.0, 5.0]), Some(4.0));
    }
}
