//! `mcplane lint`: audits results, ours and published ones.

use std::{
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use mcplane_lab::{
    lint::{Audit, lint},
    report::Style,
};
use serde::Serialize;

use crate::input;
use crate::report::{to_stdout, write_json};

#[derive(Args, Debug)]
pub struct LintArgs {
    /// What to audit: the JSON of `mcplane bench`, other JSON, CSV or Markdown with named columns;
    /// `-` is standard input. It may be compressed (`.gz`), and a campaign of results (`FILE.jsonl.gz`),
    /// one of them as `FILE.jsonl.gz#NAME`
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
    let colour =
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let (mut code, mut all) = (0, Vec::new());
    for (shown, text) in args.files.iter().flat_map(|file| texts(file)) {
        let audit = text.and_then(|text| lint(&text).map_err(|error| error.to_string()));
        code = code.max(match &audit {
            Ok(audit) => u8::from(!audit.is_sound()),
            Err(_) => 2,
        });
        match audit {
            Ok(audit) if !args.json => {
                to_stdout(&audit.to_text(&shown, Style { colour }))?;
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
        write_json(Path::new("-"), &all)?;
    }
    Ok(ExitCode::from(code))
}

/// What a file holds, each text with its name.
fn texts(file: &Path) -> Vec<(String, Result<String, String>)> {
    let name = |shown: String| if shown == "-" { "standard input".to_owned() } else { shown };
    match input::results(file) {
        Ok(all) => all.into_iter().map(|(shown, text)| (name(shown), Ok(text))).collect(),
        Err(wrong) => {
            let why = format!("cannot read it: {wrong}");
            vec![(name(file.display().to_string()), Err(why))]
        }
    }
}
