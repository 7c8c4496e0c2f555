//! Where the gateway is that a command speaks to.
//!
//! A gateway announces itself in a folder of its own, `gateways/PID` in the state folder, which has
//! a file that is locked for as long as it runs: what a gateway that was killed has left behind is
//! known by its lock, which is free.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use mcplane::transport::http::Url;
use mcplane::transport::http::client::Http;
use mcplane_gateway::config::Gateway;
use mcplane_gateway::listen::discovery::{self, Discovery};

/// The endpoint of a gateway that says nothing else.
const DEFAULT: &str = "http://127.0.0.1:8765/mcp";

/// The folder with one folder for each gateway that runs, in the state folder.
const GATEWAYS: &str = "gateways";

/// The locked file of a gateway that runs.
const LOCK: &str = "lock";

/// Names a gateway, or leaves it to be found.
#[derive(Args, Debug)]
pub struct EndpointArgs {
    /// The endpoint; else $MCPLANE_ENDPOINT, else the gateway that announced itself, else
    /// http://127.0.0.1:8765/mcp
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// A gateway, and how it was found.
pub struct Found {
    pub url: String,
    /// For errors: who said so.
    pub by: &'static str,
}

impl EndpointArgs {
    /// `given` stands where the command takes the URL as an argument, too.
    pub fn find(&self, given: Option<&str>) -> Found {
        let of = |url: &str, by| Found { url: url.to_owned(), by };
        if let Some(url) = given.or(self.url.as_deref()) {
            return of(url, "the command line");
        }
        if let Ok(url) = std::env::var("MCPLANE_ENDPOINT")
            && !url.is_empty()
        {
            return of(&url, "MCPLANE_ENDPOINT");
        }
        let announced = Gateway::default().state_folder();
        match announced.and_then(|folder| newest(&folder.join(GATEWAYS))) {
            Some(found) => of(&found.url, "the discovery file"),
            None => of(DEFAULT, "the default"),
        }
    }
}

impl Found {
    /// The endpoint, with the token of `MCPLANE_TOKEN`.
    ///
    /// # Errors
    /// The URL is none.
    pub fn http(&self) -> anyhow::Result<Http> {
        let http = Http::new(&self.url)?;
        Ok(match token() {
            Some(token) => http.header("authorization", &format!("Bearer {token}")),
            None => http,
        })
    }

    /// A page of the gateway beside its endpoints.
    ///
    /// # Errors
    /// The URL is none.
    pub fn page(&self, path: &str) -> anyhow::Result<Url> {
        let mut url = Url::parse(&self.url)?;
        url.set_path(path);
        url.set_query(None);
        Ok(url)
    }

    /// What to do when nobody answers.
    pub fn hint(&self) -> String {
        format!("{} (from {}): is `mcplane serve` running there?", self.url, self.by)
    }
}

/// Who we are, for a gateway that asks.
pub fn token() -> Option<String> {
    std::env::var("MCPLANE_TOKEN").ok().filter(|token| !token.is_empty())
}

/// A folder of this process among those of the gateways that run. Dropped, it is gone.
#[must_use = "nobody finds the gateway when this is dropped"]
pub struct Announced {
    folder: PathBuf,
    _file: discovery::Announced,
    _lock: File,
}

/// Announces the gateway of this process in the state folder of its settings, and in the default
/// one, where commands look that do not know its settings.
pub fn announce(url: &str, settings: &Gateway) -> Vec<Announced> {
    let mut folders: Vec<_> = settings.state_folder().into_iter().collect();
    folders.extend(Gateway::default().state_folder().filter(|folder| !folders.contains(folder)));
    let announced = folders.into_iter().filter_map(|folder| {
        Announced::new(&folder.join(GATEWAYS), url)
            .inspect_err(|error| {
                eprintln!("mcplane: no discovery file in {}: {error}", folder.display());
            })
            .ok()
    });
    announced.collect()
}

impl Announced {
    fn new(gateways: &Path, url: &str) -> io::Result<Self> {
        let folder = gateways.join(std::process::id().to_string());
        fs::create_dir_all(&folder)?;
        // Whoever finds a lock that is free takes the folder away: it has its name once it is taken.
        let fresh = folder.join(format!("{LOCK}.new"));
        let lock = File::create(&fresh)?;
        lock.lock()?;
        fs::rename(fresh, folder.join(LOCK))?;
        Ok(Self { _file: Discovery::new(url).announce(&folder)?, _lock: lock, folder })
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // What stays is known by its lock, which is free then.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The gateway that runs and started last. What those have left behind that do not run any more is
/// taken away.
fn newest(gateways: &Path) -> Option<Discovery> {
    let running = fs::read_dir(gateways).ok()?.flatten().filter_map(|gateway| {
        let folder = gateway.path();
        let lock = File::open(folder.join(LOCK)).ok()?;
        match lock.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Discovery::find(&folder),
            Err(TryLockError::Error(_)) => None,
            Ok(()) => {
                let _ = fs::remove_dir_all(folder);
                None
            }
        }
    });
    running.max_by_key(|found| (found.started_s, found.pid))
}
