//! What is compared.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Latency;

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Metric {
    /// Successful calls per second.
    Throughput,
    /// The median latency in nanoseconds.
    P50,
    /// The 90th percentile in nanoseconds.
    P90,
    /// The 95th percentile in nanoseconds.
    P95,
    /// The 99th percentile in nanoseconds.
    P99,
    /// The 99.9th percentile in nanoseconds.
    #[serde(rename = "p99.9")]
    P999,
    /// CPU of the server's processes per call, in nanoseconds.
    CpuPerCall,
}

impl Metric {
    /// All of them, in the order of a table.
    pub const ALL: [Self; 7] = [
        Self::Throughput,
        Self::P50,
        Self::P90,
        Self::P95,
        Self::P99,
        Self::P999,
        Self::CpuPerCall,
    ];

    /// Its name in tables and assertions.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::CpuPerCall => "cpu_per_call",
        }
    }

    /// Whether more of it is better.
    #[must_use]
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput)
    }

    /// Its value in a run.
    #[must_use]
    pub fn of(self, throughput_per_s: f64, latency: &Latency, cpu_ns: Option<f64>) -> Option<f64> {
        let ns = |value: Option<u64>| value.map(|ns| ns as f64);
        match self {
            Self::Throughput => Some(throughput_per_s),
            Self::P50 => ns(latency.p50_ns),
            Self::P90 => ns(latency.p90_ns),
            Self::P95 => ns(latency.p95_ns),
            Self::P99 => ns(latency.p99_ns),
            Self::P999 => ns(latency.p99_9_ns),
            Self::CpuPerCall => cpu_ns,
        }
    }

    /// A value with its unit: `12,300/s`, `1.25 ms`; a difference keeps its sign.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Throughput => format!("{}/s", thousands(value)),
            _ => time(value),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

fn time(ns: f64) -> String {
    let (scale, unit) = match ns.abs() {
        size if size < 1e3 => (1.0, "ns"),
        size if size < 1e6 => (1e3, "µs"),
        size if size < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let digits = match (ns / scale).abs() {
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    format!("{:.digits$} {unit}", ns / scale)
}

fn thousands(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut shown = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_units() {
        assert_eq!(Metric::Throughput.show(1_234_567.8), "1,234,568/s");
        assert_eq!(Metric::Throughput.show(-1234.0), "-1,234/s");
        assert_eq!(Metric::Throughput.show(12.34), "12.3/s");
        assert_eq!(Metric::P99.show(1_250_000.0), "1.25 ms");
        assert_eq!(Metric::P50.show(-12_340.0), "-12.3 µs");
        assert_eq!(Metric::P50.show(987.0), "987 ns");
    }

    #[test]
    fn its_name_is_the_one_in_json() {
        for metric in Metric::ALL {
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.as_str());
        }
    }
}
