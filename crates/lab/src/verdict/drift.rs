//! Whether a figure drifts: its trend over time, and the limits that earlier systems set for it.

use serde::{Deserialize, Serialize};

use crate::results::Series;
use crate::stats::{Interval, LEVEL, MannKendall, mann_kendall, median, theil_sen};

/// Most points that a trend is computed from. More are first merged, neighbours into their medians,
/// so that time and memory stay the same however long the run was.
const POINTS_MAX: usize = 300;

/// Fewest points that show a trend.
const POINTS_MIN: usize = 8;

/// The probability below which a trend is not taken for chance.
pub(super) const CHANCE: f64 = 0.05;

/// 1 MiB per minute: a leak.
const LEAK_BYTES_PER_MIN: f64 = 1024.0 * 1024.0;

/// A figure at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "two numbers")]
pub struct Point {
    /// Seconds since the measurement began.
    pub at_s: f64,
    /// The figure, of the window that ended then.
    pub value: f64,
}

/// Which way it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "there is no fourth way")]
pub enum Trend {
    /// Upwards, and not by chance.
    Rising,
    /// Downwards, and not by chance.
    Falling,
    /// Neither was seen.
    None,
}

/// A limit that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Flag {
    /// The throughput falls by more than 5 % of its level per minute.
    ThroughputFalls,
    /// Memory rises by more than 1 MiB per minute.
    Leak,
    /// The 99th percentile rises by more than 10 % of its level per minute.
    LatencyRises,
    /// Memory at the end is above that at the beginning by more than 15 %.
    MemoryGrew,
    /// File descriptors grew.
    DescriptorsGrew,
    /// There are more or fewer threads at the end than at the beginning.
    ThreadsChanged,
    /// The 99th percentile at the end is more than twice that at the beginning.
    LatencyDoubled,
}

/// What became of a figure over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Drift {
    /// Which figure.
    pub series: Series,
    /// Points that the trend was computed from, after merging.
    pub points: usize,
    /// Theil and Sen's slope in the figure's unit per minute, with its 95 % interval.
    pub slope_per_min: Interval,
    /// The slope by the median of the series, as a fraction per minute.
    pub slope_relative_per_min: Option<f64>,
    /// Mann and Kendall's test.
    pub test: MannKendall,
    /// Which way it goes: by that test, at 5 %.
    pub trend: Trend,
    /// The median of the first tenth of the points, at least three.
    pub first: f64,
    /// The median of the last tenth.
    pub last: f64,
    /// The limits that it passed.
    pub flags: Vec<Flag>,
}

/// Judges a series, in the order of time and without its warm-up. A limit per minute is passed when
/// there is a trend and its slope is beyond the limit; a limit between beginning and end is passed by
/// the medians there. `None` with fewer than eight points, or ones that are not finite.
#[must_use]
pub fn drift(series: Series, points: &[Point]) -> Option<Drift> {
    if points.len() < POINTS_MIN
        || points.iter().any(|point| !point.at_s.is_finite() || !point.value.is_finite())
    {
        return None;
    }
    let points = merged(points);
    let in_minutes: Vec<_> = points.iter().map(|point| (point.at_s / 60.0, point.value)).collect();
    let values: Vec<_> = points.iter().map(|point| point.value).collect();
    let slope = theil_sen(&in_minutes, LEVEL)?;
    let test = mann_kendall(&values)?;
    let trend = match test.p < CHANCE {
        true if test.s > 0 => Trend::Rising,
        true => Trend::Falling,
        false => Trend::None,
    };
    let level = median(&values)?;
    let part = (values.len() / 10).max(3);
    let first = median(values.get(..part)?)?;
    let last = median(values.get(values.len() - part..)?)?;
    let mut drift = Drift {
        series,
        points: points.len(),
        slope_per_min: slope,
        slope_relative_per_min: (level > 0.0).then(|| slope.value / level),
        test,
        trend,
        first,
        last,
        flags: Vec::new(),
    };
    drift.flags = drift.passed();
    Some(drift)
}

impl Drift {
    #[allow(clippy::float_cmp, reason = "counts are whole")]
    fn passed(&self) -> Vec<Flag> {
        let (first, last, trend) = (self.first, self.last, self.trend);
        let relative = self.slope_relative_per_min.unwrap_or(0.0);
        let slope = self.slope_per_min.value;
        let limits: &[(Flag, bool)] = match self.series {
            Series::Throughput => {
                &[(Flag::ThroughputFalls, trend == Trend::Falling && relative < -0.05)]
            }
            Series::P99 => &[
                (Flag::LatencyRises, trend == Trend::Rising && relative > 0.10),
                (Flag::LatencyDoubled, last > 2.0 * first),
            ],
            Series::Rss => &[
                (Flag::Leak, trend == Trend::Rising && slope > LEAK_BYTES_PER_MIN),
                (Flag::MemoryGrew, last > 1.15 * first),
            ],
            Series::Fds => &[(Flag::DescriptorsGrew, last > first)],
            Series::Threads => &[(Flag::ThreadsChanged, last != first)],
        };
        limits.iter().filter(|(_, passed)| *passed).map(|(flag, _)| *flag).collect()
    }
}

