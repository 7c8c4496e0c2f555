//! Everything that is checked without running a test.

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

/// One run over everything, and one each without and with all features over the packages for which
/// that makes a difference.
fn clippy_runs(metadata: &Value) -> Vec<(&'static str, Vec<String>)> {
    let without = packages_where(metadata, |features| {
        features.get("default").and_then(Value::as_array).is_some_and(|default| !default.is_empty())
    });
    let with = packages_where(metadata, |features| features.keys().any(|name| name != "default"));
    let mut runs = vec![("clippy", clippy(&["--workspace"]))];
    for (name, flag, packages) in [
        ("clippy without default features", "--no-default-features", without),
        ("clippy with all features", "--all-features", with),
    ] {
        if !packages.is_empty() {
            let mut args = vec![flag];
            args.extend(packages.iter().flat_map(|package| ["-p", package.as_str()]));
            runs.push((name, clippy(&args)));
        }
    }
    runs
}

fn clippy(args: &[&str]) -> Vec<String> {
    let args = [&["clippy", "--quiet", "--all-targets"], args, &["--", "-D", "warnings"]];
    args.concat().into_iter().map(str::to_owned).collect()
}

/// The workspace's packages whose features pass `test`.
fn packages_where(
    metadata: &Value,
    test: impl Fn(&serde_json::Map<String, Value>) -> bool,
) -> Vec<String> {
    let members = tidy::members(metadata);
    let passes =
        |package: &&Value| package.get("features").and_then(Value::as_object).is_some_and(&test);
    let names = members.filter(passes).filter_map(|package| package.get("name")?.as_str());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clippy_runs_again_only_where_features_differ() {
        let package = |name: &str, features: Value| json!({ "name": name, "id": name, "source": null, "features": features });
        let mut metadata = json!({ "packages": [package("plain", json!({}))] });
        assert_eq!(clippy_runs(&metadata).len(), 1);

        metadata["packages"] = json!([
            package("plain", json!({})),
            package("opt", json!({ "tls": [] })),
            package("rich", json!({ "default": ["a"], "a": [] })),
        ]);
        let runs: Vec<String> =
            clippy_runs(&metadata).into_iter().map(|(_, args)| args.join(" ")).collect();
        assert_eq!(
            runs,
            [
                "clippy --quiet --all-targets --workspace -- -D warnings",
                "clippy --quiet --all-targets --no-default-features -p rich -- -D warnings",
                "clippy --quiet --all-targets --all-features -p opt -p rich -- -D warnings",
            ]
        );
    }
}
