//! `docs/gateway/threat-model.md` names the test that holds each threat: each one is there, and the
//! counts are those of the tables and of the attacks of this test.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::Path,
};

use crate::{door::Door, frames, heads, messages, strangers, target::Name};

/// What the last cell of a threat says that nothing holds.
const NONE: &str = "none";

/// The threats: what holds each, as the last cell of its row says.
fn threats(document: &str) -> Vec<&str> {
    let rows = document.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let mut threats = Vec::new();
    for row in cells {
        let [threat, what, test] = row[..] else { panic!("three cells, not {row:?}") };
        assert!(!threat.is_empty() && !what.is_empty() && !test.is_empty(), "{row:?}");
        if threat != "threat" && !threat.starts_with("--") {
            threats.push(test);
        }
    }
    threats
}

/// The tests in a cell: "`file`: `name`, `name`; `file`: `name`".
fn named(cell: &str) -> Vec<(&str, &str)> {
    let mut tests = Vec::new();
    for part in cell.split("; ").filter(|_| cell != NONE) {
        let (file, names) = part.split_once(": ").unwrap_or_else(|| panic!("no file in {part}"));
        tests.extend(names.split(", ").map(|name| (bare(file), bare(name))));
    }
    tests
}

/// Without its backquotes.
fn bare(text: &str) -> &str {
    let inner = text.strip_prefix('`').and_then(|text| text.strip_suffix('`'));
    inner.unwrap_or_else(|| panic!("{text} is not in backquotes"))
}

/// Whether there is a test of this name: a function behind an attribute that makes it one, or inside
/// of `proptest!`.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_it = |line: &str| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix("fn ").is_some_and(|line| line.starts_with(&format!("{name}(")))
    };
    lines.iter().enumerate().filter(|(_, line)| is_it(line)).any(|(at, _)| {
        let attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
        attributes
            .into_iter()
            .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn document() -> String {
    fs::read_to_string(root().join("docs/gateway/threat-model.md")).unwrap()
}

#[test]
fn every_test_that_holds_a_threat_is_there() {
    let document = document();
    let mut sources = HashMap::new();
    for (file, name) in threats(&document).into_iter().flat_map(named) {
        let source = sources.entry(file).or_insert_with(|| {
            fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
        });
        assert!(has_test(source, name), "{file} has no test `{name}`");
    }
    assert!(sources.len() > 20, "{:?}", sources.keys());
}

#[test]
fn the_counts_are_those_of_the_tables_and_of_the_attacks() {
    let document = document();
    let threats = threats(&document);
    let open = threats.iter().filter(|cell| **cell == NONE).count();
    let tests: BTreeSet<_> = threats.iter().copied().flat_map(named).collect();
    let listeners: usize = Name::ALL.into_iter().map(|name| name.doors().count()).sum();
    let attempts = messages::attempts() + strangers::ATTEMPTS + frames::ATTEMPTS + heads::ATTEMPTS;
    assert_eq!(listeners, Door::ALL.len() * Name::ALL.len() - 1);
    for expected in [
        format!(
            "{} threats, {} of them held by {} tests",
            threats.len(),
            threats.len() - open,
            tests.len()
        ),
        format!("{open} by none"),
        format!("{attempts} attempts at {listeners} listeners of {} targets", Name::ALL.len()),
    ] {
        let text = document.replace('\n', " ");
        assert!(text.contains(&expected), "the document does not say: {expected}");
    }
}

#[test]
fn a_table_that_is_wrong_is_found() {
    let source = "#[test]\nfn one() {}\nfn two() {}\n    #[tokio::test]\n    #[cfg(unix)]\n    async fn three() {}\n";
    let found = ["one", "two", "three", "on"].map(|name| has_test(source, name));
    assert_eq!(found, [true, false, true, false]);
    let cell = "`a/b.rs`: `one`, `two`; `c.rs`: `three`";
    assert_eq!(named(cell), [("a/b.rs", "one"), ("a/b.rs", "two"), ("c.rs", "three")]);
    let table = "| threat | what holds | test |\n|---|---|---|\n| x | y | `a`: `b` |\n| z | none | none |\n";
    assert_eq!(threats(table), ["`a`: `b`", NONE]);
    assert!(named(NONE).is_empty());
}
