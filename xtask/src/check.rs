//! Everything that is checked without running a test.

use std::collections::BTreeSet;
use std::iter;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::run::{cargo, line, run, step};
use crate::tidy;

/// Workspaces of their own (other lock files), formatted by the same rules.
const OUTSIDE: [&str; 2] = ["fuzz/Cargo.toml", "tests/interop/rmcp/Cargo.toml"];

/// Tidy, format, clippy, docs; stops at the first failure.
pub fn check(root: &Path) -> anyhow::Result<()> {
    tidy::tidy(root)?;
    shown("format", &mut cargo(root, &["fmt", "--all", "--check"]))?;
    for manifest in OUTSIDE.into_iter().filter(|manifest| root.join(manifest).exists()) {
        let args = ["fmt", "--check", "--manifest-path", manifest];
        shown("format", &mut cargo(root, &args))?;
    }
    for (name, args) in clippy_runs(&tidy::metadata(root)?) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        shown(name, &mut cargo(root, &args))?;
    }
    docs(root)
}

/// The API documentation, without a warning. The binary is left out: its name is the library's.
pub fn docs(root: &Path) -> anyhow::Result<()> {
    let mut command = cargo(root, &["doc", "--workspace", "--no-deps", "--lib"]);
    shown("docs", command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn shown(name: &str, command: &mut Command) -> anyhow::Result<()> {
    println!("       {}", line(command));
    step(name, || run(command))
}

/// Features that users have together, beside each alone.
const TOGETHER: [(&str, [&str; 4]); 1] =
    [("mcplane", ["client,http", "http,server", "client,tls,websocket", "server,tls,websocket"])];

/// One run over everything, one with all features over the packages that have any, and some over each
/// library that is published and has features: without any, with each, and with some together. In the
/// workspace others ask for them, and its tests have both sides.
fn clippy_runs(metadata: &Value) -> Vec<(&'static str, Vec<String>)> {
    let mut runs = vec![("clippy", clippy(&["--workspace", "--all-targets"]))];
    for package in tidy::members(metadata).filter(is_published).filter(has_features) {
        let Some(name) = name(package) else { continue };
        let together = TOGETHER.iter().filter(|(of, _)| *of == name).flat_map(|(_, sets)| sets);
        for features in iter::once("").chain(features(package)).chain(together.copied()) {
            let args = ["--lib", "-p", name, "--no-default-features", "--features", features];
            runs.push(("clippy with some features", clippy(&args)));
        }
    }
    let with: Vec<_> = tidy::members(metadata).filter(has_features).filter_map(name).collect();
    if !with.is_empty() {
        let mut args = vec!["--all-targets", "--all-features"];
        args.extend(with.iter().flat_map(|package| ["-p", package]));
        runs.push(("clippy with all features", clippy(&args)));
    }
    runs
}

/// What users build without the features that the workspace's other packages ask for.
pub fn published_with_features(metadata: &Value) -> impl Iterator<Item = &str> {
    tidy::members(metadata).filter(is_published).filter(has_features).filter_map(name)
}

/// The names of the workspace's test programs, once each.
pub fn test_targets(metadata: &Value) -> BTreeSet<&str> {
    let targets = tidy::members(metadata).filter_map(|package| package.get("targets")?.as_array());
    let is_test = |target: &&Value| target.pointer("/kind/0").is_some_and(|kind| kind == "test");
    targets.flatten().filter(is_test).filter_map(name).collect()
}

/// Null is any registry, an empty list none.
fn is_published(package: &&Value) -> bool {
    package.get("publish").is_none_or(Value::is_null)
}

fn has_features(package: &&Value) -> bool {
    features(package).next().is_some()
}

fn features(package: &Value) -> impl Iterator<Item = &str> {
    let features = package.get("features").and_then(Value::as_object);
    let names = features.into_iter().flat_map(|features| features.keys());
    names.map(String::as_str).filter(|name| *name != "default")
}

fn name(package: &Value) -> Option<&str> {
    package.get("name")?.as_str()
}

fn clippy(args: &[&str]) -> Vec<String> {
    let args = [&["clippy", "--quiet"], args, &["--", "-D", "warnings"]];
    args.concat().into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clippy_runs_again_only_where_features_differ() {
        let package = |name: &str, features: Value, publish: Value| json!({ "name": name, "id": name, "source": null, "features": features, "publish": publish });
        let mut metadata = json!({ "packages": [package("plain", json!({}), json!(null))] });
        assert_eq!(clippy_runs(&metadata).len(), 1);

        metadata["packages"] = json!([
            package("plain", json!({}), json!(null)),
            package("opt", json!({ "tls": [] }), json!([])),
            package("rich", json!({ "default": ["a"], "a": [] }), json!(null)),
            package("lean", json!({ "default": [], "b": [] }), json!(null)),
        ]);
        let runs: Vec<String> =
            clippy_runs(&metadata).into_iter().map(|(_, args)| args.join(" ")).collect();
        assert_eq!(
            runs,
            [
                "clippy --quiet --workspace --all-targets -- -D warnings",
                "clippy --quiet --lib -p rich --no-default-features --features  -- -D warnings",
                "clippy --quiet --lib -p rich --no-default-features --features a -- -D warnings",
                "clippy --quiet --lib -p lean --no-default-features --features  -- -D warnings",
                "clippy --quiet --lib -p lean --no-default-features --features b -- -D warnings",
                "clippy --quiet --all-targets --all-features -p opt -p rich -p lean -- -D warnings",
            ]
        );
    }
}
