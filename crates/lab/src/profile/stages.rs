//! What a server says of its own stages: how long it takes to read, to parse, and so on.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::results::{Latencies, Latency};
use crate::text::{ns, time};

/// What tells a server where to write: the beginning of a file's name.
pub(super) const ENV: &str = "MCPLANE_STAGES";

/// The stages of this process, for `mcplane bench --profile stages`.
#[derive(Debug)]
pub struct Stages {
    /// How the file's name begins.
    file: OsString,
    /// In the order in which they came first.
    taken: Mutex<Vec<(String, Latencies)>>,
}

/// One of them, as it is written.
#[derive(Serialize, Deserialize)]
struct Taken {
    stage: String,
    #[serde(flatten)]
    took: Latency,
}

impl Stages {
    /// None yet, if the environment asks for them.
    #[must_use]
    pub fn asked() -> Option<Self> {
        std::env::var_os(ENV).map(|file| Self { file, taken: Mutex::default() })
    }

    /// Adds a stage that was done once more.
    pub fn record(&self, stage: &str, took: Duration) {
        let mut all = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, latencies)) = all.iter_mut().find(|(name, _)| name == stage) {
            return latencies.record(took);
        }
        let mut latencies = Latencies::new();
        latencies.record(took);
        all.push((stage.to_owned(), latencies));
    }

    /// Writes them to a file of this process.
    ///
    /// # Errors
    /// When it cannot be written; the error names it.
    pub fn write(&self) -> io::Result<()> {
        let mut path = self.file.clone();
        path.push(format!(".{}.json", std::process::id()));
        let path = PathBuf::from(path);
        std::fs::write(&path, self.json()?).map_err(|error| {
            let what = format!("cannot write the stages to {}: {error}", path.display());
            io::Error::new(error.kind(), what)
        })
    }

    fn json(&self) -> serde_json::Result<String> {
        let all = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = |(stage, took): &(String, Latencies)| Taken {
            stage: stage.clone(),
            took: took.summary(),
        };
        serde_json::to_string(&all.iter().map(taken).collect::<Vec<_>>())
    }
}

/// Appends the table of one process.
///
/// # Errors
/// When the text is something else.
#[allow(clippy::cast_precision_loss, reason = "a count, to be printed with three digits")]
pub(super) fn add(json: &str, out: &mut String) -> io::Result<()> {
    let all: Vec<Taken> = serde_json::from_str(json)?;
    out.push_str(
        "\n| stage | times | all | p50 | p99 | longest |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for Taken { stage, took } in all {
        let all = took.mean_ns.map(|mean| mean * took.count as f64);
        let shown = [all, ns(took.p50_ns), ns(took.p99_ns), ns(took.max_ns)].map(time);
        // Names of a server's own making go into a table.
        let name = stage.replace(['|', '\n'], " ");
        let _ = writeln!(out, "| {name} | {} | {} |", took.count, shown.join(" | "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_is_a_row() {
        let stages = Stages { file: OsString::new(), taken: Mutex::default() };
        for took in [900, 1200, 900] {
            stages.record("par|se", Duration::from_nanos(took));
        }
        stages.record("write", Duration::from_micros(2));
        let mut out = String::new();
        add(&stages.json().unwrap(), &mut out).unwrap();
        let rows = "| par se | 3 | 3.00 µs | n/a | n/a | 1.20 µs |\n\
                    | write | 1 | 2.00 µs | n/a | n/a | 2.00 µs |\n";
        assert!(out.ends_with(rows), "{out}");
        assert!(add("{}", &mut out).is_err() && add("[{}]", &mut out).is_err());
    }
}
