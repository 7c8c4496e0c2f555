//! What is wrong with a file of settings: every fault, with its place, the way compilers show it.

use std::{
    fmt::{self, Display, Formatter},
    io,
    ops::Range,
    path::PathBuf,
};

use thiserror::Error;

/// Most faults that are collected in one file: who has more reads no further.
pub(super) const FAULTS_MAX: usize = 64;

/// Most characters of a source line that are shown.
const LINE_CHARS_MAX: usize = 120;

/// Why settings cannot be used. Its `Display` names file, line, column, key and what was expected,
/// for every fault.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct ConfigError(#[from] Reason);

impl ConfigError {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(&self.0, Reason::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// What is wrong in the file, in the order of its lines; empty if it could not be read.
    pub fn faults(&self) -> &[Fault] {
        match &self.0 {
            Reason::Faults(faults) => &faults.all,
            _ => &[],
        }
    }
}

#[derive(Debug, Error)]
pub(super) enum Reason {
    #[error("cannot read {}: {source}{}", path.display(), hint(source))]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot watch {}: {source}", path.display())]
    Watch { path: PathBuf, source: notify::Error },
    #[error("cannot listen to SIGHUP: {0}")]
    Signal(io::Error),
    #[error("{} has {bytes} bytes; at most {max} are read", path.display())]
    Large { path: PathBuf, bytes: u64, max: u64 },
    #[error(transparent)]
    Faults(#[from] Faults),
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => "; `mcplane import` makes one from the JSON of a desktop client",
        _ => "",
    }
}

/// One thing that is wrong in a file of settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Its line, counted from 1; 0 if there is no file.
    pub line: usize,
    /// Its column in characters, counted from 1; 0 if there is no file.
    pub column: usize,
    /// The path of the key, such as `servers.files.workers`; empty for the whole file.
    pub key: String,
    /// What is wrong, and what was expected.
    pub message: String,
    /// What to do about it, where that can be told.
    pub help: Option<String>,
    line_text: String,
    chars: usize,
}

/// A fault that knows bytes, not lines.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) span: Range<usize>,
    pub(super) key: String,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

/// All that is wrong in one file.
#[derive(Debug, Error)]
pub(super) struct Faults {
    file: String,
    all: Vec<Fault>,
}

impl Faults {
    /// Finds the lines of all findings. What lies in `masked` is not shown.
    pub(super) fn new(
        file: &str,
        text: &str,
        mut findings: Vec<Finding>,
        masked: &[Range<usize>],
    ) -> Self {
        findings.sort_by_key(|finding| finding.span.start);
        let text = mask(text, masked);
        let all = findings.into_iter().map(|finding| Fault::new(finding, &text)).collect();
        Self { file: file.to_owned(), all }
    }
}

impl Fault {
    fn new(finding: Finding, text: &str) -> Self {
        let Finding { span, key, message, help } = finding;
        if text.is_empty() {
            let line_text = String::new();
            return Self { line: 0, column: 0, key, message, help, line_text, chars: 0 };
        }
        let start = text.floor_char_boundary(span.start.min(text.len()));
        let end = text.floor_char_boundary(span.end.clamp(start, text.len()));
        let (before, behind) = text.split_at(start);
        let begin = before.rfind('\n').map_or(0, |at| at + 1);
        let prefix = before.get(begin..).unwrap_or_default();
        let rest = behind.split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let marked = text.get(start..end).unwrap_or_default();
        let marked = marked.split(['\r', '\n']).next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: prefix.chars().count() + 1,
            key,
            message,
            help,
            line_text: format!("{prefix}{rest}"),
            chars: marked.chars().count(),
        }
    }

    fn show(&self, file: &str, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { line, column, key, message, .. } = self;
        let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
        if *line == 0 {
            return writeln!(f, "{file}: {key}{message}");
        }
        writeln!(f, "{file}:{line}:{column}: {key}{message}")?;
        // A line that is too long is shown from a little before the fault.
        let skipped = match self.line_text.chars().count() > LINE_CHARS_MAX {
            true => (column - 1).saturating_sub(LINE_CHARS_MAX / 2),
            false => 0,
        };
        // Whatever would move the cursor, or worse, is no part of a message.
        let shown = self.line_text.chars().skip(skipped).take(LINE_CHARS_MAX);
        let shown: String = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
        let gutter = line.to_string().len();
        let left = column - 1 - skipped;
        let marks = self.chars.clamp(1, LINE_CHARS_MAX - left.min(LINE_CHARS_MAX - 1));
        writeln!(f, "{:gutter$} |\n{line} | {shown}", "")?;
        write!(f, "{:gutter$} | {:left$}{:^<marks$}", "", "", "")?;
        match &self.help {
            Some(help) => writeln!(f, " {help}"),
            None => writeln!(f),
        }
    }
}

