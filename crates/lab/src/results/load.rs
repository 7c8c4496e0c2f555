//! The load of a run.

use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PlanInfo;
use crate::text;

/// The arrivals of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller fills in")]
pub struct Arrivals {
    /// How many, and when.
    #[serde(flatten)]
    pub shape: Shape,
    /// How they are spread.
    pub spacing: Spacing,
    /// What the random spacing begins from: the same seed gives the same instants.
    pub seed: u64,
}

impl Arrivals {
    /// Calls per second, averaged over the run.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
    pub fn rate_per_s(&self) -> f64 {
        match self.shape {
            Shape::Rate { per_s } => per_s,
            Shape::Ramp { from_per_s, to_per_s } => f64::midpoint(from_per_s, to_per_s),
            Shape::Burst { calls, every_ns } => calls as f64 * 1e9 / every_ns as f64,
        }
    }
}

/// How the rate goes.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "plain data that the caller fills in")]
pub enum Shape {
    /// The same all the time.
    Rate {
        /// Calls per second.
        per_s: f64,
    },
    /// Evenly from one rate to another over the whole run.
    Ramp {
        /// Calls per second at the start.
        from_per_s: f64,
        /// Calls per second at the end.
        to_per_s: f64,
    },
    /// Many calls at once, again and again, the first ones at the start.
    Burst {
        /// Calls of one burst.
        calls: u64,
        /// Nanoseconds from one burst to the next.
        every_ns: u64,
    },
}

/// How arrivals are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "plain data that the caller fills in")]
pub enum Spacing {
    /// Evenly.
    #[default]
    Constant,
    /// As those of many callers who do not know of each other.
    Poisson,
}

impl FromStr for Spacing {
    type Err = String;

    /// The name that results have for it.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "constant" => Ok(Self::Constant),
            "poisson" => Ok(Self::Poisson),
            _ => Err("constant or poisson".to_owned()),
        }
    }
}

/// How long users think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller fills in")]
pub struct Think {
    /// The mean, in nanoseconds.
    pub mean_ns: u64,
    /// Whether times are drawn from an exponential distribution; otherwise all are the mean.
    pub exponential: bool,
}

/// How a load is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// In few words: `32 in flight`, `1,000/s`, `ramp 100..2,000/s`.
    Short,
    /// In many, up to the number in flight: `open loop, 1,000 calls/s, at most `.
    Long,
    /// Exactly: `×32`, `@1000/s ≤1024`. The seed of random arrivals is not in it: with another, the
    /// load is the same.
    Exact,
    /// As a part of a name: `32`, `500_per_s`, `ramp_100_2000_per_s`.
    Name,
}

impl PlanInfo {
    /// Calls in flight that were asked for. A file may hold any number.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.concurrency.saturating_mul(self.sessions)
    }

    /// The load in words.
    pub(crate) fn load_in(&self, words: Words) -> String {
        if let Some(arrivals) = &self.arrivals {
            return self.begun_at(&arrivals.shape.told(words), arrivals, words);
        }
        let think = self.think.map(|think| think.told(words)).unwrap_or_default();
        let many = self.in_flight();
        match words {
            Words::Short => format!("{many} in flight{think}"),
            Words::Long => format!("closed loop{think}, "),
            Words::Exact => format!("×{many}{think}"),
            Words::Name => as_name(&format!("{many}{think}")),
        }
    }

    /// The load of an open loop whose shape is told like this.
    pub(crate) fn begun_at(&self, shape: &str, arrivals: &Arrivals, words: Words) -> String {
        let Arrivals { spacing, seed, .. } = arrivals;
        let random = |text: &str| match spacing {
            Spacing::Constant => String::new(),
            Spacing::Poisson => text.to_owned(),
        };
        match words {
            Words::Short => shape.to_owned() + &random(" poisson"),
            Words::Long => {
                let random = random(&format!(", Poisson (seed {seed})"));
                format!("open loop, {shape}{random}, at most ")
            }
            Words::Exact => format!("@{shape}{} ≤{}", random(" poisson"), self.in_flight()),
            Words::Name => as_name(&(shape.to_owned() + &random("_poisson"))),
        }
    }
}

