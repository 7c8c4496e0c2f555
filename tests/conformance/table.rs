//! The table of what the suite finds behind the gateway: a row for each run, said and kept beside the
//! results; and the copy of it in the gateway's guide, which must say the same.

use std::{
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
};

use crate::{
    suite::{Line, Set, root, say},
    verdict::Outcome,
};

/// A run through the gateway.
pub(crate) struct Row<'a> {
    /// Of its results.
    pub(crate) name: &'a str,
    pub(crate) server: &'static str,
    pub(crate) speaks: &'static str,
    pub(crate) transport: &'static str,
    pub(crate) line: Line,
    pub(crate) set: Set,
    /// The revision of the clients that were there before.
    pub(crate) after: Option<&'static str>,
}

/// What came of it: how many scenarios are required, which of them are not green, and how many are where
/// there is no gateway.
pub(crate) struct Found<'a> {
    pub(crate) required: usize,
    pub(crate) red: Vec<&'a str>,
    pub(crate) alone: Option<usize>,
}

impl<'a> Found<'a> {
    pub(crate) fn of(behind: &'a [Outcome], alone: Option<&[Outcome]>) -> Self {
        let required = || behind.iter().filter(|outcome| outcome.is_required());
        let red = required().filter(|outcome| !outcome.is_green());
        let is_green = |outcome: &&Outcome| outcome.is_required() && outcome.is_green();
        Self {
            required: required().count(),
            red: red.map(Outcome::name).collect(),
            alone: alone.map(|alone| alone.iter().filter(is_green).count()),
        }
    }
}

impl Row<'_> {
    /// Says the row, keeps it, and returns what is wrong with it in the guide. `either` scenarios may be green
    /// or not: the guide may have them for both.
    pub(crate) fn keep(&self, found: &Found<'_>, either: &[&str]) -> String {
        let all = found.required;
        let green = format!("{} of {all}", all - found.red.len());
        let alone =
            found.alone.map_or_else(|| NONE.to_owned(), |green| format!("{green} of {all}"));
        let revision = self.set.revision();
        let client = match (self.after, self.line) {
            (Some(before), _) => format!("{revision} after {before}"),
            (None, Line::V0_2) => revision.to_owned(),
            (None, line) => format!("{revision}, line {}", line.version()),
        };
        let red = found.red.join(", ");
        let columns = [self.server, self.speaks, self.transport, &client, &green, &alone, &red];
        let line = format!("| {} |", columns.join(" | "));
        say(&line);
        write(self.name, &line);
        if !self.is_in_guide() {
            return String::new();
        }
        let certain = found.red.iter().filter(|name| !either.contains(name)).count();
        let may_be: Vec<_> = (certain..=certain + either.len()).map(|red| all - red).collect();
        let guide = guide();
        let held = cell(&guide, [self.server, self.speaks], &self.column());
        if may_be.iter().any(|green| held == Some(&format!("{green} of {all}"))) {
            return String::new();
        }
        format!("{}: {may_be:?} of {all}, but {GUIDE} says {held:?}\n", self.name)
    }

    /// The guide has the revisions that the suite requires something of, each with clients that come first.
    fn is_in_guide(&self) -> bool {
        matches!(self.set, Set::Required(_)) && self.after.is_none()
    }

    fn column(&self) -> String {
        format!("{}, {}", self.set.revision(), self.transport)
    }
}

fn write(name: &str, line: &str) {
    let _alone = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance/table");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), line).unwrap();
    let mut rows: Vec<_> = fs::read_dir(&folder).unwrap().map(|row| row.unwrap().path()).collect();
    rows.sort();
    let rows: Vec<_> = rows.iter().map(|row| fs::read_to_string(row).unwrap()).collect();
    fs::write(folder.with_extension("md"), format!("{HEAD}{}\n", rows.join("\n"))).unwrap();
}

/// Held by who writes the table.
static TURN: Mutex<()> = Mutex::new(());

const HEAD: &str = "| server | speaks | transport | client | through the gateway | alone | not green |\n\
                    |---|---|---|---|---|---|---|\n";

/// Where nothing is run.
const NONE: &str = "–";

const GUIDE: &str = "docs/gateway/guide.md";

fn guide() -> String {
    fs::read_to_string(root().join(GUIDE)).unwrap()
}

/// The lines of the guide's table, cell by cell, its head first.
fn lines(guide: &str) -> impl Iterator<Item = Vec<&str>> {
    let table = guide.lines().skip_while(|line| !line.starts_with("| server | of the era |"));
    let table = table.take_while(|line| line.starts_with('|'));
    table.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

fn cell<'a>(guide: &'a str, row: [&str; 2], column: &str) -> Option<&'a str> {
    let mut lines = lines(guide);
    let at = lines.next()?.iter().position(|name| *name == column)?;
    let line = lines.find(|cells| cells.starts_with(&row))?;
    line.get(at).copied()
}

/// Each test looks for its own cells; here is what no test fills.
#[test]
fn the_guide_has_no_other_rows() {
    let guide = guide();
    let rows: Vec<_> = lines(&guide).skip(2).collect();
    let of = |server| {
        let rows = rows.iter().filter(move |cells| cells[0] == server);
        rows.map(|cells| cells[1]).collect::<Vec<_>>()
    };
    assert_eq!(of("TypeScript SDK 1.x"), ["older"]);
    for server in ["TypeScript SDK 2.x", "Python SDK 2.x"] {
        assert_eq!(of(server), ["older", "both", "2026-07-28"]);
    }
    let held = ["older, by `revision`", "2026-07-28, by `revision`"];
    assert_eq!(of("`mcplane fixture`"), [&["both"][..], &held].concat());
    assert_eq!(rows.len(), 10);
    for cells in rows {
        let is_run = |column| column % 2 == 1 || !held.contains(&cells[1]);
        let empty = (2..cells.len()).filter(|column| cells[*column] == NONE);
        assert!(empty.eq((2..cells.len()).filter(|column| !is_run(*column))), "{cells:?}");
    }
}

#[test]
fn a_cell_is_found() {
    let guide = "| a | b |\n\n| server | of the era | x | y |\n|---|---|---|---|\n\
                 | s | older | 1 | 2 |\n| s | both | 3 | 4 |\n\n| s | both | 5 | 6 |\n";
    assert_eq!(cell(guide, ["s", "both"], "y"), Some("4"));
    assert_eq!(cell(guide, ["s", "older"], "x"), Some("1"));
    assert_eq!(cell(guide, ["s", "newer"], "x"), None);
    assert_eq!(cell(guide, ["s", "older"], "z"), None);
}
