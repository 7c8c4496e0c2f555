//! A browser, where this machine has one.

/// The path of Chromium; `None` where there is none in `PATH`.
pub fn chromium() -> Option<String> {
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file())?;
    Some(found.to_str()?.to_owned())
}

/// Says that a test was left out, past the test harness, which hides what a passing test prints.
pub fn skipped() {
    use std::io::Write as _;
    let why = "skipped: no chromium, chromium-browser or google-chrome in PATH";
    let _ = writeln!(std::io::stderr(), "{why}");
}
