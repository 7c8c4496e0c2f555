//! A browser, where this machine has one.

use std::path::Path;

use crate::child::Running;
use crate::skip;

/// What makes it a browser of a test: no window, no sandbox (a container has none), and nothing that
/// it does by itself.
const OPTIONS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// Chromium.
#[derive(Debug)]
pub struct Chromium(String);

impl Chromium {
    /// The one in `PATH`; where there is none, a test is left out.
    pub fn find() -> Option<Self> {
        let found = path();
        if found.is_none() {
            skip("no chromium, chromium-browser or google-chrome in PATH");
        }
        found.map(Self)
    }

    /// Opens a page with these options, and with a profile in this folder.
    pub fn open(&self, folder: &Path, options: &[&str], url: &str) -> Running {
        let profile = format!("--user-data-dir={}", folder.join("profile").display());
        let words = [self.0.as_str()].into_iter().chain(OPTIONS).chain([profile.as_str()]);
        let words = words.chain(options.iter().copied()).chain([url]).map(str::to_owned);
        Running::start(&words.collect::<Vec<_>>(), "")
    }
}

fn path() -> Option<String> {
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file())?;
    Some(found.to_str()?.to_owned())
}
