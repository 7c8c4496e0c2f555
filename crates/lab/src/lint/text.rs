//! The findings for people.

use std::collections::HashMap;
use std::fmt::Write;

use super::Audit;
use super::finding::{Finding, Severity};
use crate::text::Style;

/// Columns of the widest line.
const WIDTH: usize = 100;

impl Audit {
    /// The findings as text, at most 100 columns wide, under the name of the file.
    #[must_use]
    pub fn to_text(&self, file: &str, style: Style) -> String {
        let mut out = String::new();
        // Writing into a string does not fail.
        let _ = writeln!(out, "{}", paint(style, "1", file));
        let mut groups: Vec<Vec<&Finding>> = Vec::new();
        let mut places = HashMap::new();
        for finding in &self.findings {
            let key = (finding.severity, finding.rule, finding.why.as_str());
            let at = *places.entry(key).or_insert(groups.len());
            match groups.get_mut(at) {
                Some(group) => group.push(finding),
                None => groups.push(vec![finding]),
            }
        }
        groups.iter().for_each(|group| page(&mut out, group, style));
        if self.left_off > 0 {
            let _ = writeln!(out, "  and {} more findings", self.left_off);
        }
        let counts = [Severity::Impossible, Severity::Doubtful, Severity::Unclear]
            .map(|severity| format!("{} {}", self.count(severity), severity.name()));
        let (tables, rows) = (self.tables, self.rows);
        let tables = if tables == 1 { "1 table".to_owned() } else { format!("{tables} tables") };
        let rows = if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
        let _ = writeln!(
            out,
            "  {} · {tables}, {rows}, {} figures understood",
            counts.join(", "),
            self.figures
        );
        out
    }
}

/// Findings of one rule for one reason.
fn page(out: &mut String, group: &[&Finding], style: Style) {
    let Some(first) = group.first() else { return };
    let code = match first.severity {
        Severity::Impossible => "31",
        Severity::Doubtful => "33",
        Severity::Unclear => "2",
    };
    let severity = paint(style, code, &format!("{:<10}", first.severity.name()));
    let _ = writeln!(out, "  {severity}  {}", paint(style, "1", first.rule));
    wrap(out, &first.why, 4);
    for finding in group {
        wrap(out, &format!("{} — {}", place(finding), finding.numbers), 6);
    }
}

fn place(finding: &Finding) -> String {
    let mut place = finding.table.clone();
    if let Some(line) = finding.line {
        let space = if place.is_empty() { "" } else { " " };
        let _ = write!(place, "{space}#{line}");
    }
    if let Some(row) = finding.row.as_ref().filter(|row| !row.is_empty()) {
        let _ = write!(place, " {row}");
    }
    if place.is_empty() { "table".to_owned() } else { place.replace(char::is_control, " ") }
}

fn wrap(out: &mut String, text: &str, indent: usize) {
    let (mut width, mut first) = (indent, true);
    let _ = write!(out, "{:indent$}", "");
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if !first && width + 1 + len > WIDTH {
            let _ = write!(out, "\n{:indent$}  ", "");
            (width, first) = (indent + 2, true);
        }
        if !first {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        (width, first) = (width + len, false);
    }
    out.push('\n');
}

fn paint(style: Style, code: &str, text: &str) -> String {
    if style.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}
