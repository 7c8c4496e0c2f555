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

/// What comes with rmcp 3.9.0 for a server over stdio: its default features, `server` and
/// `transport-io`, counted in the same way and without the project itself. A plain server of ours is
/// no more to compile.
const RMCP_CRATES: usize = 78;

/// The rows of the guide's table, and the features that they are about.
const TREES: [(&str, &[&str]); 8] = [
    ("none (default: `server`, `macros`)", &[]),
    ("`schema`", &["--features=schema"]),
    ("`http`", &["--features=http"]),
    ("`http`, `tls`", &["--features=http,tls"]),
    ("`http`, `tls`, `auth`, `websocket`", &["--features=http,tls,auth,websocket"]),
    ("`client`", &["--features=client"]),
    ("`client` alone", &["--no-default-features", "--features=client"]),
    ("`client`, `http`, `tls` alone", &["--no-default-features", "--features=client,http,tls"]),
];

/// How many crates there are differs between systems.
#[cfg(target_os = "linux")]
#[test]
fn the_crates_are_as_many_as_the_guide_says_and_fewer_than_rmcps() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().parent().unwrap();
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let (readme, guide) = (text("README.md"), text("docs/guide/server.md"));
    for (row, features) in TREES {
        let count = crates(root, features);
        let line = |line: &&str| line.starts_with(&format!("| {row} |"));
        let line = guide.lines().find(line).unwrap();
        assert!(line.ends_with(&format!("| {count} |")), "{count} crates: {line}");
    }
    let plain = crates(root, &[]);
    assert!(plain <= RMCP_CRATES, "{plain}");
    // That is the README's server.
    let server = readme.split_once("## Write a server").unwrap().1;
    let asked = blocks(server, "toml")[0].lines().collect::<Vec<_>>();
    assert_eq!(asked[..2], ["[dependencies]", "mcplane = \"0.1\""]);
    let said = format!("needs {plain} crates, and {RMCP_CRATES} on rmcp 3.9");
    assert!(server.contains(&said), "{said}");
    assert!(guide.contains(&format!("With rmcp 3.9.0 come {RMCP_CRATES} for a server over stdio")));
    let peer = text("tests/interop/rmcp/Cargo.toml");
    assert!(peer.contains("rmcp = { version = \"=3.9.0\""), "count those of the new one");
}

/// How many crates come with the library.
fn crates(root: &Path, features: &[&str]) -> usize {
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["tree", "--offline", "-p", "mcplane", "-e", "normal", "--prefix", "none"])
        .args(features)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().collect::<BTreeSet<_>>().len()
}
