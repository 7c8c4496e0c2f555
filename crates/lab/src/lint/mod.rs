//! Audits a result: figures that cannot be, can hardly be, or do not say what they mean.
//!
//! A file becomes tables of named quantities with units ([`lint`] reads JSON of `mcplane bench`
//! and `mcplane compare`, other JSON, CSV and Markdown), and every rule looks at every table. No rule
//! knows whose table it is.
//!
//! * `read`   — the formats
//! * `name`   — what a column name says: the quantity, its unit, whose it is
//! * `figure` — what a cell says: a number and how far it is rounded
//! * `finding` — what a rule says, and why a text has no table
//! * `table`  — rows of figures in base units, and the bounds that follow from them
//! * `rule`   — the rules
//! * `text`   — the findings for people

mod figure;
mod finding;
mod name;
mod read;
mod rule;
mod table;
mod text;

use serde::Serialize;

pub use finding::{COLUMNS_MAX, Finding, LintError, ROWS_MAX, SIDES_MAX, Severity};
pub use rule::RULES;

/// Most findings that one audit keeps; the others are counted.
pub const FINDINGS_MAX: usize = 1_000;

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
