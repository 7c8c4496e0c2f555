//! `mcplane report`: results in other forms.

use std::borrow::Cow;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use mcplane::proto::text::{line, page};
use mcplane_lab::report::{Document, FORMS, Form, Writer, schema};
use mcplane_lab::spec::Spec;
use serde::Serialize;

use crate::input;

/// Turn results of `mcplane bench --json` and `mcplane compare --json` into a page, tables, or
/// formats for other systems.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without an output, the summary and the tables are written as Markdown to stdout.
Exit code: 0 written, 1 a file cannot be read or written, 2 usage or no such place.")]
#[allow(clippy::exhaustive_structs, reason = "what clap fills in")]
pub struct ReportArgs {
    /// Results, also compressed ones (.json.gz) and those of a campaign (FILE.jsonl.gz, one of them
    /// as FILE.jsonl.gz#NAME, several as …#BEGINNING*); - is stdin
    #[arg(value_name = "FILE", required_unless_present = "schema")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "clap would show it")]
    pub outputs: Outputs,
    /// Print the JSON Schema of `mcplane bench --json`
    #[arg(long, conflicts_with = "files")]
    pub schema: bool,
}

/// Where results go, in which form: an option for each of [`FORMS`].
#[derive(Clone, Debug, Default)]
pub struct Outputs(Vec<(Form, PathBuf)>);

