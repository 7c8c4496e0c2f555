//! `mcplane lint`: audits results, ours and published ones.

use std::{
    fs,
    io::{self, ErrorKind, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use mcplane_lab::{
    lint::{Audit, lint},
    report::Style,
};
use serde::Serialize;

/// Most bytes of one file: a result of thousands of runs is smaller.
const INPUT_BYTES_MAX: u64 = 64 << 20;

#[derive(Args, Debug)]
pub struct LintArgs {
    /// What to audit: the JSON of `mcplane bench`, other JSON, CSV or Markdown with named columns;
    /// `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// A file and what was found in it.
#[derive(Serialize)]
struct Audited<'a> {
    file: String,
    #[serde(flatten)]
    audit: Option<Audit>,
    error: Option<&'a str>,
}

/// Audits every file. Exit code 0: nothing impossible or doubtful; 1: something is; 2: a file could
/// not be read.
///
/// # Errors
/// When the findings cannot be written.
pub fn run(args: &LintArgs) -> anyhow::Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    let colour =
        stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let (mut code, mut all) = (0, Vec::new());
    for file in &args.files {
        let shown = if file == Path::new("-") {
            "standard input".into()
        } else {
            file.display().to_string()
        };
        let audit = read(file)
            .map_err(|error| format!("cannot read it: {error}"))
            .and_then(|text| lint(&text).map_err(|error| error.to_string()));
        code = code.max(match &audit {
            Ok(audit) => u8::from(!audit.is_sound()),
            Err(_) => 2,
        });
        match audit {
            Ok(audit) if !args.json => {
                stdout.write_all(audit.to_text(&shown, Style { colour }).as_bytes())?;
            }
            Err(why) if !args.json => eprintln!("mcplane: {shown}: {why}"),
            audit => all.push((shown, audit)),
        }
    }
    if args.json {
        let all: Vec<_> = all
            .iter()
            .map(|(file, audit)| Audited {
                file: file.clone(),
                audit: audit.as_ref().ok().cloned(),
                error: audit.as_ref().err().map(String::as_str),
            })
            .collect();
        serde_json::to_writer_pretty(&mut stdout, &all)?;
        writeln!(stdout)?;
    }
    Ok(ExitCode::from(code))
}

fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let source: &mut dyn Read =
        if file == Path::new("-") { &mut io::stdin() } else { &mut fs::File::open(file)? };
    source.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        let why = format!("more than {} MiB", INPUT_BYTES_MAX >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}
