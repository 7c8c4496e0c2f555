//! The length and the place of files, words that must not stay, and paths of one machine.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use flate2::read::MultiGzDecoder;

use crate::run::output;

/// Longest source file, in lines. Functions are measured by clippy.
const LINES_MAX: usize = 600;

/// Source that is measured less strictly: long lists of cases read better in one piece.
const LONG_FOLDERS: [&str; 2] = ["tests", "fuzz"];

/// Marks of unfinished work, written in two parts so that this file passes.
const WORDS: [&str; 6] = [
    concat!("todo", "!"),
    concat!("unimplemented", "!"),
    concat!("dbg", "!"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("#[", "ignore"),
];

/// Folders that exist on somebody's machine, likewise.
const MACHINE_PATHS: [&str; 3] =
    [concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];

/// Names that stand for any user in an example.
const ANYBODY: [&str; 3] = ["user", "you", "me"];

/// Not ours to judge, where git is not there to tell.
const GENERATED: [&str; 7] =
    [".git", ".interop", "__pycache__", "artifacts", "corpus", "node_modules", "target"];

/// Every breach of the rules of this file.
pub fn breaches(root: &Path, paths: &[String]) -> Vec<String> {
    let mut breaches = misplaced(paths);
    for path in paths {
        // Gone from the folder but not yet from the index.
        let Ok(bytes) = fs::read(root.join(path)) else { continue };
        match unpacked(path, bytes) {
            Ok(bytes) => breaches.extend(breaches_in(path, &String::from_utf8_lossy(&bytes))),
            Err(error) => breaches.push(format!("{path} cannot be unpacked: {error}")),
        }
    }
    breaches
}

/// Modules that lie beside their folder. Programs of tests have to.
fn misplaced(paths: &[String]) -> Vec<String> {
    let sources: BTreeSet<&str> =
        paths.iter().filter_map(|path| path.strip_suffix(".rs")).collect();
    let has_folder = |path: &&&str| {
        let folder = format!("{path}/");
        let next = sources.range(folder.as_str()..).next();
        path.contains("src/") && next.is_some_and(|next| next.starts_with(&folder))
    };
    let modules = sources.iter().filter(has_folder);
    modules.map(|path| format!("{path}.rs has a folder: it is {path}/mod.rs")).collect()
}

/// What a file holds, which no compression hides.
fn unpacked(path: &str, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    if !path.ends_with(".gz") {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut plain)?;
    Ok(plain)
}

fn breaches_in(path: &str, text: &str) -> Vec<String> {
    let is_rust = path.ends_with(".rs");
    let may_be_long = path.split('/').any(|part| LONG_FOLDERS.contains(&part));
    let mut breaches = Vec::new();
    let lines = text.lines().count();
    if is_rust && !may_be_long && lines > LINES_MAX {
        breaches.push(format!("{path}: {lines} lines, more than {LINES_MAX}: split it by concept"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(word) = WORDS.iter().find(|word| is_rust && line.contains(**word)) {
            breaches.push(format!("{path}:{number}: `{word}` marks unfinished work"));
        }
        if let Some(found) = MACHINE_PATHS.iter().find(|found| names_machine(line, found)) {
            breaches.push(format!("{path}:{number}: `{found}` is a path of one machine"));
        }
    }
    breaches
}

/// Whether the line holds an absolute path under `folder`. Inside a longer path or after a URI's
/// scheme the same letters mean something else.
fn names_machine(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line.get(..at).and_then(|start| start.chars().next_back());
        let after = line.get(at + folder.len()..).unwrap_or_default();
        let name = after.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let is_inside = before.is_some_and(|c| c.is_alphanumeric() || "/.-_*}~".contains(c));
        !is_inside && !ANYBODY.contains(&name)
    })
}

/// The files that git tracks or would track, relative to the root.
pub fn paths(root: &Path) -> anyhow::Result<Vec<String>> {
    if !root.join(".git").exists() {
        return walked(root);
    }
    // The folder may belong to another user than the one who runs the check in a container.
    let mut git = Command::new("git");
    git.arg("-c").arg(format!("safe.directory={}", root.display())).arg("-C").arg(root);
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let stdout = output(&mut git)?;
    let names = stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// The same without git, as in an unpacked archive.
fn walked(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            let is_generated = GENERATED.iter().any(|name| entry.file_name() == *name);
            if kind.is_dir() && !is_generated {
                folders.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                files.push(path.strip_prefix(root)?.to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn compression_hides_nothing() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        io::Write::write_all(&mut packed, b"plain").unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(unpacked("a.jsonl.gz", packed.clone()).unwrap(), b"plain");
        assert_eq!(unpacked("a.bin", packed.clone()).unwrap(), packed);
        assert!(unpacked("a.gz", b"plain".to_vec()).is_err());
    }

    #[test]
    fn a_long_file_is_a_breach_outside_tests() {
        let long = "x\n".repeat(LINES_MAX + 1);
        assert_eq!(breaches_in("crates/a/src/lib.rs", &long).len(), 1);
        assert_eq!(breaches_in("crates/a/src/lib.rs", &"x\n".repeat(LINES_MAX)).len(), 0);
        assert_eq!(breaches_in("crates/a/tests/all.rs", &long).len(), 0);
        assert_eq!(breaches_in("fuzz/fuzz_targets/lines.rs", &long).len(), 0);
        assert_eq!(breaches_in("bench/results/raw.csv", &long).len(), 0);
    }

    #[test]
    fn a_module_lies_in_its_folder() {
        let found = |paths: &[&str]| {
            misplaced(&paths.iter().copied().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(found(&["a/src/lib.rs", "a/src/b/mod.rs", "a/src/b/c.rs"]), [""; 0]);
        assert_eq!(found(&["a/src/b.rs", "a/src/bc/mod.rs", "a/src/b/style.css"]), [""; 0]);
        assert_eq!(found(&["a/tests/b.rs", "a/tests/b/c.rs"]), [""; 0]);
        let breaches = found(&["a/src/b.rs", "a/src/b-c.rs", "a/src/b/c.rs"]);
        assert_eq!(breaches, ["a/src/b.rs has a folder: it is a/src/b/mod.rs"]);
    }

    #[test]
    fn unfinished_work_is_a_breach_in_source_only() {
        for word in WORDS {
            let line = format!("    {word}");
            assert_eq!(breaches_in("tests/wire/a.rs", &format!("a\n{line}")).len(), 1, "{word}");
            assert_eq!(breaches_in("README.md", &line).len(), 0, "{word}");
        }
        let breach = breaches_in("a.rs", &format!("a\n{}", WORDS[0])).join("");
        assert!(breach.starts_with("a.rs:2: "), "{breach}");
    }

    #[test]
    fn machine_paths_are_breaches_everywhere() {
        for folder in MACHINE_PATHS {
            assert_eq!(breaches_in("a.json", &format!("{{\"cwd\": \"{folder}x\"}}")).len(), 1);
            assert_eq!(breaches_in("a.md", &format!("{folder}deep/er")).len(), 1);
            assert_eq!(breaches_in("a.md", &format!("https://example.com{folder}x")).len(), 0);
            assert_eq!(breaches_in("a.md", &format!("file://{folder}user/x")).len(), 0);
            assert_eq!(breaches_in("a.md", &format!("cd {folder}you/project")).len(), 0);
        }
    }

    #[test]
    fn without_git_the_folder_is_walked() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = walked(root).unwrap();
        assert!(files.contains(&"src/tidy/files.rs".to_owned()), "{files:?}");
        assert!(files.contains(&"Cargo.toml".to_owned()));
    }
}
