//! What a run leaves behind: an index, a page, cMCP's CSV, and each of the lab's reports by itself.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcplane_lab::Environment;
use mcplane_lab::report::CMCP_COLUMNS;
use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Figure, Form, Found, Module, Verdict};

/// The format of `index.json` that this version writes.
const SCHEMA: &str = "mcplane.suite/1";

/// A whole run.
#[derive(Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The format.
    pub schema: String,
    /// The machine.
    pub environment: Environment,
    /// How much time each workload was given.
    pub form: Form,
    /// How long the run took.
    pub seconds: f64,
    /// What became of each workload, in the order of the run.
    pub entries: Vec<Entered>,
}

/// What became of one workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entered {
    /// Its id.
    pub id: String,
    /// Its module.
    pub module: Module,
    /// What it measures.
    pub about: String,
    /// Whether what it asserts holds, and why not.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How long it took.
    pub seconds: f64,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// What a reader should know about them.
    pub notes: Vec<String>,
    /// The lab's report, in this folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
}

impl Entered {
    pub(crate) fn of(entry: &Entry, found: &Found, took: Duration) -> Self {
        let Found { verdict, figures, notes, report, .. } = found;
        let name = |report: &mcplane_lab::Report| {
            // `<benchmark>_<workload_id>_<timestamp>.json`, as erlmcp names its files.
            let time = report.environment.time.chars().filter(char::is_ascii_alphanumeric);
            format!("{}_{}_{}.json", entry.module, entry.id, time.collect::<String>())
        };
        Self {
            id: entry.id.to_owned(),
            module: entry.module,
            about: entry.about.to_owned(),
            verdict: verdict.clone(),
            seconds: took.as_secs_f64(),
            figures: figures.clone(),
            notes: notes.clone(),
            report: report.as_ref().map(name),
        }
    }
}

impl Record {
    pub(crate) fn new(environment: Environment, form: Form) -> Self {
        let (schema, entries) = (SCHEMA.to_owned(), Vec::new());
        Self { schema, environment, form, seconds: 0.0, entries }
    }

    /// How many passed, failed, and were skipped.
    #[must_use]
    pub fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for entered in &self.entries {
            let at = match entered.verdict {
                Verdict::Pass => 0,
                Verdict::Fail(_) => 1,
                Verdict::Skip(_) => 2,
            };
            if let Some(count) = counts.get_mut(at) {
                *count += 1;
            }
        }
        counts
    }

    /// Makes the folder of a run in `out`: named after the time and the form.
    ///
    /// # Errors
    /// It cannot be made, or is there already.
    pub fn folder(out: &Path, form: Form) -> io::Result<PathBuf> {
        let time = Environment::look().time;
        let time: String = time.chars().filter(char::is_ascii_alphanumeric).collect();
        std::fs::create_dir_all(out)?;
        let folder = out.join(format!("{time}-{form}"));
        std::fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Writes what one workload leaves: the lab's report, and its rows in cMCP's columns.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn write_one(folder: &Path, entered: &Entered, found: &Found) -> io::Result<()> {
        if let (Some(name), Some(report)) = (&entered.report, &found.report) {
            std::fs::write(folder.join(name), json(report)?)?;
        }
        if found.rows.is_empty() {
            return Ok(());
        }
        let path = folder.join("cmcp.csv");
        let mut text = match path.exists() {
            true => std::fs::read_to_string(&path)?,
            false => format!("{CMCP_COLUMNS}\n"),
        };
        text.extend(found.rows.iter().map(String::as_str));
        std::fs::write(path, text)
    }

    /// Writes the index and the page.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::write(folder.join("index.json"), json(self)?)?;
        std::fs::write(folder.join("report.html"), self.to_html())
    }
}

fn json(value: &impl Serialize) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}
