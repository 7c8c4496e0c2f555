//! Limits that a user wrote: `p99<5ms,errors=0,throughput>=1000/s`.
//!
//! ```text
//! assertions = assertion *( "," assertion )
//! assertion  = name ( "<" | "<=" | ">" | ">=" | "=" | "==" ) number [unit]
//! ```
//!
//! | name | unit |
//! |---|---|
//! | `p50` `p90` `p95` `p99` `p99.9` `mean` `max` `cpu_per_call` | `ns` `us` `µs` `ms` `s`, needed |
//! | `throughput` | `/s`, or none |
//! | `errors` | none: failed calls |
//! | `error_rate` | `%`, or none for a fraction |
//! | `rss` | `B` `KiB` `MiB` `GiB`, needed |
//! | `drift` | only `drift=none`: no figure has a trend beyond its limit |

use std::fmt;
use std::str::FromStr;

use crate::results::{Checked, Latency, Metric, QUANTILES, Report, Results, Run, samples_min};

/// Most assertions on a line.
const ASSERTIONS_MAX: usize = 64;

/// Limits, parsed.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Assertions(Vec<Assertion>);

/// The figures of a run that assertions may name.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller fills in")]
pub struct Facts {
    /// Successful calls per second.
    pub throughput_per_s: Option<f64>,
    /// Latency of successful calls.
    pub latency: Latency,
    /// Calls that failed.
    pub errors: u64,
    /// Calls that ended, well or not.
    pub calls: u64,
    /// Greatest resident memory of the server in bytes.
    pub rss_bytes: Option<f64>,
    /// CPU of the server per call in nanoseconds.
    pub cpu_ns_per_call: Option<f64>,
    /// Figures that drift beyond their limits; `None` where the run was too short to tell.
    pub drifting: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
struct Assertion {
    text: String,
    name: Name,
    operator: Operator,
    limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Name {
    Metric(Metric),
    Mean,
    Max,
    Errors,
    ErrorRate,
    Rss,
    Drift,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
}

impl Assertions {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks each against a run.
    #[must_use]
    pub fn check(&self, facts: &Facts) -> Vec<Checked> {
        self.0.iter().map(|assertion| assertion.check(facts)).collect()
    }

    /// The fewest calls that say something about every percentile that is named.
    #[must_use]
    pub fn samples_min(&self) -> u64 {
        let quantile = |assertion: &Assertion| {
            let Name::Metric(metric) = assertion.name else { return None };
            QUANTILES.iter().find(|(name, _)| *name == metric.as_str()).map(|(_, q)| *q)
        };
        self.0.iter().filter_map(quantile).map(samples_min).max().unwrap_or(1)
    }
}

impl fmt::Display for Assertions {
    /// The assertions as they were written, with commas between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, assertion) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{}", assertion.text)?;
        }
        Ok(())
    }
}

impl FromStr for Assertions {
    type Err = String;

    /// Reads a list of assertions.
    ///
    /// # Errors
    /// A sentence that quotes the part at fault and says what it takes.
    fn from_str(text: &str) -> Result<Self, String> {
        let list: Vec<Assertion> =
            text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>()?;
        if list.len() > ASSERTIONS_MAX {
            return Err(format!("{} assertions; at most {ASSERTIONS_MAX}", list.len()));
        }
        Ok(Self(list))
    }
}

