//! Whether the figures of a run drift.

use crate::results::{Drifting, ResourceSecond, Results, Run, Second, Series};
use crate::verdict::drift::CHANCE;
use crate::verdict::{Flag, Point, drift};

/// Fewest intervals that are judged: a trend of less is the weather.
const INTERVALS_MIN: usize = 30;

impl Drifting {
    /// Every figure of a side with 30 intervals or more. Its last interval is cut off by the end and
    /// left out.
    pub(crate) fn all(results: &Results) -> Vec<Self> {
        let series = [Series::Throughput, Series::P99, Series::Rss, Series::Fds, Series::Threads];
        series.into_iter().filter_map(|metric| Self::of(metric, &points(metric, results))).collect()
    }

    /// What cannot be told beside these figures, and why.
    pub(crate) fn untold(all: &[Self]) -> Option<String> {
        let told = all.iter().any(|drift| drift.metric == Series::P99);
        (!told).then(|| {
            format!("p99 n/a (fewer than {INTERVALS_MIN} intervals have calls enough for one)")
        })
    }

    fn of(metric: Series, points: &[Point]) -> Option<Self> {
        if points.len() < INTERVALS_MIN {
            return None;
        }
        let drift = drift(metric, points)?;
        let why: Vec<_> = drift.flags.iter().map(|flag| words(*flag)).collect();
        Some(Self {
            metric,
            slope_per_min: drift.slope_per_min.value,
            interval: [drift.slope_per_min.low, drift.slope_per_min.high],
            slope_relative_per_min: drift.slope_relative_per_min,
            p: drift.test.p,
            flagged: !why.is_empty(),
            why: (!why.is_empty()).then(|| why.join("; ")),
        })
    }

    /// Whether a limit was passed, and there is a trend that chance does not explain.
    #[must_use]
    pub fn is_beyond_chance(&self) -> bool {
        self.flagged && self.p < CHANCE
    }

    /// `memory +0.02 MiB/min`.
    #[must_use]
    pub fn text(&self) -> String {
        let percent = |name| match self.slope_relative_per_min {
            Some(relative) => format!("{name} {:+.1} %/min", no_minus_zero(100.0 * relative, 1)),
            None => format!("{name} {:+.3}/min", self.slope_per_min),
        };
        let number = |name| format!("{name} {:+.1}/min", no_minus_zero(self.slope_per_min, 1));
        let text = match self.metric {
            Series::Throughput => percent("throughput"),
            Series::P99 => percent("p99"),
            Series::Rss => {
                let mib = no_minus_zero(self.slope_per_min / 1_048_576.0, 2);
                format!("memory {mib:+.2} MiB/min")
            }
            Series::Fds => number("fds"),
            Series::Threads => number("threads"),
        };
        self.why.iter().fold(text, |text, why| format!("{text} ({why})"))
    }
}

impl Run {
    /// What the target holds more and more of, memory or descriptors, and how fast.
    #[must_use]
    pub fn leak(&self) -> Option<String> {
        let grows = |drift: &&Drifting| {
            matches!(drift.metric, Series::Rss | Series::Fds)
                && drift.slope_per_min > 0.0
                && drift.is_beyond_chance()
        };
        self.drift.iter().find(grows).map(Drifting::text)
    }
}

/// What would print as `-0.0`, without its sign.
fn no_minus_zero(value: f64, digits: i32) -> f64 {
    if value.abs() < 0.5 * 0.1_f64.powi(digits) { 0.0 } else { value }
}

#[allow(clippy::cast_precision_loss, reason = "what is counted is below 2^53")]
fn points(metric: Series, results: &Results) -> Vec<Point> {
    let at = |end_ns: u64, value: f64| Point { at_s: end_ns as f64 / 1e9, value };
    let calls = |value: fn(&Second) -> Option<f64>| {
        let (_, whole) = results.seconds.split_last()?;
        let point = |second: &Second| Some(at(second.start_ns + second.length_ns, value(second)?));
        Some(whole.iter().filter_map(point).collect())
    };
    let processes = |value: fn(&ResourceSecond) -> u64| {
        let (_, whole) = results.resources_seconds.split_last()?;
        let point = |row: &ResourceSecond| at(row.start_ns + row.length_ns, value(row) as f64);
        Some(whole.iter().map(point).collect())
    };
    let points: Option<Vec<_>> = match metric {
        Series::Throughput => {
            calls(|second| Some(second.calls_ok as f64 / (second.length_ns.max(1) as f64 / 1e9)))
        }
        Series::P99 => calls(|second| second.p99_ns.map(|ns| ns as f64)),
        Series::Rss => processes(|row| row.rss_bytes),
        Series::Fds => processes(|row| row.fds),
        Series::Threads => processes(|row| row.threads),
    };
    points.unwrap_or_default()
}

