//! The load of a run.

use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::words::Words;
use super::{PlanInfo, Shape};
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
    pub fn rate_per_s(&self) -> f64 {
        self.shape.curve().mean_per_s()
    }
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

impl PlanInfo {
    /// Calls in flight that were asked for. A file may hold any number.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.concurrency.saturating_mul(self.sessions)
    }

    /// The load in words.
    pub(crate) fn load_in(&self, words: Words) -> String {
        if let Some(arrivals) = &self.arrivals {
            return self.begun_at(&arrivals.shape.curve().told(words), arrivals, words);
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
    use crate::results::shape::{Burst, Ramp, Rate};
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
        let rate = Shape::Rate(Rate { per_s: 300.0 });
        let ramp = Shape::Ramp(Ramp { from_per_s: 100.0, to_per_s: 2_000.0 });
        let burst = Shape::Burst(Burst { calls: 50, every_ns: 500_000_000 });
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
