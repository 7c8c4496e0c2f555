//! Markdown tables; each is named by the heading above it.

use crate::lint::finding::LintError;
use crate::lint::table::Table;

/// Whether a line of pipes is followed by a line of dashes.
pub(super) fn is_markdown(text: &str) -> bool {
    let mut before = "";
    text.lines().any(|line| {
        let found = before.contains('|') && is_rule(line);
        before = line;
        found
    })
}

pub(super) fn tables(text: &str) -> Result<Vec<Table>, LintError> {
    let (mut tables, mut heading, mut before) = (Vec::new(), "", "");
    let mut lines = text.lines().enumerate().peekable();
    while let Some((_, line)) = lines.next() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim();
        }
        if before.contains('|') && is_rule(line) {
            let mut rows = Vec::new();
            while let Some((at, row)) = lines.next_if(|(_, row)| row.contains('|')) {
                rows.push((at + 1, cells(row)));
            }
            if !rows.is_empty() {
                tables.push(Table::new(heading, &cells(before), rows)?);
            }
        }
        before = line;
    }
    Ok(tables)
}

fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.contains('|') && line.contains('-') && line.chars().all(|c| "|-: ".contains(c))
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = line.strip_suffix('|').unwrap_or(line).replace("\\|", "\u{1}");
    let plain = |cell: &str| cell.trim().replace(['*', '`'], "").replace('\u{1}', "|");
    line.split('|').map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_name_of_its_heading() {
        let text = "# One\ntext | here\n\n| a | p50 ms |\n|---|---:|\n| **x** | `1` |\n\nend\n";
        assert!(is_markdown(text) && !is_markdown("a|b\nc|d\n"));
        let tables = tables(text).unwrap();
        assert_eq!((tables.len(), tables[0].name.as_str()), (1, "One"));
        assert_eq!((tables[0].rows[0].line, tables[0].rows[0].label.as_str()), (6, "x"));
    }
}
