//! The `mcplane` binary as its users meet it: what it prints, how it ends, and what it leaves behind.
//!
//! - `broken`: servers that cannot be spoken to
//! - `bench`: measuring that fails, breaks off or is interrupted
//! - `compare`: servers in turns
//! - `gate`: whether a result may pass
//! - `import`: settings from those of a desktop client
//! - `lint`: whether published figures can be true
//! - `inspect`: looking, calling, and the command line
//! - `fixture`: the built-in server on its own
//! - `live`: what a terminal shows of a run
//! - `profile`: servers under a profiler
//! - `readme`: what the README promises
//! - `limits`: capacities that are known beforehand, mixes, cold starts
//! - `truth`: measuring what is known beforehand
//! - `report`: results in other forms, and the page in a browser
//! - `suite`: named benchmarks
//! - `server`: a server in shell, for what the fixture never does

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod bench;
mod broken;
mod compare;
mod fixture;
mod gate;
mod import;
mod inspect;
mod limits;
mod lint;
mod live;
mod profile;
mod readme;
mod report;
mod server;
mod suite;
mod truth;

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Longest run of `mcplane` here: several times what the longest one takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A file of this test's own, in the build's place for temporary files. It does not exist yet.
fn file(name: &str) -> PathBuf {
    let test = thread::current().name().unwrap_or("cli").replace("::", "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    let _ = fs::remove_file(&file);
    file
}

/// Waits until something has made this file.
fn wait_for(file: &Path) {
    let started = Instant::now();
    while !file.exists() {
        assert!(started.elapsed() < LIMIT, "no {}", file.display());
        thread::sleep(Duration::from_millis(10));
    }
}
