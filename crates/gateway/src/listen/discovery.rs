//! How programs of the same user find a running gateway: each has a folder, `gateways/PID` in the state
//! folder, with `endpoint.json` and a file that is locked while it runs. The folder of a gateway that
//! was killed is recognised by its free lock.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::private;

/// The folder with one folder for each gateway that runs, in the state folder.
const GATEWAYS: &str = "gateways";

/// The file that says where it is.
const FILE: &str = "endpoint.json";

/// The locked file.
const LOCK: &str = "lock";

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

/// The folder of this process. Dropping it removes the folder.
#[derive(Debug)]
#[must_use = "nobody finds the gateway when this is dropped"]
pub struct Announced {
    folder: PathBuf,
    _lock: File,
}

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

    /// Announces the gateway of this process in a state folder.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn announce(&self, state: &Path) -> io::Result<Announced> {
        let all = state.join(GATEWAYS);
        private::make(&all)?;
        let folder = all.join(self.pid.to_string());
        private::make(&folder)?;
        fs::write(folder.join(FILE), serde_json::to_vec_pretty(self)?)?;
        // A folder with a free lock is removed, and one without a lock is not read: so the lock gets its
        // name last, when everything else is there and it is held.
        let fresh = folder.join(format!("{LOCK}.new"));
        let lock = File::create(&fresh)?;
        lock.lock()?;
        fs::rename(fresh, folder.join(LOCK))?;
        Ok(Announced { folder, _lock: lock })
    }

    /// The running gateway that started last, of those announced in a state folder. Removes what killed
    /// gateways have left behind.
    #[must_use]
    pub fn newest(state: &Path) -> Option<Self> {
        let all = state.join(GATEWAYS);
        // A client that follows this address also sends its token there.
        private::check(&all).ok()?;
        let running = fs::read_dir(all).ok()?.flatten().filter_map(|gateway| {
            let folder = gateway.path();
            let lock = File::open(folder.join(LOCK)).ok()?;
            match lock.try_lock_shared() {
                Err(TryLockError::WouldBlock) => {
                    serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()
                }
                Err(TryLockError::Error(_)) => None,
                Ok(()) => {
                    let _ = fs::remove_dir_all(folder);
                    None
                }
            }
        });
        running.max_by_key(|found: &Self| (found.started_s, found.pid))
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // If this fails, the free lock tells.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
