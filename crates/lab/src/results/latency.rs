//! Latencies: an HdrHistogram in nanoseconds, and the figures that may be read off it.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest latency that is kept apart, in nanoseconds: an hour. Longer ones count as this.
const NS_MAX: u64 = 3_600_000_000_000;

/// Significant decimal digits of every recorded value.
const DIGITS: u8 = 3;

/// The quantiles of the report: name, and the quantile itself.
pub(crate) const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

/// Latencies of one phase.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, NS_MAX, DIGITS)
            .or_else(|_| Histogram::new(DIGITS))
            .unwrap_or_else(|_| {
                unreachable!("3 digits and 1 < NS_MAX are in the documented range")
            });
        Self(histogram)
    }

    /// Adds one latency.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(NS_MAX).max(1));
    }

    /// Adds a latency that occurred `count` times.
    pub(crate) fn record_many(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns, count);
    }

    /// The latencies that occurred, in nanoseconds, each as the greatest that counts as the same,
    /// and how often.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value()))
    }

    /// The median in nanoseconds, however few there are.
    pub(crate) fn median_ns(&self) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(0.5))
    }

    /// Forgets them all.
    pub(crate) fn clear(&mut self) {
        self.0.reset();
    }

    /// Adds all of another phase.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds and digits, which is all that could make this fail.
        let _ = self.0.add(&other.0);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value at a quantile in nanoseconds, or `None` below the sample minimum.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        (self.count() >= samples_min(quantile)).then(|| self.0.value_at_quantile(quantile))
    }

    /// The figures of the report.
    #[must_use]
    pub fn summary(&self) -> Latency {
        let some = |value: u64| (!self.0.is_empty()).then_some(value);
        let [p50, p90, p95, p99, p99_9] = QUANTILES.map(|(_, q)| self.quantile_ns(q));
        Latency {
            count: self.count(),
            min_ns: some(self.0.min()),
            mean_ns: (!self.0.is_empty()).then(|| self.0.mean()),
            stddev_ns: (self.count() > 1).then(|| self.0.stdev()),
            p50_ns: p50,
            p90_ns: p90,
            p95_ns: p95,
            p99_ns: p99,
            p99_9_ns: p99_9,
            max_ns: some(self.0.max()),
        }
    }

    /// The histogram in the compressed V2 format in base64, which every HdrHistogram reads.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        match V2DeflateSerializer::new().serialize(&self.0, &mut bytes) {
            Ok(_) => STANDARD.encode(bytes),
            Err(_) => String::new(),
        }
    }

    /// Reads what [`Latencies::encode`] wrote; `None` if it is something else.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text).ok()?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).ok().map(Self)
    }
}

/// The fewest samples that say something about a quantile: with fewer, the chance that not one of
/// them lies above the true value is more than 2.5 %, and the largest sample would pass for it.
/// 36 for p90, 72 for p95, 368 for p99, 3,688 for p99.9.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
pub fn samples_min(quantile: f64) -> u64 {
    (0.025_f64.ln() / quantile.ln()).ceil() as u64
}

/// Latency figures, each in nanoseconds from the intended start. `None` where there are too few
/// samples for it ([`samples_min`]).
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Latency {
    /// Samples: calls that succeeded.
    pub count: u64,
    /// The least.
    pub min_ns: Option<u64>,
    /// The arithmetic mean.
    pub mean_ns: Option<f64>,
    /// The standard deviation.
    pub stddev_ns: Option<f64>,
    /// The median.
    pub p50_ns: Option<u64>,
    /// 90 % took at most this.
    pub p90_ns: Option<u64>,
    /// 95 % took at most this.
    pub p95_ns: Option<u64>,
    /// 99 % took at most this.
    pub p99_ns: Option<u64>,
    /// 99.9 % took at most this.
    pub p99_9_ns: Option<u64>,
    /// The greatest.
    pub max_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::new();
        values.into_iter().for_each(|ns| latencies.record(Duration::from_nanos(ns)));
        latencies
    }

    #[test]
    fn figures_match_a_hand_computation() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, population standard deviation 2; median (rank 4) 4.
        let summary = of([2, 4, 4, 4, 5, 5, 7, 9]).summary();
        assert_eq!(summary.count, 8);
        assert_eq!((summary.min_ns, summary.p50_ns, summary.max_ns), (Some(2), Some(4), Some(9)));
        assert!((summary.mean_ns.unwrap() - 5.0).abs() < 1e-9);
        assert!((summary.stddev_ns.unwrap() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn percentiles_are_ranks_within_a_thousandth() {
        let latencies = of((1..=10_000).map(|i| i * 1_000));
        for (name, quantile) in QUANTILES {
            let want = quantile * 10_000_000.0;
            #[allow(clippy::cast_precision_loss)]
            let got = latencies.quantile_ns(quantile).unwrap() as f64;
            assert!((got - want).abs() / want < 0.001, "{name}: {got} for {want}");
        }
    }

    #[test]
    fn sample_minima_are_the_published_ones() {
        assert_eq!(QUANTILES.map(|(_, q)| samples_min(q)), [6, 36, 72, 368, 3688]);
        for (quantile, least) in [(0.95, 72), (0.99, 368), (0.999, 3688)] {
            assert_eq!(of((0..least - 1).map(|_| 5)).quantile_ns(quantile), None);
            assert_eq!(of((0..least).map(|_| 5)).quantile_ns(quantile), Some(5));
        }
    }

    #[test]
    fn nothing_recorded_says_nothing() {
        assert_eq!(Latencies::new().summary(), Latency::default());
        assert_eq!(of([7]).summary().stddev_ns, None);
    }

    #[test]
    fn beyond_the_range_saturates() {
        let latencies = of([u64::MAX, 0]);
        assert_eq!(latencies.count(), 2);
        assert!(latencies.summary().max_ns.unwrap() >= NS_MAX);
        assert_eq!(latencies.summary().min_ns, Some(1));
    }

    #[test]
    fn the_encoded_histogram_reads_back() {
        let latencies = of((1..5000).map(|i| i * i));
        let back = Latencies::decode(&latencies.encode()).unwrap();
        assert_eq!(back.summary(), latencies.summary());
        assert!(Latencies::decode("AAAA").is_none() && Latencies::decode("?").is_none());
    }

    #[test]
    fn merging_is_recording_both() {
        let mut one = of([1, 2, 3]);
        one.merge(&of([10, 20]));
        assert_eq!(one.summary(), of([1, 2, 3, 10, 20]).summary());
    }
}
