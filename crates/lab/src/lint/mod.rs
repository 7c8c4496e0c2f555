//! Audits a result: figures that cannot be, can hardly be, or do not say what they mean.
//!
//! A file becomes tables of named quantities with units ([`lint`] reads JSON of `mcplane bench`
//! and `mcplane compare`, other JSON, CSV and Markdown), and every rule looks at every table. No rule
//! knows whose table it is.
//!
//! * `read`   — the formats
//! * `name`   — what a column name says: the quantity, its unit, whose it is
//! * `figure` — what a cell says: a number and how far it is rounded
//! * `table`  — rows of figures in base units, and the bounds that follow from them
//! * `rule`   — the rules
//! * `text`   — the findings for people

mod figure;
mod name;
mod read;
mod rule;
mod table;
mod text;

use serde::Serialize;

use crate::results::Unread;

pub use rule::RULES;

/// Most findings that one audit keeps; the others are counted.
pub const FINDINGS_MAX: usize = 1_000;

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
    /// The id of the rule, one of [`RULES`].
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

/// Everything found in one file.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Audit {
    /// Tables that were read.
    pub tables: usize,
    /// Rows that were read.
    pub rows: usize,
    /// Figures that were understood as a quantity.
    pub figures: usize,
    /// The findings, worst first, then in the order of the file.
    pub findings: Vec<Finding>,
    /// Findings beyond [`FINDINGS_MAX`], which are not kept.
    pub left_off: usize,
}

impl Audit {
    /// Whether nothing is impossible or doubtful.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Unclear)
    }

    /// How many findings are of this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

/// Why a text could not be audited.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LintError {
    /// It looks like JSON and is not.
    #[error("it begins like JSON and is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is a result of ours that cannot be read.
    #[error("it is no result of `mcplane bench` or `mcplane compare`: {0}")]
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

/// Audits a text: the JSON of `mcplane bench` and `mcplane compare`, other JSON, CSV or Markdown,
/// told apart by content.
///
/// # Errors
/// When it is none of these, or holds no figure under a name.
pub fn lint(text: &str) -> Result<Audit, LintError> {
    let tables = read::tables(text)?;
    let mut audit = Audit { tables: tables.len(), ..Audit::default() };
    for table in &tables {
        audit.rows += table.rows.len();
        audit.figures += table.understood();
        rule::apply(table, &mut audit.findings);
    }
    if audit.figures == 0 {
        return Err(LintError::NoTable);
    }
    audit.findings.sort_by_key(|finding| finding.severity);
    audit.left_off = audit.findings.len().saturating_sub(FINDINGS_MAX);
    audit.findings.truncate(FINDINGS_MAX);
    Ok(audit)
}

#[cfg(test)]
mod tests;