/// Neighbours merged into their medians, until there are few enough.
fn merged(points: &[Point]) -> Vec<Point> {
    let each = points.len().div_ceil(POINTS_MAX);
    if each == 1 {
        return points.to_vec();
    }
    let middle = |part: &[Point]| {
        let of = |value: fn(&Point) -> f64| median(&part.iter().map(value).collect::<Vec<_>>());
        Some(Point { at_s: of(|point| point.at_s)?, value: of(|point| point.value)? })
    };
    points.chunks(each).filter_map(middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;

    const MIB: f64 = 1024.0 * 1024.0;

    /// One point a second, with 2 % of noise.
    fn of(series: Series, seconds: u32, value: impl Fn(f64) -> f64) -> Drift {
        let mut rng = Rng::new(11);
        let point = |s| {
            let at_s = f64::from(s);
            Point { at_s, value: value(at_s / 60.0) * (1.0 + 0.02 * rng.normal()) }
        };
        drift(series, &(0..seconds).map(point).collect::<Vec<_>>()).unwrap()
    }

    /// The same without noise: counts.
    fn counted(series: Series, value: impl Fn(u32) -> u32) -> Vec<Flag> {
        let point = |s| Point { at_s: f64::from(s), value: f64::from(value(s)) };
        drift(series, &(0..120).map(point).collect::<Vec<_>>()).unwrap().flags
    }

    #[test]
    fn steady_figures_pass() {
        for series in [Series::Throughput, Series::P99, Series::Rss] {
            let drift = of(series, 300, |_| 100.0 * MIB);
            assert_eq!(drift.flags, [], "{drift:?}");
        }
        assert_eq!(counted(Series::Fds, |_| 12), []);
        assert_eq!(counted(Series::Threads, |_| 4), []);
    }

    #[test]
    fn a_throughput_that_falls_is_flagged() {
        let drift = of(Series::Throughput, 300, |min| 1000.0 * (1.0 - 0.08 * min));
        assert_eq!(
            (drift.trend, drift.flags.as_slice()),
            (Trend::Falling, &[Flag::ThroughputFalls][..])
        );
        let slope = drift.slope_per_min;
        assert!((slope.value + 80.0).abs() < 8.0 && slope.contains(-80.0), "{slope:?}");
        assert_eq!(of(Series::Throughput, 300, |min| 1000.0 * (1.0 - 0.02 * min)).flags, []);
    }

    #[test]
    fn a_leak_is_flagged_and_a_step_is_growth() {
        assert_eq!(
            of(Series::Rss, 600, |min| (50.0 + 2.0 * min) * MIB).flags,
            [Flag::Leak, Flag::MemoryGrew]
        );
        assert_eq!(of(Series::Rss, 600, |min| (500.0 + 0.2 * min) * MIB).flags, []);
        let step = of(Series::Rss, 600, |min| if min < 9.0 { 50.0 * MIB } else { 70.0 * MIB });
        assert!(step.flags.contains(&Flag::MemoryGrew), "{step:?}");
    }

    #[test]
    fn a_latency_that_rises_is_flagged() {
        assert_eq!(of(Series::P99, 120, |min| 1e6 * (1.0 + 0.3 * min)).flags, [Flag::LatencyRises]);
        let doubled = of(Series::P99, 1200, |min| 1e6 * (1.0 + 0.09 * min)).flags;
        assert_eq!(doubled, [Flag::LatencyDoubled]);
    }

    #[test]
    fn counts_may_not_grow() {
        assert_eq!(counted(Series::Fds, |s| 12 + s / 40), [Flag::DescriptorsGrew]);
        assert_eq!(counted(Series::Fds, |s| 12 - s / 40), []);
        assert_eq!(counted(Series::Threads, |s| 5 - s / 60), [Flag::ThreadsChanged]);
        // One more for a moment is not growth.
        assert_eq!(counted(Series::Fds, |s| 12 + u32::from(s == 60)), []);
    }

    #[test]
    fn a_long_run_takes_no_more_than_a_short_one() {
        let drift = of(Series::Rss, 20_000, |_| 80.0 * MIB);
        assert!((POINTS_MAX / 2..=POINTS_MAX).contains(&drift.points), "{}", drift.points);
        assert_eq!(drift.flags, []);
    }

    #[test]
    fn too_little_is_not_judged() {
        let points = [Point { at_s: 0.0, value: 1.0 }; 7];
        assert!(drift(Series::Rss, &points).is_none());
        let points = [Point { at_s: 0.0, value: f64::NAN }; 20];
        assert!(drift(Series::Rss, &points).is_none());
    }
}
