//! What a workload is, and what it finds.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use mcplane_lab::spec::TargetSpec;
use mcplane_lab::stats::Interval;
use mcplane_lab::{BuiltIn, Control, Report};
use serde::{Deserialize, Serialize};

/// One workload.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Entry {
    /// Its name on the command line and in results.
    pub id: &'static str,
    /// What it belongs to.
    pub module: Module,
    /// What it measures, in one line.
    pub about: &'static str,
    /// The smallest form of a whole suite that has it.
    pub since: Form,
    /// Whether it measures the server that is named, rather than our own code.
    pub takes_target: bool,
    /// Measures it.
    pub(crate) run: Run,
}

/// What a workload finds, or why it could not be measured.
pub(crate) type Run = fn(&Stand<'_>) -> Result<Found, String>;

impl Entry {
    /// One that measures our own code.
    pub(crate) const fn of(
        module: Module,
        since: Form,
        id: &'static str,
        about: &'static str,
        run: Run,
    ) -> Self {
        Self { id, module, about, since, takes_target: false, run }
    }
}

/// Workloads that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Module {
    /// Registry, dispatch, serialization, negotiation: operations inside one process.
    CoreOps,
    /// One call after another, a pool of workers, HTTP.
    Calls,
    /// One server over every transport, and what starting costs.
    Transports,
    /// Faults that are really injected.
    Chaos,
    /// Calls for a long time.
    Stress,
}

impl Module {
    /// All of them, in the order of a run.
    pub const ALL: [Self; 5] =
        [Self::CoreOps, Self::Calls, Self::Transports, Self::Chaos, Self::Stress];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CoreOps => "core_ops",
            Self::Calls => "calls",
            Self::Transports => "transports",
            Self::Chaos => "chaos",
            Self::Stress => "stress",
        }
    }
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How much time a workload takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "there are these three")]
pub enum Form {
    /// Seconds: does it work, and about how fast is it.
    Quick,
    /// Long enough for intervals worth quoting; the whole suite takes a quarter of an hour.
    Standard,
    /// As long as the workload says by its name.
    Full,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Quick, Self::Standard, Self::Full];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Standard => "standard",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = Self::ALL.into_iter().find(|form| form.as_str() == text);
        form.ok_or_else(|| format!("`{text}` is none of quick, standard and full"))
    }
}

/// What a workload works with.
#[non_exhaustive]
pub struct Stand<'a> {
    /// The workload's id.
    pub id: &'static str,
    /// How much time it is to take.
    pub form: Form,
    /// This program, to be started as a server or a gateway.
    pub me: &'a Path,
    /// The fixture and the floor.
    pub built_in: &'a BuiltIn<'a>,
    /// Somebody else's server, in place of ours.
    pub target: Option<&'a TargetSpec>,
    /// Progress, and the wish to stop.
    pub control: &'a Arc<Control>,
}

impl Stand<'_> {
    /// One of three, by the form.
    pub(crate) fn of<T>(&self, quick: T, standard: T, full: T) -> T {
        match self.form {
            Form::Quick => quick,
            Form::Standard => standard,
            Form::Full => full,
        }
    }

    /// How long operations are repeated.
    pub(crate) fn repeated(&self) -> Duration {
        Duration::from_millis(self.of(400, 3_000, 10_000))
    }
}

/// What became of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict", content = "why")]
#[allow(clippy::exhaustive_enums, reason = "there are these three")]
pub enum Verdict {
    /// What it asserts holds.
    Pass,
    /// It does not, or it could not be measured to its end.
    Fail(String),
    /// Something that it needs is not here. This is never a pass.
    Skip(String),
}

/// A figure with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// In what.
    pub unit: String,
    /// How much: of samples, their median.
    pub value: f64,
    /// The ends of the 95 % interval of that, where there were samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// Of how many samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<usize>,
}

impl Figure {
    /// One number.
    pub(crate) fn of(name: &str, unit: &str, value: f64) -> Self {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        Self { name, unit, value, interval: None, samples: None }
    }

    /// An estimate from so many samples.
    pub(crate) fn estimate(name: &str, unit: &str, of: Interval, samples: usize) -> Self {
        let (interval, samples) = (Some([of.low, of.high]), Some(samples));
        Self { interval, samples, ..Self::of(name, unit, of.value) }
    }
}

/// What a workload found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Found {
    /// Whether what it asserts holds.
    pub verdict: Verdict,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// What a reader should know about them.
    pub notes: Vec<String>,
    /// The lab's report, where the lab measured.
    pub report: Option<Report>,
    /// Rows in cMCP's columns.
    pub rows: Vec<String>,
}

impl Found {
    /// All that it asserts holds.
    pub(crate) fn pass(figures: Vec<Figure>) -> Self {
        let (notes, rows) = (Vec::new(), Vec::new());
        Self { verdict: Verdict::Pass, figures, notes, report: None, rows }
    }

    /// Why it fails.
    pub(crate) fn fail(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail(why.into()), ..Self::pass(Vec::new()) }
    }

    /// The same, with one thing that has to hold: the first that does not is the reason.
    pub(crate) fn assert(mut self, holds: bool, why: impl FnOnce() -> String) -> Self {
        if !holds && self.verdict == Verdict::Pass {
            self.verdict = Verdict::Fail(why());
        }
        self
    }

    /// The same with something to know.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}
