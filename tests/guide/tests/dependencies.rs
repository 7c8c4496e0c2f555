//! Each document names the crates that its examples use, as its reader has to.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::path::{Path, PathBuf};
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

/// Every document with an example, and its text.
fn documents(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(documents(&path));
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
    let documents = documents(&root.join("docs"));
    assert!(documents.len() >= 4, "{documents:?}");
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
