//! Running other programs, and timing what was run.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

/// Cargo, in the workspace, as somebody would start it who is not inside `cargo run`: what that
/// tells us about the package `xtask` would reach build scripts and make them run again.
pub fn cargo(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(args).stdin(Stdio::null());
    let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
    for (key, _) in env::vars_os() {
        if ours.iter().any(|prefix| key.to_string_lossy().starts_with(prefix)) {
            command.env_remove(key);
        }
    }
    command
}

/// Runs a command to its end; anything but success is an error that names it.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = line(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs a command to its end and gives its stdout.
pub fn output(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let line = line(command);
    let output = command.output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed: {}\n{}", output.status, stderr.trim_end());
    }
    Ok(output.stdout)
}

/// The command as one would type it, without the folder of its program.
pub fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_stem().unwrap_or(program.as_os_str());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Does one step and says on one line how long it took.
pub fn step<T>(name: &str, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let start = Instant::now();
    let outcome = work();
    let verdict = if outcome.is_ok() { "ok    " } else { "FAILED" };
    println!("{verdict} {name} ({:.1} s)", start.elapsed().as_secs_f64());
    outcome
}

/// Whether a machine, not a person, runs us: then nothing may be skipped.
pub fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}
