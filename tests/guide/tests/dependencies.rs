//! Each document names the crates that its examples use, as its reader has to.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A crate that the examples may use: a line of this crate's manifest.
fn known() -> Vec<String> {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    let manifest = manifest.unwrap();
    let (_, dependencies) = manifest.split_once("[dev-dependencies]\n").unwrap();
    names(dependencies)
}

/// The names at the beginning of the lines.
fn names(dependencies: &str) -> Vec<String> {
    let name = |line: &str| line.split([' ', '.', '=']).next().unwrap().to_owned();
    dependencies.lines().filter(|line| !line.is_empty()).map(name).collect()
}

/// Every document with an example, and its text: in this folder, and `below` it.
fn documents(folder: &Path, below: bool) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && below {
            found.extend(documents(&path, below));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&path).unwrap();
            if text.contains("```rust") {
                found.push((path, text));
            }
        }
    }
    found
}

/// The blocks that begin with one of these words.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let mut blocks = Vec::new();
    let mut parts = text.split("```");
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        let (info, code) = block.split_once('\n').unwrap();
        if info.split(',').next() == Some(language) {
            blocks.push(code);
        }
    }
    blocks
}

/// Whether the code names the crate: in a path or behind a `use`.
fn uses(code: &str, name: &str) -> bool {
    let path = format!("{name}::");
    let starts = code.match_indices(&path);
    starts.into_iter().any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || "_:".contains(before))
    })
}

#[test]
fn every_document_with_an_example_is_compiled_and_names_its_dependencies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap();
    let (known, compiled) = (known(), include_str!("../src/lib.rs"));
    assert!(known.iter().any(|name| name == "mcplane"), "{known:?}");
    let documents = [documents(root, false), documents(&root.join("docs"), true)].concat();
    assert!(documents.len() >= 5, "{documents:?}");
    for (path, text) in documents {
        let shown = path.strip_prefix(root).unwrap().display();
        assert!(compiled.contains(&format!("/{shown}\"")), "{shown} is not compiled");
        let named: Vec<_> = blocks(&text, "toml")
            .into_iter()
            .filter_map(|block| block.strip_prefix("[dependencies]\n"))
            .flat_map(names)
            .collect();
        let code = blocks(&text, "rust").join("\n");
        for name in &known {
            assert_eq!(
                uses(&code, name),
                named.contains(name),
                "{shown}: `{name}` in the examples and in `[dependencies]`"
            );
        }
        assert!(named.iter().all(|name| known.contains(name)), "{shown}: {named:?}");
        assert!(!code.contains("\n# "), "{shown}: a reader sees every line");
    }
}

/// A plain server over stdio is no more to compile than one of rmcp 3.9 with `transport-io`, which
/// is 82 crates, counted in the same way and without the project itself.
const PLAIN_MAX: usize = 82;

/// The rows of the guide's table, and how `cargo tree` is asked for them.
const TREES: [(&str, &[&str]); 5] = [
    ("`default-features = false`", &["--no-default-features"]),
    ("`schema` (default)", &[]),
    ("`http`", &["--features=http"]),
    ("`http`, `tls`", &["--features=http,tls"]),
    ("`http`, `tls`, `auth`, `websocket`", &["--features=http,tls,auth,websocket"]),
];

/// How many crates there are differs between systems.
#[cfg(target_os = "linux")]
#[test]
fn the_crates_are_as_many_as_the_guide_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap();
    let guide = fs::read_to_string(root.join("docs/guide/server.md")).unwrap();
    for (features, arguments) in TREES {
        let output = Command::new(env!("CARGO"))
            .current_dir(root)
            .args(["tree", "--offline", "-p", "mcplane", "-e", "normal", "--prefix", "none"])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let listed = String::from_utf8(output.stdout).unwrap();
        let count = listed.lines().collect::<BTreeSet<_>>().len();
        let row = |line: &&str| line.starts_with(&format!("| {features} |"));
        let row = guide.lines().find(row).unwrap();
        assert!(row.ends_with(&format!("| {count} |")), "{count} crates: {row}");
        assert!(!arguments.contains(&"--no-default-features") || count <= PLAIN_MAX, "{count}");
    }
}
