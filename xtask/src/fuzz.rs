//! Each fuzz target for a while.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::bail;

use crate::run::{line, output, run, step};

/// How long each target runs unless told otherwise, in seconds.
pub const SECONDS_DEFAULT: u32 = 60;

/// Runs every target of `fuzz/` for `seconds`; stops at the first finding.
pub fn fuzz(root: &Path, seconds: u32) -> anyhow::Result<()> {
    // Through rustup, because the cargo that runs us is of one toolchain and fuzzing needs nightly.
    let cargo_fuzz = |args: &[&str]| {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo", "fuzz"]).args(args);
        command.current_dir(root).env_remove("RUSTUP_TOOLCHAIN").stdin(Stdio::null());
        command
    };
    if output(&mut cargo_fuzz(&["--version"])).is_err() {
        bail!(
            "fuzzing needs two more tools; install them with\n  \
             rustup toolchain install nightly\n  cargo install cargo-fuzz"
        );
    }
    let targets = output(&mut cargo_fuzz(&["list"]))?;
    let targets = String::from_utf8_lossy(&targets);
    for target in targets.split_whitespace() {
        let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
        std::fs::create_dir_all(root.join(&corpus))?;
        let mut command = cargo_fuzz(&["run", target, &corpus, &seeds, "--"]);
        command.arg(format!("-max_total_time={seconds}"));
        println!("       {}", line(&command));
        step(target, || run(&mut command))?;
    }
    Ok(())
}