impl Shape {
    fn told(self, words: Words) -> String {
        let exact = |per_s: f64| match words {
            Words::Exact => per_s.to_string(),
            Words::Name => ((per_s * 1e3).round() / 1e3).to_string(),
            Words::Short | Words::Long => text::rate(per_s),
        };
        match (self, words) {
            (Self::Rate { per_s }, Words::Short | Words::Exact) => format!("{}/s", exact(per_s)),
            (Self::Rate { per_s }, Words::Long) => format!("{} calls/s", exact(per_s)),
            (Self::Rate { per_s }, Words::Name) => format!("{}_per_s", exact(per_s)),
            (Self::Ramp { from_per_s, to_per_s }, _) => {
                let (from, to) = (exact(from_per_s), exact(to_per_s));
                match words {
                    Words::Short => format!("ramp {from}..{to}/s"),
                    Words::Long => format!("{from} to {to} calls/s"),
                    Words::Exact => format!("{from}..{to}/s"),
                    Words::Name => format!("ramp_{from}_{to}_per_s"),
                }
            }
            (Self::Burst { calls, every_ns }, _) => {
                let (many, every) = (text::count(calls), Duration::from_nanos(every_ns));
                match words {
                    Words::Short => format!("burst of {many} every {}", short_time(every_ns)),
                    Words::Long => {
                        let every = text::time(text::ns(Some(every_ns)));
                        format!("{many} calls at once every {every}")
                    }
                    Words::Exact => format!("{calls}/{every:?}"),
                    Words::Name => format!("burst_{calls}_every_{every:?}"),
                }
            }
        }
    }
}

impl Think {
    /// How long users think, behind the number in flight.
    fn told(self, words: Words) -> String {
        let (mean, random) = (Duration::from_nanos(self.mean_ns), self.exponential);
        match words {
            Words::Short | Words::Long => {
                let random = if random { "exponential " } else { "" };
                format!(", thinking {random}{}", short_time(self.mean_ns))
            }
            Words::Exact => format!(" think {}{mean:?}", if random { "~" } else { "" }),
            Words::Name => {
                format!("_thinking{}_{mean:?}", if random { "_exponential" } else { "" })
            }
        }
    }
}

fn as_name(text: &str) -> String {
    text.replace(['.', '-'], "_").replace('µ', "u")
}

#[allow(clippy::cast_precision_loss, reason = "three digits are printed")]
fn short_time(ns: u64) -> String {
    text::short_time(ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{begun_at, sample};

    #[test]
    fn every_load_has_a_name_of_its_own() {
        let opened = |shape, spacing| {
            let mut run = begun_at(300.0, 100, 0);
            run.plan.arrivals = Some(Arrivals { shape, spacing, seed: 1 });
            run
        };
        let thinking = |exponential: Option<bool>| {
            let mut run = sample(100, false);
            run.plan.concurrency = 32;
            run.plan.think =
                exponential.map(|exponential| Think { mean_ns: 5_000_000, exponential });
            run
        };
        let rate = Shape::Rate { per_s: 300.0 };
        let ramp = Shape::Ramp { from_per_s: 100.0, to_per_s: 2_000.0 };
        let burst = Shape::Burst { calls: 50, every_ns: 500_000_000 };
        for (run, words, word) in [
            (opened(rate, Spacing::Constant), "300/s", "300_per_s"),
            (opened(rate, Spacing::Poisson), "300/s poisson", "300_per_s_poisson"),
            (opened(ramp, Spacing::Constant), "ramp 100..2,000/s", "ramp_100_2000_per_s"),
            (opened(burst, Spacing::Constant), "burst of 50 every 500 ms", "burst_50_every_500ms"),
            (thinking(None), "32 in flight", "32"),
            (thinking(Some(false)), "32 in flight, thinking 5 ms", "32_thinking_5ms"),
            (
                thinking(Some(true)),
                "32 in flight, thinking exponential 5 ms",
                "32_thinking_exponential_5ms",
            ),
        ] {
            let told = [Words::Short, Words::Name].map(|words| run.plan.load_in(words));
            assert_eq!(told, [words, word]);
        }
        // A hundred calls in a second, of three hundred that were meant.
        let random = opened(rate, Spacing::Poisson);
        assert_eq!(
            (random.load_size(), opened(rate, Spacing::Constant).load_size()),
            (100.0, 300.0)
        );
    }
}
