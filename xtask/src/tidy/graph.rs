//! Who may depend on whom, and on what.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{is_null, members, text};

/// The file with one line for each third-party crate that we name in a manifest.
pub const DEPENDENCIES: &str = "DEPENDENCIES.md";

/// The picture in ARCHITECTURE.md, as a table: a crate and the crates that it may depend on.
const EDGES: [(&str, &[&str]); 15] = [
    ("mcplane", &["mcplane-macros", "mcplane-process", "mcplane-proto"]),
    (
        "mcplane-cli",
        &["mcplane", "mcplane-gateway", "mcplane-lab", "mcplane-process", "mcplane-suite"],
    ),
    ("mcplane-fuzz-targets", &["mcplane", "mcplane-gateway", "mcplane-proto"]),
    ("mcplane-gateway", &["mcplane"]),
    ("mcplane-guide", &[]),
    ("mcplane-icount", &["mcplane", "mcplane-gateway", "mcplane-proto"]),
    ("mcplane-lab", &["mcplane-process", "mcplane-proto"]),
    ("mcplane-macros", &[]),
    ("mcplane-process", &[]),
    ("mcplane-proto", &[]),
    ("mcplane-races", &[]),
    ("mcplane-suite", &["mcplane", "mcplane-gateway", "mcplane-lab", "mcplane-process"]),
    ("mcplane-testkit", &["mcplane-proto"]),
    ("mcplane-tests", &[]),
    ("xtask", &[]),
];

/// The same for what only tests use.
const EDGES_OF_TESTS: [(&str, &[&str]); 4] = [
    ("mcplane", &["mcplane"]),
    ("mcplane-gateway", &["mcplane-testkit"]),
    ("mcplane-guide", &["mcplane"]),
    ("mcplane-tests", &["mcplane", "mcplane-proto", "mcplane-testkit"]),
];

/// Every breach of the rules of this file.
pub fn breaches(metadata: &Value, dependencies_text: &str) -> Vec<String> {
    let mut breaches = edges(metadata);
    breaches.extend(undocumented(metadata, dependencies_text));
    breaches
}

fn edges(metadata: &Value) -> Vec<String> {
    let names: BTreeSet<&str> = members(metadata).map(|package| text(package, "name")).collect();
    let mut breaches = Vec::new();
    for package in members(metadata) {
        let from = text(package, "name");
        let Some(allowed) = lookup(&EDGES, from) else {
            breaches.push(format!(
                "crate {from} is not in the picture: draw it in ARCHITECTURE.md, then add it to xtask/src/tidy/graph.rs"
            ));
            continue;
        };
        for dependency in dependencies(package) {
            let to = text(dependency, "name");
            let is_of_tests = text(dependency, "kind") == "dev";
            let in_tests =
                is_of_tests && lookup(&EDGES_OF_TESTS, from).unwrap_or(&[]).contains(&to);
            if names.contains(to) && !allowed.contains(&to) && !in_tests {
                let what = if is_of_tests { "dev-depends" } else { "depends" };
                breaches.push(format!("{from} {what} on {to}: that edge is not in the picture"));
            }
        }
    }
    breaches
}

fn lookup<'a>(table: &[(&str, &'a [&'a str])], from: &str) -> Option<&'a [&'a str]> {
    table.iter().find(|(name, _)| *name == from).map(|(_, to)| *to)
}

fn dependencies(package: &Value) -> impl Iterator<Item = &Value> {
    package.get("dependencies").and_then(Value::as_array).into_iter().flatten()
}

/// Third-party crates that a manifest names and the list of reasons does not.
fn undocumented(metadata: &Value, dependencies_text: &str) -> Vec<String> {
    let third_party = members(metadata).flat_map(dependencies).filter(|to| !is_null(to, "source"));
    let names: BTreeSet<&str> = third_party.map(|to| text(to, "name")).collect();
    let missing =
        names.into_iter().filter(|name| !dependencies_text.contains(&format!("`{name}`")));
    missing
        .map(|name| {
            format!("{DEPENDENCIES} has no line for `{name}`: need, alternatives, cost, exit")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A crate, and the crates that it depends on, each with its kind.
    type Crate<'a> = (&'a str, &'a [(&'a str, Option<&'a str>)]);

    fn workspace(packages: &[Crate<'_>]) -> Value {
        let packages: Vec<Value> = packages
            .iter()
            .map(|(name, dependencies)| {
                let dependencies: Vec<Value> = dependencies
                    .iter()
                    .map(|(to, kind)| {
                        let is_ours = to.starts_with("mcplane");
                        let source = if is_ours { Value::Null } else { json!("registry") };
                        json!({ "name": to, "kind": kind, "source": source })
                    })
                    .collect();
                json!({ "name": name, "source": null, "license": "MIT", "dependencies": dependencies })
            })
            .collect();
        json!({ "packages": packages })
    }

    #[test]
    fn edges_in_the_picture_pass() {
        let metadata = workspace(&[
            ("mcplane", &[("mcplane-proto", None), ("bytes", None)]),
            ("mcplane-proto", &[]),
            ("mcplane-tests", &[("mcplane", Some("dev")), ("mcplane-testkit", Some("dev"))]),
            ("mcplane-testkit", &[("mcplane-proto", None)]),
        ]);
        assert_eq!(edges(&metadata), [""; 0]);
    }

    #[test]
    fn other_edges_are_named() {
        let metadata = workspace(&[
            ("mcplane", &[("mcplane-lab", Some("dev"))]),
            ("mcplane-lab", &[("mcplane", None)]),
            ("mcplane-tests", &[("mcplane", None)]),
            ("mcplane-new", &[]),
        ]);
        let breaches = edges(&metadata).join("\n");
        for part in [
            "mcplane dev-depends on mcplane-lab",
            "mcplane-lab depends on mcplane:",
            "mcplane-tests depends on mcplane:",
            "crate mcplane-new is not in the picture",
        ] {
            assert!(breaches.contains(part), "{part} in:\n{breaches}");
        }
        assert_eq!(breaches.lines().count(), 4);
    }

    #[test]
    fn each_dependency_has_a_line() {
        let metadata = workspace(&[
            ("mcplane", &[("bytes", None), ("tokio", None), ("mcplane-proto", None)]),
            ("mcplane-proto", &[("bytes", None), ("proptest", Some("dev"))]),
        ]);
        let breaches = undocumented(&metadata, "| `tokio` | async |\n64 bytes\n");
        assert_eq!(breaches.len(), 2);
        assert!(breaches[0].contains("`bytes`") && breaches[1].contains("`proptest`"));
    }
}
