//! What the documents point at exists: links, anchors, and paths in backticks. The map in
//! ARCHITECTURE.md names every folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const MAP: &str = "ARCHITECTURE.md";

/// Folders of which the map names each subfolder, too.
const MAPPED: [&str; 4] = ["bench", "crates", "docs", "tests"];

/// Every breach of the rules of this file.
pub fn breaches(root: &Path, paths: &[String]) -> Vec<String> {
    let tree = Tree::new(paths);
    let documents = paths.iter().filter(|path| path.ends_with(".md"));
    let documents: BTreeMap<&str, String> = documents
        .filter_map(|path| Some((path.as_str(), fs::read_to_string(root.join(path)).ok()?)))
        .collect();
    let mut breaches = unmapped(documents.get(MAP).map_or("", String::as_str), &tree);
    for (path, text) in &documents {
        breaches.extend(dangling(path, text, &tree, &documents));
    }
    breaches
}

/// The files that git tracks, and their folders.
struct Tree<'a> {
    entries: BTreeSet<&'a str>,
}

impl<'a> Tree<'a> {
    fn new(paths: &'a [String]) -> Self {
        let with_folders = |path: &'a String| {
            path.match_indices('/').filter_map(|(at, _)| path.get(..at)).chain([path.as_str()])
        };
        Self { entries: paths.iter().flat_map(with_folders).collect() }
    }

    fn has(&self, path: &str) -> bool {
        path.is_empty() || self.entries.contains(path.trim_end_matches('/'))
    }

    /// The folders right below `parent`; the top ones if it is empty.
    fn folders(&self, parent: &str) -> BTreeSet<&'a str> {
        let below = |path: &&'a str| {
            let rest = path.strip_prefix(parent)?;
            let rest = if parent.is_empty() { rest } else { rest.strip_prefix('/')? };
            rest.split_once('/').map(|(folder, _)| folder)
        };
        self.entries.iter().filter_map(below).collect()
    }
}

/// Folders that the first block of the map does not name as `NAME/`.
fn unmapped(map: &str, tree: &Tree<'_>) -> Vec<String> {
    let drawn = map.split("```").nth(1).unwrap_or_default();
    let named: BTreeSet<&str> = drawn.split_whitespace().collect();
    let mut missing = Vec::new();
    for parent in [""].into_iter().chain(MAPPED) {
        for folder in tree.folders(parent) {
            if !named.contains(format!("{folder}/").as_str()) {
                let path =
                    if parent.is_empty() { folder.into() } else { format!("{parent}/{folder}") };
                missing.push(format!("{MAP}: the map does not name `{path}/`"));
            }
        }
    }
    missing
}

/// Links, anchors and paths of one document that lead nowhere.
fn dangling(
    path: &str,
    text: &str,
    tree: &Tree<'_>,
    documents: &BTreeMap<&str, String>,
) -> Vec<String> {
    let mut breaches = Vec::new();
    for (number, line) in prose(text) {
        for link in links(line) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { Some(path.to_owned()) } else { resolve(path, file) };
            let Some(target) = target.filter(|target| tree.has(target)) else {
                breaches.push(format!("{path}:{number}: nothing is at `{link}`"));
                continue;
            };
            let has_anchor = |text: &String| anchors(text).contains(anchor);
            if !anchor.is_empty() && !documents.get(target.as_str()).is_some_and(has_anchor) {
                breaches.push(format!("{path}:{number}: `{link}` has no such heading"));
            }
        }
        for code in line.split('`').skip(1).step_by(2) {
            if named_path(code, tree).is_some_and(|named| !tree.has(&named)) {
                breaches.push(format!("{path}:{number}: there is no `{code}`"));
            }
        }
    }
    breaches
}

/// The numbered lines outside of fenced blocks.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// The targets of the line's links that stay in the repository.
pub fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// A link of the document at `from`, as a path from the root; nothing if it leaves the repository.
pub fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a document's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The path from the root that a piece of code names: one that begins with a top folder, or with a
/// crate's (`proto/src/…`).
fn named_path(code: &str, tree: &Tree<'_>) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let (first, rest) = code.split_once('/')?;
    if !code.chars().all(is_plain) {
        return None;
    }
    if tree.folders("").contains(first) {
        return Some(code.to_owned());
    }
    let is_inside = ["src", "tests", "examples"].contains(&rest.split('/').next().unwrap_or(rest));
    (is_inside && tree.folders("crates").contains(first)).then(|| format!("crates/{code}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let paths = ["crates/proto/src/lib.rs", "docs/a/one.md", "docs/two.md", "README.md"];
        let paths = paths.map(str::to_owned);
        let two = "# Two\n\n## `[gateway]` and more\n".to_owned();
        let documents = BTreeMap::from([("docs/two.md", two), ("docs/a/one.md", text.to_owned())]);
        dangling("docs/a/one.md", text, &Tree::new(&paths), &documents)
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        for link in
            ["../two.md", "../two.md#gateway-and-more", "../../README.md", "../", "https://a.b/c"]
        {
            assert_eq!(found(&format!("[x]({link})")), [""; 0], "{link}");
        }
        for link in ["two.md", "../two.md#gateway", "../../../README.md", "#two", "../three.md"] {
            assert_eq!(found(&format!("a\n[x]({link})")).len(), 1, "{link}");
        }
        assert_eq!(found("# One\n[x](#one)\n```\n# not a heading\n[x](nowhere.md)\n```"), [""; 0]);
        assert_eq!(found("[x](#not-a-heading)\n```\n# not a heading\n```").len(), 1);
    }

    #[test]
    fn paths_in_backticks_exist() {
        for code in ["crates/proto", "proto/src/lib.rs", "docs/a/", "tools/call", "src/main.rs"] {
            assert_eq!(found(&format!("`{code}`")), [""; 0], "{code}");
        }
        for code in ["crates/prot", "proto/src/li.rs", "docs/one.md"] {
            assert_eq!(found(&format!("`x` and `{code}`")).len(), 1, "{code}");
        }
    }

    #[test]
    fn the_map_names_every_folder() {
        let paths = ["bench/icount/a.rs", "crates/proto/src/lib.rs", "docs/a/b.md", "x/y/z"];
        let paths = paths.map(str::to_owned);
        let tree = Tree::new(&paths);
        let map = "```\ncrates/\n  proto/  the protocol\nbench/  icount/\ndocs/ a/\nx/\n```";
        assert_eq!(unmapped(map, &tree), [""; 0]);
        let missing = unmapped(&map.replace("proto/", "").replace("x/", ""), &tree);
        assert_eq!(missing.len(), 2, "{missing:?}");
    }
}