impl Display for Faults {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.all.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            fault.show(&self.file, f)?;
        }
        match self.all.len() {
            1 => write!(f, "\n1 error in {}", self.file),
            n if n >= FAULTS_MAX => write!(f, "\n{n} errors in {}; read no further", self.file),
            n => write!(f, "\n{n} errors in {}", self.file),
        }
    }
}

/// The text with `*` for every character in these ranges, as wide as before.
fn mask(text: &str, masked: &[Range<usize>]) -> String {
    let hidden = |at| masked.iter().any(|range| range.contains(&at));
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if c == '\n' || c == '\r' || !hidden(at) {
            out.push(c);
        } else {
            // As many bytes, so that the places of the findings still hold.
            out.extend(std::iter::repeat_n('*', c.len_utf8()));
        }
    }
    out
}

/// The candidate that somebody meant who wrote `word`, if one is near enough.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let near = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    let (distance, candidate) = near.min()?;
    (distance <= word.chars().count().max(candidate.len()).div_ceil(3)).then_some(candidate)
}

/// How many characters must be changed, added, removed or swapped with their neighbour, whatever
/// their case and whether words are joined by `_`, `-` or not at all.
fn distance(a: &str, b: &str) -> usize {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| !"_-".contains(*c)).map(|c| c.to_ascii_lowercase()).collect()
    };
    let (a, b) = (plain(a), plain(b));
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<usize>>()];
    let mut earlier = None::<char>;
    for (i, &x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        let mut left = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let at = |row: &Vec<usize>, j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let [before, last] = &rows;
            let mut least =
                (left + 1).min(at(last, j + 1) + 1).min(at(last, j) + usize::from(x != y));
            if j > 0 && earlier == Some(y) && b.get(j - 1) == Some(&x) {
                least = least.min(at(before, j - 1) + 1);
            }
            row.push(least);
            left = least;
        }
        let [_, last] = rows;
        rows = [last, row];
        earlier = Some(x);
    }
    let [_, last] = rows;
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, span: Range<usize>, help: Option<&str>) -> String {
        let finding = Finding {
            span,
            key: "a.b".into(),
            message: "is wrong".into(),
            help: help.map(str::to_owned),
        };
        Faults::new("f.toml", text, vec![finding], &[]).to_string()
    }

    #[test]
    fn a_fault_is_shown_the_way_compilers_do() {
        assert_eq!(
            shown("x = 1\n\té = \"ü\"\nz = 2\n", 7..9, Some("did you mean `e`?")),
            "f.toml:2:2: a.b: is wrong\n  |\n2 |  é = \"ü\"\n  |  ^ did you mean `e`?\n\n1 error in f.toml"
        );
        // At the very end, and on a line that goes on.
        assert!(shown("x = ", 4..4, None).contains("f.toml:1:5: "));
        assert!(shown("x = [\r\n1]", 4..9, None).contains("1 | x = [\n  |     ^\n"));
    }

    #[test]
    fn long_lines_and_control_characters_do_no_harm() {
        let text = format!("{}\u{1b}[2J{}", "a".repeat(500), "b".repeat(500));
        let shown = shown(&text, 500..501, None);
        assert!(!shown.contains('\u{1b}') && shown.lines().all(|line| line.len() < 140), "{shown}");
        let line = shown.lines().nth(2).unwrap();
        let caret = shown.lines().nth(3).unwrap().find('^').unwrap();
        assert_eq!(&line[caret..caret + 2], " [", "{shown}");
    }

    #[test]
    fn what_is_masked_is_not_shown() {
        let finding = Finding { span: 0..1, key: String::new(), message: "no".into(), help: None };
        let masked = vec![Range { start: 4, end: 11 }];
        let shown = Faults::new("f", "k = \"süß\" # c", vec![finding], &masked).to_string();
        assert!(shown.contains("k = ******* # c"), "{shown}");
    }

    #[test]
    fn the_nearest_word_is_the_one_that_was_meant() {
        let words = ["workers", "workers_max", "command", "url", "idle_stop"];
        for (word, meant) in [
            ("worker", Some("workers")),
            ("comand", Some("command")),
            ("commnad", Some("command")),
            ("workersMax", Some("workers_max")),
            ("idle-stop", Some("idle_stop")),
            ("ulr", Some("url")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words), meant, "{word}");
        }
    }
}
