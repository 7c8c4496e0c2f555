//! What a rule says of a table, and why a text has none.

use serde::Serialize;

use crate::results::Unread;

/// Most columns of a table; published ones have a dozen.
pub const COLUMNS_MAX: usize = 256;

/// Most rows of a table.
pub const ROWS_MAX: usize = 100_000;

/// Most sides of a row, as `p50_1` and `p50_4` are two: each rule looks at each.
pub const SIDES_MAX: usize = 64;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "the exit code depends on each of them")]
pub enum Severity {
    /// The figures contradict each other, or arithmetic.
    Impossible,
    /// The figures can be true only under circumstances that would have to be told.
    Doubtful,
    /// The table does not say what is needed to judge it.
    Unclear,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Impossible => "impossible",
            Self::Doubtful => "doubtful",
            Self::Unclear => "unclear",
        }
    }
}

/// One thing that a rule found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The id of the rule, one of [`RULES`](super::RULES).
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The table within the file: a heading or a key, empty if there is one table without a name.
    pub table: String,
    /// The row's own name; `None` if the finding is about the whole table.
    pub row: Option<String>,
    /// The line of the row in the file; in JSON the number of the entry. Both count from 1.
    pub line: Option<usize>,
    /// The figures.
    pub numbers: String,
    /// Why they are a finding.
    pub why: String,
}

/// Why a text could not be audited.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LintError {
    /// It looks like JSON and is not.
    #[error("it begins like JSON and is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is a result of ours that cannot be read.
    #[error("it is not a result of `mcplane bench` or `mcplane compare`: {0}")]
    Result(#[from] Unread),
    /// A table has more than [`ROWS_MAX`] rows, [`COLUMNS_MAX`] columns or [`SIDES_MAX`] sides.
    #[error(
        "a table has more than {ROWS_MAX} rows, {COLUMNS_MAX} columns, or {SIDES_MAX} kinds of \
         columns for the same quantity: audit a part of it"
    )]
    TooLarge,
    /// There is no table in it.
    #[error(
        "no table with named columns and figures: expected CSV with a header, a Markdown table, \
         an array of JSON objects, or the JSON of `mcplane bench` or `mcplane compare`"
    )]
    NoTable,
}
