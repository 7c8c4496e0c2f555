//! The file by which programs of the same user find a gateway that runs: `endpoint.json` in a folder
//! that is its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The name of the file.
const FILE: &str = "endpoint.json";

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "plain data, as the file has it")]
pub struct Discovery {
    /// The endpoint of all servers.
    pub url: String,
    /// The gateway's process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When it began, in seconds since 1970.
    pub started_s: u64,
}

/// The file of this process. Dropping it takes the file away, unless another gateway has written
/// its own meanwhile.
#[derive(Debug)]
#[must_use = "the file is taken away when this is dropped"]
pub struct Announced(PathBuf);

impl Discovery {
    /// A gateway of this process.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            url: url.into(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            started_s: since.as_secs(),
        }
    }

    /// Writes the file; a reader sees the old one or the new one, never a part.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn announce(&self, folder: &Path) -> io::Result<Announced> {
        fs::create_dir_all(folder)?;
        let (path, part) = (folder.join(FILE), folder.join(format!("{FILE}.{}", self.pid)));
        fs::write(&part, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&part, &path)?;
        Ok(Announced(path))
    }

    /// The gateway that announced itself in this folder last; it may be gone.
    #[must_use]
    pub fn find(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        let is_ours = self.0.parent().and_then(Discovery::find);
        if is_ours.is_some_and(|found| found.pid == std::process::id()) {
            // Nobody reads it any more: a file that stays names a process that is gone.
            let _ = fs::remove_file(&self.0);
        }
    }
}
