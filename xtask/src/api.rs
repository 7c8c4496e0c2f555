//! The public API of the libraries, one item a line, against what is committed.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::run::{cargo, line, run, step};
use crate::tidy;

/// A library with its crate's name, and the file. What `mcplane` passes on of its macros is in its own.
const LIBRARIES: [(&str, &str, &str); 2] = [
    ("mcplane", "mcplane", "crates/mcplane/api.txt"),
    ("mcplane-proto", "mcplane_proto", "crates/proto/api.txt"),
];

/// Set for cargo, it makes this program the rustdoc that cargo calls.
const AS_RUSTDOC: &str = "MCPLANE_XTASK_RUSTDOC";

/// Most lines of a difference that are shown.
const SHOWN_MAX: usize = 40;

/// Writes the files anew.
pub fn update(root: &Path) -> anyhow::Result<()> {
    for (package, name, file) in LIBRARIES {
        fs::write(root.join(file), api(root, package, name)?)
            .with_context(|| format!("cannot write {file}"))?;
    }
    Ok(())
}

/// Compares the files with the code.
pub fn check(root: &Path) -> anyhow::Result<()> {
    for (package, name, file) in LIBRARIES {
        step(&format!("API of {package}"), || {
            let committed = fs::read_to_string(root.join(file)).unwrap_or_default();
            let differences = differences(&committed, &api(root, package, name)?);
            if differences.is_empty() {
                return Ok(());
            }
            let shown = differences.iter().take(SHOWN_MAX).map(String::as_str).collect::<Vec<_>>();
            bail!(
                "the public API is not that of {file}; `cargo xtask api` writes it anew\n{}",
                shown.join("\n")
            )
        })?;
    }
    Ok(())
}

/// What was taken away, then what came, a sign before each line.
fn differences(committed: &str, now: &str) -> Vec<String> {
    let of = |sign: char, text: &str, other: &str| {
        let other: std::collections::HashSet<&str> = other.lines().collect();
        let only = text.lines().filter(|line| !other.contains(line));
        only.map(|line| format!("{sign} {line}")).collect::<Vec<_>>()
    };
    [of('-', committed, now), of('+', now, committed)].concat()
}

/// Without what follows from other lines: what every type has, and what `derive` makes.
fn api(root: &Path, package: &str, name: &str) -> anyhow::Result<String> {
    let args = ["rustdoc", "--quiet", "-p", package, "--lib", "--all-features", "--"];
    let json = ["-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"];
    let mut command = cargo(root, &[&args[..], &json].concat());
    let rustdoc = env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    let this = env::current_exe().context("which program is this?")?;
    println!("       {}", line(&command));
    run(command.env("RUSTDOC", this).env(AS_RUSTDOC, rustdoc))?;
    let metadata = tidy::metadata(root)?;
    let target = metadata.get("target_directory").and_then(Value::as_str);
    let target = target.context("cargo does not say where it builds")?;
    let json = Path::new(target).join("doc").join(name).with_extension("json");
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build()?;
    Ok(api.items().map(|item| format!("{item}\n")).collect())
}

/// Called as rustdoc, does what it does with JSON allowed, which the stable one only has behind this
/// variable. Set for cargo itself, the variable would make it build everything again.
pub fn as_rustdoc() -> Option<ExitCode> {
    let rustdoc = env::var_os(AS_RUSTDOC)?;
    let words = env::args_os().skip(1);
    let status = Command::new(&rustdoc).args(words).env("RUSTC_BOOTSTRAP", "1").status();
    Some(match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: cannot start {}: {error}", OsStr::display(&rustdoc));
            ExitCode::FAILURE
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_and_what_went_is_told() {
        let differences = differences("pub mod a\npub fn a::b()\n", "pub mod a\npub fn a::c()\n");
        assert_eq!(differences, ["- pub fn a::b()", "+ pub fn a::c()"]);
        assert!(super::differences("x\n", "x\n").is_empty());
        assert_eq!(super::differences("", "x\n"), ["+ x"], "a file that is not there");
    }
}
