//! What a server on mcplane writes about its own stages.

use std::fmt::Write as _;
use std::io;

use serde::Deserialize;

use crate::report::terminal::{ns, time};

/// What tells a server where to write: the beginning of a file's name, to which it adds its number
/// among the processes.
pub(super) const ENV: &str = "MCPLANE_STAGES";

/// One stage.
#[derive(Deserialize)]
struct Taken {
    stage: String,
    count: u64,
    total_ns: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

/// Appends the table of one process.
///
/// # Errors
/// When the text is something else.
pub(super) fn add(json: &str, out: &mut String) -> io::Result<()> {
    let all: Vec<Taken> = serde_json::from_str(json)?;
    out.push_str(
        "\n| stage | times | all | p50 | p99 | longest |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for taken in all {
        let shown =
            [taken.total_ns, taken.p50_ns, taken.p99_ns, taken.max_ns].map(|of| time(ns(Some(of))));
        // Names of a server's own making go into a table.
        let name = taken.stage.replace(['|', '\n'], " ");
        let _ = writeln!(out, "| {name} | {} | {} |", taken.count, shown.join(" | "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_is_a_row() {
        let json = r#"[{"stage":"parse","count":3,"total_ns":3000,"p50_ns":900,"p99_ns":1200,"max_ns":1200}]"#;
        let mut out = String::new();
        add(json, &mut out).unwrap();
        assert!(out.ends_with("| parse | 3 | 3.00 µs | 900 ns | 1.20 µs | 1.20 µs |\n"), "{out}");
        assert!(add("{}", &mut out).is_err() && add("[{}]", &mut out).is_err());
    }
}