impl FromStr for Assertion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}`: an assertion is like p99<5ms or errors=0");
        let is_operator = |c: char| matches!(c, '<' | '>' | '=');
        let at = text.find(is_operator).ok_or_else(form)?;
        let (name, rest) = text.split_at(at);
        let value = rest.trim_start_matches(is_operator);
        let operator = match rest.strip_suffix(value).unwrap_or_default() {
            "<" => Operator::Less,
            "<=" => Operator::LessOrEqual,
            ">" => Operator::Greater,
            ">=" => Operator::GreaterOrEqual,
            "=" | "==" => Operator::Equal,
            _ => return Err(form()),
        };
        let name = Name::parse(name.trim()).ok_or_else(|| {
            let names = "throughput, p50, p90, p95, p99, p99.9, mean, max, errors, error_rate, \
                rss, cpu_per_call, drift";
            format!("`{text}`: there is no `{}`; there are {names}", name.trim())
        })?;
        let value = value.trim();
        if name == Name::Drift {
            let known = operator == Operator::Equal && value == "none";
            return match known {
                true => Ok(Self { text: text.to_owned(), name, operator, limit: 0.0 }),
                false => Err(format!("`{text}`: of drift one may only ask drift=none")),
            };
        }
        let digits = |c: char| c.is_ascii_digit() || c == '.';
        let unit = value.trim_start_matches(digits);
        let number = value.strip_suffix(unit).unwrap_or_default();
        let number: f64 =
            number.parse().map_err(|_| format!("`{text}`: `{value}` has no number"))?;
        let scale = name.scale(unit.trim()).ok_or_else(|| {
            format!("`{text}`: the unit is `{}`; it takes {}", unit.trim(), name.units())
        })?;
        Ok(Self { text: text.to_owned(), name, operator, limit: number * scale })
    }
}

impl Assertion {
    #[allow(clippy::float_cmp, reason = "that is what = asks for")]
    fn check(&self, facts: &Facts) -> Checked {
        let value = self.name.of(facts);
        let holds = value.map(|value| match self.operator {
            Operator::Less => value < self.limit,
            Operator::LessOrEqual => value <= self.limit,
            Operator::Greater => value > self.limit,
            Operator::GreaterOrEqual => value >= self.limit,
            Operator::Equal => value == self.limit,
        });
        let measured = value.map_or_else(|| "n/a".to_owned(), |value| self.name.show(value));
        Checked { text: self.text.clone(), measured, holds }
    }
}

impl Name {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "mean" => Self::Mean,
            "max" => Self::Max,
            "errors" => Self::Errors,
            "error_rate" => Self::ErrorRate,
            "rss" => Self::Rss,
            "drift" => Self::Drift,
            _ => Self::Metric(Metric::ALL.into_iter().find(|metric| metric.as_str() == name)?),
        })
    }

    fn of(self, facts: &Facts) -> Option<f64> {
        let latency = &facts.latency;
        match self {
            Self::Metric(Metric::Throughput) => facts.throughput_per_s,
            Self::Metric(metric) => metric.of(0.0, latency, facts.cpu_ns_per_call),
            Self::Mean => latency.mean_ns,
            Self::Max => latency.max_ns.map(|ns| ns as f64),
            Self::Errors => Some(facts.errors as f64),
            Self::ErrorRate => (facts.calls > 0).then(|| facts.errors as f64 / facts.calls as f64),
            Self::Rss => facts.rss_bytes,
            Self::Drift => facts.drifting.map(|count| count as f64),
        }
    }

    /// What a number with this unit is multiplied with.
    fn scale(self, unit: &str) -> Option<f64> {
        Some(match (self, unit) {
            (Self::Metric(Metric::Throughput), "/s" | "")
            | (Self::Errors | Self::ErrorRate, "") => 1.0,
            (Self::ErrorRate, "%") => 0.01,
            (Self::Rss, "B") => 1.0,
            (Self::Rss, "KiB") => 1024.0,
            (Self::Rss, "MiB") => 1024.0 * 1024.0,
            (Self::Rss, "GiB") => 1024.0 * 1024.0 * 1024.0,
            (Self::Metric(Metric::Throughput) | Self::Errors | Self::ErrorRate | Self::Rss, _) => {
                return None;
            }
            (_, "ns") => 1.0,
            (_, "us" | "µs" | "μs") => 1e3,
            (_, "ms") => 1e6,
            (_, "s") => 1e9,
            _ => return None,
        })
    }

    const fn units(self) -> &'static str {
        match self {
            Self::Metric(Metric::Throughput) => "/s or none",
            Self::Errors => "none",
            Self::ErrorRate => "% or none",
            Self::Rss => "B, KiB, MiB or GiB",
            _ => "ns, us, ms or s",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Metric(metric) => metric.show(value),
            Self::Mean | Self::Max => Metric::P50.show(value),
            Self::Errors => format!("{value}"),
            Self::ErrorRate => format!("{:.3} %", 100.0 * value),
            Self::Rss => format!("{:.1} MiB", value / (1024.0 * 1024.0)),
            Self::Drift if value == 0.0 => "none".to_owned(),
            Self::Drift => format!("{value} drifting"),
        }
    }
}

impl Report {
    /// The same, with assertions about each run.
    #[must_use]
    pub fn asserting(mut self, assertions: &Assertions) -> Self {
        if !assertions.is_empty() {
            let check = |run: &Run| assertions.check(&Facts::from(run));
            self.asserted = self.runs.iter().map(check).collect();
        }
        self
    }
}

impl From<&Run> for Facts {
    fn from(run: &Run) -> Self {
        let count = || run.drift.iter().filter(|drift| drift.is_beyond_chance()).count();
        let drifting = (!run.drift.is_empty()).then(count);
        Self { drifting, ..Self::from(&run.results) }
    }
}

impl From<&Results> for Facts {
    fn from(results: &Results) -> Self {
        let errors = results.errors.total();
        Self {
            throughput_per_s: Some(results.throughput_per_s),
            latency: results.latency.clone(),
            errors,
            calls: results.calls_ok + errors,
            rss_bytes: results.resources.rss_bytes_max.map(|bytes| bytes as f64),
            cpu_ns_per_call: results.resources.cpu_ns_per_call,
            drifting: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let latency = Latency {
            p50_ns: Some(1_000_000),
            p99_ns: Some(5_000_000),
            mean_ns: Some(1.5e6),
            max_ns: Some(9_000_000),
            ..Latency::default()
        };
        Facts {
            throughput_per_s: Some(1000.0),
            latency,
            errors: 2,
            calls: 1000,
            rss_bytes: Some(3.0 * 1024.0 * 1024.0),
            cpu_ns_per_call: None,
            drifting: Some(0),
        }
    }

    fn holds(text: &str) -> Option<bool> {
        text.parse::<Assertions>().unwrap().check(&facts())[0].holds
    }

    #[test]
    fn each_quantity_is_compared_in_its_unit() {
        for (text, want) in [
            ("p50<=1ms", true),
            ("p50<1000us", false),
            ("p50 < 1001 µs", true),
            ("p99<0.006s", true),
            ("p99>5000000ns", false),
            ("mean=1.5ms", true),
            ("max>=9ms", true),
            ("throughput>=1000/s", true),
            ("throughput>1000", false),
            ("errors=0", false),
            ("errors==2", true),
            ("error_rate<0.3%", true),
            ("error_rate<0.001", false),
            ("rss<=3MiB", true),
            ("rss<3071KiB", false),
            ("drift = none", true),
        ] {
            assert_eq!(holds(text), Some(want), "{text}");
        }
    }

    #[test]
    fn what_was_not_measured_cannot_be_told() {
        for text in ["p99.9<1s", "cpu_per_call<1ms"] {
            let checked = &text.parse::<Assertions>().unwrap().check(&facts())[0];
            assert_eq!((checked.holds, checked.measured.as_str()), (None, "n/a"), "{text}");
        }
    }

    #[test]
    fn the_strictest_percentile_says_how_many_calls_it_takes() {
        let least = |text: &str| text.parse::<Assertions>().unwrap().samples_min();
        assert_eq!(["errors=0", "p50<1s,p99<1s,p90<1s", "p99.9<1s"].map(least), [1, 368, 3688]);
        let text = "p99<5ms,errors=0";
        assert_eq!(text.parse::<Assertions>().unwrap().to_string(), text);
    }

    #[test]
    fn a_list_keeps_its_order() {
        let list = "p99<5ms, errors=0".parse::<Assertions>().unwrap().check(&facts());
        let texts: Vec<_> = list.iter().map(|checked| checked.text.as_str()).collect();
        assert_eq!(texts, ["p99<5ms", "errors=0"]);
        assert_eq!(list[0].measured, "5.00 ms");
    }

    #[test]
    fn what_is_wrong_is_quoted() {
        for (text, part) in [
            ("", "an assertion is like"),
            ("p99<5", "it takes ns, us, ms or s"),
            ("p99<5MiB", "`MiB`"),
            ("p98<5ms", "there is no `p98`"),
            ("p99=<5ms", "an assertion is like"),
            ("p99<ms", "no number"),
            ("p99<-1ms", "no number"),
            ("errors<1%", "takes none"),
            ("rss<5MB", "MiB"),
            ("p99<5ms,,", "``"),
        ] {
            let error = text.parse::<Assertions>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