impl Args for Outputs {
    fn augment_args(command: Command) -> Command {
        let option = |form: &Form| {
            let path = Arg::new(form.name).long(form.name).value_name("OUT").help(form.about);
            path.value_parser(value_parser!(PathBuf))
        };
        let heading = "Reports and records (- is stdout)";
        command.next_help_heading(heading).args(FORMS.iter().map(option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Outputs {
    fn from_arg_matches(given: &ArgMatches) -> Result<Self, clap::Error> {
        let path = |form: Form| Some((form, given.get_one::<PathBuf>(form.name)?.clone()));
        Ok(Self(FORMS.into_iter().filter_map(path).collect()))
    }

    fn update_from_arg_matches(&mut self, given: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(given)?.or(std::mem::take(self));
        Ok(())
    }
}

/// Writes every form that was asked for.
///
/// # Errors
/// When a file cannot be read, is not a result, or cannot be written.
pub fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    if args.schema {
        write(Path::new("-"), &format!("{:#}\n", schema()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Err(wrong) = args.outputs.check(None) {
        to_stderr(&format!("error: {wrong}\n"));
        return Ok(ExitCode::from(2));
    }
    let mut texts = Vec::new();
    for path in &args.files {
        let read = input::results(path);
        texts.extend(read.with_context(|| format!("cannot read {}", path.display()))?);
    }
    let document = Document::read(texts.iter().map(|(name, text)| (name.as_str(), text.as_str())))?;
    if args.outputs.0.is_empty() {
        write(Path::new("-"), &document.to_markdown())?;
    }
    args.outputs.write(&document)?;
    Ok(ExitCode::SUCCESS)
}

impl Outputs {
    /// Those of a scenario.
    pub fn of(spec: &Spec) -> Self {
        let path = |form: Form| Some((form, spec.output(form.name)?.to_owned()));
        Self(FORMS.into_iter().filter_map(path).collect())
    }

    /// These, and where there are none the others.
    pub fn or(mut self, other: Self) -> Self {
        let is_new = |of: &(Form, PathBuf)| self.0.iter().all(|(form, _)| form.name != of.0.name);
        let more: Vec<_> = other.0.into_iter().filter(is_new).collect();
        self.0.extend(more);
        self
    }

    /// Whether one of them goes to stdout.
    pub fn has_stdout(&self) -> bool {
        self.0.iter().any(|(_, path)| path == Path::new("-"))
    }

    /// Stdout takes one form, and a file too, and each can be written; `json` goes where `--json`
    /// says.
    ///
    /// # Errors
    /// A sentence that names the two options, or the file.
    pub fn check(&self, json: Option<&Path>) -> Result<(), String> {
        let forms = self.0.iter().map(|(form, path)| (form.name, path.as_path(), is_folder(form)));
        let mut taken: Vec<(&str, &Path)> = Vec::new();
        for (option, path, is_folder) in forms.chain(json.map(|path| ("json", path, false))) {
            if let Some((other, _)) = taken.iter().find(|(_, taken)| *taken == path) {
                return Err(format!(
                    "--{other} and --{option} cannot both write to {}",
                    path.display()
                ));
            }
            let checked = if is_folder { can_hold(path) } else { can_be(path) };
            checked.map_err(|why| format!("--{option}: cannot write {}: {why}", path.display()))?;
            taken.push((option, path));
        }
        Ok(())
    }

    /// Writes every form that was asked for, to stdout last.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, document: &Document) -> anyhow::Result<()> {
        let is_stdout = |of: &&(Form, PathBuf)| of.1 == Path::new("-");
        let (last, files): (Vec<_>, Vec<_>) = self.0.iter().partition(is_stdout);
        for (form, path) in files.into_iter().chain(last) {
            match form.writer {
                Writer::Folder { files, .. } if path != Path::new("-") => {
                    fs::create_dir_all(path)
                        .with_context(|| format!("cannot make the folder {}", path.display()))?;
                    for (name, value) in files(document) {
                        write(&path.join(name), &format!("{value:#}\n"))?;
                    }
                }
                Writer::Text(text) | Writer::Folder { text, .. } => write(path, &text(document))?,
            }
        }
        Ok(())
    }

    /// Writes every form that was asked for, and the whole as JSON: files first, then stdout. Returns
    /// whether stdout has been written to.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_with(
        &self,
        document: &Document,
        json: Option<&Path>,
        whole: &impl Serialize,
    ) -> anyhow::Result<bool> {
        let is_last = json == Some(Path::new("-"));
        let write = |when: bool| match json {
            Some(path) if when => write_json(path, whole),
            _ => Ok(()),
        };
        write(!is_last)?;
        self.write(document)?;
        write(is_last)?;
        Ok(is_last || self.has_stdout())
    }
}

const fn is_folder(form: &Form) -> bool {
    matches!(form.writer, Writer::Folder { .. })
}

/// Whether a file can be written here. It stays as it is.
fn can_be(path: &Path) -> Result<(), String> {
    if path == Path::new("-") {
        return Ok(());
    }
    match fs::metadata(path) {
        Ok(is) if is.is_dir() => Err("it is a folder".to_owned()),
        // A pipe or a device: to open it may wait.
        Ok(is) if !is.is_file() => Ok(()),
        Ok(_) => {
            let opened = OpenOptions::new().append(true).open(path);
            opened.map(drop).map_err(|wrong| wrong.to_string())
        }
        Err(_) => {
            let made = OpenOptions::new().write(true).create_new(true).open(path);
            made.and_then(|_| fs::remove_file(path)).map_err(|wrong| wrong.to_string())
        }
    }
}

/// Whether this is a folder, or can become one.
fn can_hold(folder: &Path) -> Result<(), String> {
    let there = folder.ancestors().find(|path| path.exists());
    match there {
        Some(path) if folder != Path::new("-") && !path.is_dir() => {
            Err(format!("{} is not a folder", path.display()))
        }
        _ => Ok(()),
    }
}

/// Writes a file, or to stdout.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = if path == Path::new("-") { to_stdout(text) } else { fs::write(path, text) };
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Writes JSON to a file, or to stdout for `-`.
///
/// # Errors
/// When it cannot be written.
pub fn write_json(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    write(path, &format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Says something of a server on stderr: on one line, and on those that quote its stderr.
pub fn say(text: &str) {
    const QUOTE: &str = "\n  | ";
    let lines: Vec<_> = text.split(QUOTE).map(line).collect();
    to_stderr(&format!("{}\n", lines.join(QUOTE)));
}

/// Writes to stderr. A reader that has gone away must change no exit code, and `eprint!` panics.
/// Nothing that a server has put into the text can command the terminal.
pub fn to_stderr(text: &str) {
    // There is nowhere left to say that it failed.
    let _ = io::stderr().lock().write_all(page(text).as_bytes());
}

/// Writes to stdout; on a terminal without what would command it, but with colours. A reader that has
/// gone away wants no more of it.
///
/// # Errors
/// When it cannot be written for another reason.
pub fn to_stdout(text: &str) -> io::Result<()> {
    let text = if io::stdout().is_terminal() { coloured(text) } else { Cow::Borrowed(text) };
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

/// A page whose only active parts are colours: `ESC [ digits m`.
fn coloured(text: &str) -> Cow<'_, str> {
    let mut parts = text.split('\u{1b}');
    let mut out = page(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let is_colour = part.strip_prefix('[').is_some_and(|rest| {
            rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
        });
        out.push_str(if is_colour { "\u{1b}" } else { "\\u{1b}" });
        out.push_str(&page(part));
    }
    Cow::Owned(out)
}
