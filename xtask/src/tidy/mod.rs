//! The project's own rules, which no compiler knows.
//!
//! * `graph` which crate may depend on which; a line for every dependency
//! * `circles` how many files may import each other
//! * `files` length, words and machine paths
//! * `documents` links, paths and the map

mod circles;
pub mod documents;
mod files;
mod graph;

pub use files::paths;

use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::run::{cargo, output, step};

/// Applies every rule and prints every breach.
pub fn tidy(root: &Path) -> anyhow::Result<()> {
    step("tidy", || {
        let metadata = metadata(root)?;
        let mut breaches = graph::breaches(&metadata, &dependencies_text(root));
        let paths = paths(root)?;
        breaches.extend(circles::breaches(root, &paths));
        breaches.extend(files::breaches(root, &paths));
        breaches.extend(documents::breaches(root, &paths));
        for breach in &breaches {
            println!("       {breach}");
        }
        match breaches.len() {
            0 => Ok(()),
            count => bail!("tidy: {count} breaches of the rules, listed above"),
        }
    })
}

/// What cargo knows of the workspace and of everything that it depends on.
pub fn metadata(root: &Path) -> anyhow::Result<Value> {
    let stdout = output(&mut cargo(root, &["metadata", "--format-version", "1"]))?;
    serde_json::from_slice(&stdout).context("cargo metadata is not JSON")
}

/// The packages of the workspace: those that come from no registry.
pub fn members(metadata: &Value) -> impl Iterator<Item = &Value> {
    let packages = metadata.get("packages").and_then(Value::as_array);
    packages.into_iter().flatten().filter(|package| is_null(package, "source"))
}

fn is_null(value: &Value, key: &str) -> bool {
    value.get(key).is_none_or(Value::is_null)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A missing file has no lines, which `graph` then reports for each dependency.
fn dependencies_text(root: &Path) -> String {
    std::fs::read_to_string(root.join(graph::DEPENDENCIES)).unwrap_or_default()
}
