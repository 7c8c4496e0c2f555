//! The document that one command writes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::{Checked, ColdStart, Contest, Environment, Found, Ladder, Run, Side};

/// The format of the JSON that this version writes.
pub const SCHEMA: &str = "mcplane.bench/1";

/// Everything that one command measured. Its JSON is that of `mcplane bench`; of a contest, that of
/// `mcplane compare`.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Flat")]
#[non_exhaustive]
pub struct Report {
    /// The machine.
    pub environment: Environment,
    /// One entry for each measurement.
    pub runs: Vec<Run>,
    /// What was to be measured and could not be.
    pub missing: Vec<Missing>,
    /// What became of the assertions about each run, in the order of the runs.
    pub asserted: Vec<Vec<Checked>>,
    /// What the runs are of.
    pub measured: Measured,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Measured {
    /// Loads, each by itself.
    #[default]
    Loads,
    /// The same load on several targets, slice by slice in turns, so that they may be compared with
    /// each other.
    Together,
    /// A ladder; its rungs are the runs.
    Ladder(Ladder),
    /// The highest rate that holds; the runs are those at it and at the lowest that does not.
    Limit(Found),
    /// What starting costs; there are no runs.
    ColdStart(Box<ColdStart>),
    /// Targets run by run in turns, with a verdict.
    #[non_exhaustive]
    Contest {
        /// The least effect that matters, as a fraction.
        effect: f64,
        /// Pairs of runs: runs of each side.
        pairs: usize,
        /// The sides, in the order of their runs.
        sides: Vec<Side>,
    },
}

/// Something that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Missing {
    /// What: a transport and a revision.
    pub target: String,
    /// How many calls were to be in flight.
    pub concurrency: usize,
    /// Why not.
    pub why: String,
}

impl Report {
    /// A report of these runs.
    #[must_use]
    pub fn new(environment: Environment, runs: Vec<Run>) -> Self {
        let measured = Measured::Loads;
        Self { environment, runs, missing: Vec::new(), asserted: Vec::new(), measured }
    }

    /// A report of runs that were measured together, and of what could not be.
    #[must_use]
    pub fn together(environment: Environment, runs: Vec<Run>, missing: Vec<Missing>) -> Self {
        Self { missing, measured: Measured::Together, ..Self::new(environment, runs) }
    }

    /// This and what a later report has.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        self.runs.extend(later.runs);
        self.missing.extend(later.missing);
        self
    }

    /// What came of a ladder, if it is of one.
    #[must_use]
    pub const fn ladder(&self) -> Option<&Ladder> {
        if let Measured::Ladder(ladder) = &self.measured { Some(ladder) } else { None }
    }

    /// What came of a search for the highest rate that holds, if it is of one.
    #[must_use]
    pub const fn limit(&self) -> Option<&Found> {
        if let Measured::Limit(found) = &self.measured { Some(found) } else { None }
    }

    /// What starting costs, if that was measured.
    #[must_use]
    pub fn cold_start(&self) -> Option<&ColdStart> {
        if let Measured::ColdStart(cold) = &self.measured { Some(cold.as_ref()) } else { None }
    }

    /// The sides of a contest; none of anything else.
    #[must_use]
    pub fn sides(&self) -> &[Side] {
        if let Measured::Contest { sides, .. } = &self.measured { sides } else { &[] }
    }

    /// The least effect that matters in a contest, as a fraction.
    pub(crate) const fn effect(&self) -> f64 {
        if let Measured::Contest { effect, .. } = &self.measured { *effect } else { 0.05 }
    }

    /// Whether all assertions hold; `None` if none fails and one cannot be told, a run was
    /// interrupted, or something could not be measured.
    #[must_use]
    pub fn holds(&self) -> Option<bool> {
        let mut all = self.asserted.iter().flatten().map(|checked| checked.holds);
        let whole = self.missing.is_empty() && !self.runs.iter().any(|run| run.interrupted);
        match all.clone().any(|holds| holds == Some(false)) {
            true => Some(false),
            false => (whole && all.all(|holds| holds.is_some())).then_some(true),
        }
    }
}

impl From<ColdStart> for Measured {
    fn from(cold: ColdStart) -> Self {
        Self::ColdStart(Box::new(cold))
    }
}

impl From<Ladder> for Measured {
    fn from(ladder: Ladder) -> Self {
        Self::Ladder(ladder)
    }
}

impl From<Found> for Measured {
    fn from(found: Found) -> Self {
        Self::Limit(found)
    }
}

impl From<Contest> for Report {
    fn from(contest: Contest) -> Self {
        let Contest { environment, effect, pairs, sides, runs, .. } = contest;
        let measured = Measured::Contest { effect, pairs, sides };
        Self { measured, ..Self::new(environment, runs) }
    }
}

/// Everything that one command measured.
#[derive(Clone, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "Report")]
pub(super) struct Flat {
    /// [`SCHEMA`].
    schema: String,
    /// The machine.
    environment: Environment,
    /// One entry for each measurement.
    runs: Vec<Run>,
    /// Whether the runs with the same load were measured together, slice by slice in turns, so that
    /// they may be compared with each other.
    #[serde(default)]
    together: bool,
    /// What was to be measured and could not be.
    #[serde(default)]
    missing: Vec<Missing>,
    /// What came of a ladder; its rungs are the runs.
    #[serde(default)]
    ladder: Option<Ladder>,
    /// The highest rate that holds; the runs are those at it and at the lowest that does not.
    #[serde(default)]
    limit: Option<Found>,
    /// What starting costs.
    #[serde(default)]
    cold_start: Option<ColdStart>,
    /// What became of the assertions about each run, in the order of the runs.
    #[serde(default)]
    asserted: Vec<Vec<Checked>>,
}

impl From<Flat> for Report {
    fn from(flat: Flat) -> Self {
        let Flat { environment, runs, missing, asserted, .. } = flat;
        let measured = match (flat.ladder, flat.limit, flat.cold_start) {
            (Some(ladder), ..) => ladder.into(),
            (None, Some(found), _) => found.into(),
            (None, None, Some(cold)) => cold.into(),
            (None, None, None) if flat.together => Measured::Together,
            (None, None, None) => Measured::Loads,
        };
        Self { environment, runs, missing, asserted, measured }
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { environment, runs, missing, asserted, measured } = self.clone();
        if let Measured::Contest { effect, pairs, sides } = measured {
            return Contest::of(environment, effect, pairs, sides, runs).serialize(to);
        }
        Flat {
            schema: SCHEMA.to_owned(),
            environment,
            runs,
            together: matches!(measured, Measured::Together),
            missing,
            ladder: self.ladder().cloned(),
            limit: self.limit().cloned(),
            cold_start: self.cold_start().cloned(),
            asserted,
        }
        .serialize(to)
    }
}

impl JsonSchema for Report {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        Flat::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Flat::json_schema(generator)
    }
}
