//! Several targets measured in turns: everything that `mcplane compare` found out.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Environment, Metric, Run};
use crate::stats::{Bootstrap, Interval, MannWhitney};

/// The format of the JSON that this version writes.
pub(super) const COMPARE_SCHEMA: &str = "mcplane.compare/1";

/// What was found out about targets that were measured in turns.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Contest {
    /// `mcplane.compare/1`.
    pub schema: String,
    /// The machine.
    pub environment: Environment,
    /// The least effect that matters, as a fraction.
    pub effect: f64,
    /// Pairs of runs: runs of each side.
    pub pairs: usize,
    /// A, with which the others are compared, then those, and A again if it was calibrated.
    pub sides: Vec<Side>,
    /// The runs of all sides, side after side, each in the order of time.
    pub runs: Vec<Run>,
}

impl Contest {
    pub(crate) fn of(
        environment: Environment,
        effect: f64,
        pairs: usize,
        sides: Vec<Side>,
        runs: Vec<Run>,
    ) -> Self {
        Self { schema: COMPARE_SCHEMA.to_owned(), environment, effect, pairs, sides, runs }
    }
}

/// One target and how it compares with A.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Side {
    /// `A`, `B`, …
    pub name: String,
    /// What part it has.
    pub role: Role,
    /// The command line or address.
    pub target: String,
    /// Its transport and revision.
    pub spoken: String,
    /// How many of the contest's runs are its own.
    pub runs: usize,
    /// Calls that failed, in all of its runs.
    pub errors: u64,
    /// What the first failure looked like.
    pub first_failure: Option<String>,
    /// The median of the runs' greatest resident memory, in bytes.
    pub rss_bytes: Option<f64>,
    /// The median of the runs' most processes.
    pub processes: Option<f64>,
    /// Against A; empty for A itself. A figure that fewer than three pairs have is left out.
    pub comparisons: Vec<Comparison>,
}

/// The part of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "a side is one of these")]
pub enum Role {
    /// What the others are compared with.
    Base,
    /// Compared with it.
    Rival,
    /// The base reached through a gateway.
    Gateway,
    /// The base once more, to see the machine's noise.
    Calibration,
}

/// One figure of two sides, A and B.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Comparison {
    /// What is compared.
    pub metric: Metric,
    /// Whether each sample of A belongs to one of B. If not, they were measured apart.
    pub paired: bool,
    /// Samples of A; runs where they are paired.
    pub samples: usize,
    /// The median of A.
    pub a: f64,
    /// The median of B.
    pub b: f64,
    /// B by A: the typical ratio with its 95 % interval, on which the verdict rests.
    pub ratio: Interval,
    /// B by A as a ratio of medians with bootstrapped intervals, for a second opinion.
    pub medians: Option<Bootstrap>,
    /// B − A in the metric's unit: Hodges and Lehmann's estimate with its 95 % interval.
    pub shift: Option<Interval>,
    /// Whether both have one distribution.
    pub mann_whitney: Option<MannWhitney>,
    /// The noise of a single run, as a fraction: what one run differs from the next by.
    pub noise: f64,
    /// What it comes to.
    pub verdict: Verdict,
    /// The pairs that an interval of ± the effect would take at this noise, if the verdict cannot be
    /// told and that is why.
    pub samples_needed: Option<usize>,
    /// Why the verdict is not what the interval says by itself.
    pub why: Option<String>,
}

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "a ratio is one of these four")]
pub enum Verdict {
    /// Better by at least the effect that matters, and not by chance.
    Faster,
    /// Worse by at least the effect that matters, and not by chance.
    Slower,
    /// Less than the effect that matters was seen, and twice as much is ruled out.
    NoDifference,
    /// The interval is too wide for any of the others.
    CannotTell,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifference => "no difference seen",
            Self::CannotTell => "cannot tell",
        })
    }
}