const fn words(flag: Flag) -> &'static str {
    match flag {
        Flag::ThroughputFalls => "falls by more than 5 % per minute",
        Flag::Leak => "a leak: rises by more than 1 MiB per minute",
        Flag::LatencyRises => "rises by more than 10 % per minute",
        Flag::MemoryGrew => "grew by more than 15 % from beginning to end",
        Flag::DescriptorsGrew => "grew from beginning to end",
        Flag::ThreadsChanged => "changed from beginning to end",
        Flag::LatencyDoubled => "more than doubled from beginning to end",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Style;
    use crate::results::tests::sample;
    use crate::results::{Environment, Report};
    use crate::verdict::{Assertions, Facts};

    const S: u64 = 1_000_000_000;
    const MIB: u64 = 1 << 20;

    /// A side that was measured for so many seconds and leaks so much in each.
    fn side(seconds: u64, leak: u64) -> Results {
        let mut results = sample(2_000, false).results;
        results.seconds = (0..seconds)
            .map(|second| Second {
                start_ns: second * S,
                length_ns: S,
                calls_ok: 1000 + second % 3,
                errors: results.errors,
                p50_ns: Some(1000),
                p99_ns: Some(2000 + 10 * (second % 4)),
                latency_histogram: String::new(),
            })
            .collect();
        let row = |second| {
            let mut row = ResourceSecond::default();
            (row.start_ns, row.length_ns) = (second * S, S);
            (row.rss_bytes, row.fds, row.threads) = (100 * MIB + second * leak, 9, 4);
            row
        };
        results.resources_seconds = (0..seconds).map(row).collect();
        results
    }

    #[test]
    fn a_steady_run_has_its_slopes_and_no_flag() {
        let all = Drifting::all(&side(61, 0));
        assert_eq!(all.len(), 5);
        assert!(all.iter().all(|drift| !drift.flagged && drift.why.is_none()), "{all:?}");
        let text: Vec<_> = all.iter().map(Drifting::text).collect();
        let want = ["throughput +0.0 %/min", "p99 +0.0 %/min", "memory +0.00 MiB/min"];
        assert_eq!(text[..3], want);
        assert_eq!(text[3..], ["fds +0.0/min", "threads +0.0/min"]);
    }

    #[test]
    fn a_leak_is_named() {
        let all = Drifting::all(&side(61, MIB / 10));
        let memory = all.iter().find(|drift| drift.metric == Series::Rss).unwrap();
        assert!(memory.flagged && memory.p < 1e-6, "{memory:?}");
        assert!((memory.slope_per_min - 6.0 * MIB as f64).abs() < 100.0, "{memory:?}");
        assert!(memory.interval[0] <= memory.slope_per_min);
        let text = memory.text();
        assert!(text.starts_with("memory +6.00 MiB/min (a leak"), "{text}");
        assert_eq!(all.iter().filter(|drift| drift.flagged).count(), 1);
    }

    #[test]
    fn a_leak_decides_and_one_that_may_be_chance_does_not() {
        let mut run = sample(2_000, false);
        run.results.errors = Default::default();
        run.drift = Drifting::all(&side(61, 0));
        assert_eq!(run.leak(), None);
        let of = |run: &Run| {
            "drift=none".parse::<Assertions>().unwrap().check(&Facts::from(run))[0].clone()
        };
        assert_eq!((of(&run).holds, of(&run).measured.as_str()), (Some(true), "none"));
        run.drift = Drifting::all(&side(61, MIB / 10));
        assert!(run.leak().is_some_and(|leak| leak.starts_with("memory +6.00 MiB/min")));
        assert_eq!((of(&run).holds, of(&run).measured.as_str()), (Some(false), "1 drifting"));
        run.drift.iter_mut().for_each(|drift| drift.p = 0.06);
        assert_eq!(run.leak(), None);
        run.drift.clear();
        assert_eq!(of(&run).holds, None, "too short to tell");
    }

    #[test]
    fn a_p99_of_too_few_calls_is_said_to_be_missing() {
        let mut run = sample(2_000, false);
        run.results = side(61, 0);
        run.results.seconds.iter_mut().skip(20).for_each(|second| second.p99_ns = None);
        run.drift = Drifting::all(&run.results);
        let text = Report::new(Environment::look(), vec![run.clone()]).to_text(Style::default());
        assert!(text.contains("throughput +0.0 %/min") && text.contains("p99 n/a"), "{text}");
        run.results = side(61, 0);
        assert_eq!(Drifting::untold(&Drifting::all(&run.results)), None);
    }

    #[test]
    fn a_short_run_is_not_judged() {
        assert!(Drifting::all(&side(30, MIB)).is_empty(), "29 whole intervals");
        assert_eq!(Drifting::all(&side(31, MIB)).len(), 5);
    }
}
