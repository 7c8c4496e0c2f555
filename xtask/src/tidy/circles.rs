//! Files that import each other in a circle: a reader has to know all of them to know one. What a module
//! hands on with `pub use` is not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Most files that may import each other.
const CIRCLE_MAX: usize = 3;

/// The crates that are held to it.
const CRATES: [&str; 2] = ["crates/gateway/src/", "crates/lab/src/"];

/// The modules that each module imports.
type Arrows = BTreeMap<String, BTreeSet<String>>;

pub fn breaches(root: &Path, paths: &[String]) -> Vec<String> {
    let mut breaches = Vec::new();
    for folder in CRATES {
        let files = paths.iter().filter_map(|path| {
            let module = module(path.strip_prefix(folder)?)?;
            Some((module, fs::read_to_string(root.join(path)).ok()?))
        });
        for circle in circles(&arrows(&files.collect())) {
            if circle.len() > CIRCLE_MAX {
                let (count, names) = (circle.len(), circle.join(", "));
                breaches.push(format!(
                    "{folder}: {count} files import each other, and {CIRCLE_MAX} may: {names}"
                ));
            }
        }
    }
    breaches
}

/// The path of a file's module in its crate, which is empty for the crate itself; `None` for tests and
/// for what is not Rust.
fn module(path: &str) -> Option<String> {
    let path = path.strip_suffix(".rs")?;
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "mod" | "lib")).collect();
    (!names.contains(&"tests")).then(|| names.join("::"))
}

fn arrows(files: &BTreeMap<String, String>) -> Arrows {
    let of = |(module, text): (&String, &String)| {
        let imports = uses(text).into_iter().filter_map(|path| target(files, module, &path));
        (module.clone(), imports.filter(|other| other != module).collect())
    };
    files.iter().map(of).collect()
}

/// The paths of all imports at the top of a file, without groups.
fn uses(text: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for statement in text.split("\nuse ").skip(1) {
        let statement = statement.split(';').next().unwrap_or_default();
        expand("", &statement.split_whitespace().collect::<String>(), &mut paths);
    }
    paths
}

/// Takes `a::{b, c::{d, e}}` apart.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let Some((before, rest)) = tree.split_once('{') else {
        return paths.push(format!("{prefix}{tree}"));
    };
    let prefix = format!("{prefix}{before}");
    let (mut depth, mut start) = (0, 0);
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b',' | b'}' if depth == 0 => {
                expand(&prefix, rest.get(start..at).unwrap_or_default(), paths);
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The module of this crate that an import of a module leads to.
fn target(files: &BTreeMap<String, String>, module: &str, path: &str) -> Option<String> {
    let mut at: Vec<&str> = module.split("::").filter(|name| !name.is_empty()).collect();
    let mut names = path.split("::").peekable();
    match names.peek() {
        Some(&"crate") => at.clear(),
        Some(&"super" | &"self") => {}
        // A module of a folder names those in it.
        Some(first) if files.contains_key(&[&at[..], &[*first]].concat().join("::")) => {}
        _ => return None,
    }
    for name in names {
        match name {
            "crate" | "self" => {}
            "super" => drop(at.pop()),
            name => {
                at.push(name);
                if !files.contains_key(&at.join("::")) {
                    at.pop();
                    break;
                }
            }
        }
    }
    Some(at.join("::"))
}

/// Modules that reach each other, together.
fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let reach: BTreeMap<_, _> = arrows.keys().map(|from| (from, reached(arrows, from))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for (from, reached) in &reach {
        let is_back = |to: &&String| reach.get(to).is_some_and(|back| back.contains(*from));
        let circle: Vec<String> = reached.iter().filter(is_back).cloned().collect();
        if !circle.is_empty() && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reached(arrows: &Arrows, from: &str) -> BTreeSet<String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = next.pop() {
        for to in arrows.get(&module).into_iter().flatten() {
            if reached.insert(to.clone()) {
                next.push(to.clone());
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(texts: &[(&str, &str)]) -> BTreeMap<String, String> {
        let of = |(name, text): &(&str, &str)| {
            module(name).map(|module| (module, format!("//! It.\n\n{text}")))
        };
        texts.iter().filter_map(of).collect()
    }

    #[test]
    fn imports_are_followed_through_groups_and_folders() {
        let files = files(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b;\n\nuse b::B;\nuse std::fmt;\n"),
            ("a/b.rs", "use super::c::{C, D};\nuse crate::e::{\n    self,\n    f::{F, G},\n};\n"),
            ("a/c.rs", "use super::A;\n"),
            ("e.rs", "pub use crate::a::A;\n"),
            ("a/tests/d.rs", "use crate::a::A;\n"),
        ]);
        let arrows = arrows(&files);
        let of = |module: &str| arrows.get(module).unwrap().iter().cloned().collect::<Vec<_>>();
        assert_eq!(of("a"), ["a::b"]);
        assert_eq!(of("a::b"), ["a::c", "e"]);
        assert_eq!(of("a::c"), ["a"]);
        assert!(of("e").is_empty(), "what is handed on is not used");
        assert_eq!(circles(&arrows), [["a", "a::b", "a::c"]]);
    }
}
