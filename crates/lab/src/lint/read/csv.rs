//! Values between commas, semicolons or tabs (RFC 4180 for quotes). An empty line ends a table, and
//! the next begins with its own header; lines that begin with `#` are remarks.

use crate::lint::finding::LintError;
use crate::lint::table::Table;

pub(super) fn tables(text: &str) -> Result<Vec<Table>, LintError> {
    let (mut tables, mut rows) = (Vec::new(), Vec::new());
    let mut header: Option<(Vec<String>, char)> = None;
    let mut lines = text.lines().chain([""]).enumerate();
    while let Some((at, line)) = lines.next() {
        let mut record = line.to_owned();
        // A quote that is open at the end of a line goes on in the next.
        let mut open = is_odd(line);
        while let Some((_, more)) = open.then(|| lines.next()).flatten() {
            record.push('\n');
            record.push_str(more);
            open ^= is_odd(more);
        }
        if record.trim().is_empty() {
            if let Some((header, _)) = header.take().filter(|_| !rows.is_empty()) {
                tables.push(Table::new("", &header, std::mem::take(&mut rows))?);
            }
        } else if !record.starts_with('#') {
            match &header {
                Some((_, separator)) => rows.push((at + 1, fields(&record, *separator))),
                None => {
                    let separator = separator(&record);
                    header = Some((fields(&record, separator), separator));
                }
            }
        }
    }
    Ok(tables)
}

/// Whether a line opens or closes a quote.
fn is_odd(line: &str) -> bool {
    line.matches('"').count() % 2 == 1
}

/// What the header has most of.
fn separator(header: &str) -> char {
    [',', ';', '\t']
        .into_iter()
        .max_by_key(|c| (header.matches(*c).count(), *c == ','))
        .unwrap_or(',')
}

fn fields(record: &str, separator: char) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = record.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            '"' => quoted = !quoted,
            c if c == separator && !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields.iter().map(|field| field.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_lines_and_several_tables() {
        let text = "# remark\nname,\"p50, ms\"\n\"a \"\"b\"\"\",1\n\"c\nd\",2\n\nx;p99_us\ne;3\n";
        let tables = tables(text).unwrap();
        let labels: Vec<_> =
            tables.iter().flat_map(|t| &t.rows).map(|r| (r.line, r.label.as_str())).collect();
        assert_eq!(labels, [(3, "a \"b\""), (4, "c\nd"), (8, "e")]);
        assert_eq!(tables[0].columns[1].name, "p50, ms");
    }
}
