//! `mcplane import`: settings from the JSON of a desktop client.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use clap::Args;
use mcplane_gateway::config::{import, to_toml};

use crate::input;

/// Most bytes of the file.
const BYTES_MAX: u64 = 16 << 20;

#[derive(Args, Debug)]
pub struct ImportArgs {
    /// The file with `mcpServers` (Claude, Cursor, Windsurf, ...) or `servers` (VS Code); `-` is
    /// standard input
    file: PathBuf,
    /// Write the settings there, readable by you alone, instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

/// Writes the settings, and what is to be said about them on standard error.
pub fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let shown = args.file.display();
    let json =
        input::read(&args.file, BYTES_MAX).with_context(|| format!("cannot read {shown}"))?;
    let (config, notes) = import(&json).with_context(|| format!("cannot import {shown}"))?;
    let toml = to_toml(&config);
    match &args.output {
        None => io::stdout().write_all(toml.as_bytes())?,
        Some(output) => {
            write(output, &toml, args.force)?;
            let servers = config.servers.len();
            let are = if servers == 1 { "server is" } else { "servers are" };
            eprintln!("{servers} {are} in {}", output.display());
        }
    }
    for note in notes {
        eprintln!("note: {note}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file that its owner alone can read, for it may have secrets.
fn write(output: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    let shown = output.display();
    if !force {
        return match create(output, text) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("{shown} exists; `--force` replaces it")
            }
            done => done.with_context(|| format!("cannot write {shown}")),
        };
    }
    // A new file in the place of the old one: whoever watches it sees all or nothing, and whoever
    // could read the old one cannot read this.
    let mut name = OsString::from(".");
    name.push(output.file_name().with_context(|| format!("{shown} is not a file"))?);
    name.push(format!(".{}", std::process::id()));
    let new = output.with_file_name(name);
    let done = create(&new, text).and_then(|()| fs::rename(&new, output));
    if done.is_err() {
        let _ = fs::remove_file(&new);
    }
    done.with_context(|| format!("cannot write {shown}"))
}

fn create(file: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(file)?.write_all(text.as_bytes())
}
