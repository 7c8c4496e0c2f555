//! What comes in with the dependencies: licences, sources, bans (`deny.toml`), known vulnerabilities.

use std::path::Path;
use std::process::Command;

use crate::interop::Peer;
use crate::run::{output, run, step};

/// Lock files beside the workspace's own: their crates run on our machines too.
const LOCK_FILES: [&str; 3] = ["Cargo.lock", "fuzz/Cargo.lock", "tests/interop/rmcp/Cargo.lock"];

/// Checks the tree. What needs no network always counts. The advisories are a repository that is
/// fetched anew each time: where it cannot be reached, that is returned, unless they are `required`.
pub fn supply(root: &Path, required: bool) -> anyhow::Result<Option<String>> {
    let peer = Peer::new(root, "xtask/supply", "supply");
    step("supply set-up", || peer.venv())?;
    let tool = |name: &str| {
        let mut command = Command::new(peer.installed.join("bin").join(name));
        command.current_dir(root);
        command
    };
    step("licences, sources and bans", || {
        run(tool("cargo-deny").args(["--offline", "check", "bans", "licenses", "sources"]))
    })?;
    if let Err(error) = output(tool("cargo-deny").args(["fetch", "db"])) {
        if required {
            return Err(error.context("the advisories cannot be fetched"));
        }
        return Ok(Some("advisories: their repository cannot be reached from here".to_owned()));
    }
    // cargo-deny looks through the workspace and knows what was withdrawn, cargo-audit through the
    // other lock files too.
    step("advisories", || {
        run(tool("cargo-deny").args(["check", "advisories"]))?;
        LOCK_FILES.into_iter().try_for_each(|file| {
            run(tool("cargo-audit").args(["audit", "--no-yanked", "--file", file]))
        })
    })?;
    Ok(None)
}
