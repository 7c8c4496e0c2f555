//! The formats, told apart by content.

mod bench;
mod csv;
mod json;
mod markdown;

use super::LintError;
use super::table::Table;

/// The tables of a text.
pub(super) fn tables(text: &str) -> Result<Vec<Table>, LintError> {
    let text = text.trim_start_matches('\u{feff}');
    let tables = if text.trim_start().starts_with(['{', '[']) {
        json::tables(text)?
    } else if markdown::is_markdown(text) {
        markdown::tables(text)?
    } else {
        csv::tables(text)?
    };
    if tables.is_empty() { Err(LintError::NoTable) } else { Ok(tables) }
}
