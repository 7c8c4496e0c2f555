//! CSV (RFC 4180) in cMCP's column schema: one row for each run, each floor, each kind of call of a
//! mix, and each step of a cold start.

use super::document::{Document, File};
use crate::results::{Latency, Results, Run, Spread, ToolResults, Words};

/// The columns of cMCP's benchmarks.
pub const CMCP_COLUMNS: &str = "bench,iterations,wall_ms,throughput_per_s,min_us,p50_us,p95_us,p99_us,p999_us,max_us,mean_us,extra";

impl Document {
    /// The runs in the columns of cMCP's benchmarks. What was not measured, or from too few samples, is
    /// empty. `iterations` are the calls that succeeded; those that failed are in `extra`.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut out = format!("{CMCP_COLUMNS}\n");
        for (_, file, run) in self.runs() {
            let (plan, target) = (&run.plan, &run.target);
            let on =
                format!("{}_{}", word(target.transport.as_str()), run.plan.load_in(Words::Name));
            let bench = format!("{}_{on}", word(run.called()));
            let said = |results: &Results, target: &str| {
                format!(
                    "transport={} tool={} load={} sessions={} errors={}{} target={target} time={}",
                    run.target.transport,
                    run.called(),
                    run.load().replace(' ', "_"),
                    plan.sessions,
                    results.errors.total(),
                    more(run, results),
                    file.report.environment.time
                )
            };
            row(&mut out, &bench, &run.results, &said(&run.results, &target.target));
            if let Some(floor) = &run.floor {
                row(&mut out, &format!("floor_{bench}"), floor, &said(floor, "floor"));
            }
            for (at, kind) in run.results.tools.iter().enumerate() {
                let bench = format!("mix_{}_{}_{on}", at + 1, word(&kind.name));
                kind_row(&mut out, &bench, (run, file), kind);
            }
        }
        self.files.iter().for_each(|file| cold_rows(&mut out, file));
        out
    }
}

/// What cMCP has no column for: how the schedule of an open loop was kept, and that the user stopped
/// the run.
fn more(run: &Run, results: &Results) -> String {
    let mut more = String::new();
    if let Some(open) = &results.open {
        let raw = us(open.latency_raw.p99_ns);
        more = format!(" due={} missed={} raw_p99_us={raw}", open.calls_due, open.calls_missed);
    }
    if run.interrupted {
        more.push_str(" interrupted=true");
    }
    more
}

/// One line in [`CMCP_COLUMNS`], with its newline. What was not measured, or from too few samples, is
/// empty.
#[must_use]
pub fn cmcp_row(bench: &str, of: &Results, extra: &str) -> String {
    let mut out = String::new();
    row(&mut out, bench, of, extra);
    out
}

fn row(out: &mut String, bench: &str, of: &Results, extra: &str) {
    let speed = (of.wall_ns, of.throughput_per_s);
    fields(out, (bench, of.calls_ok), Some(speed), &of.latency, extra);
}

/// One kind of call of a mix, over the time of the whole run.
#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn kind_row(out: &mut String, bench: &str, (run, file): (&Run, &File), of: &ToolResults) {
    let extra = format!(
        "transport={} tool={} weight={} check={} load={} errors={} target={} time={}",
        run.target.transport,
        of.name,
        of.weight,
        of.check,
        run.load().replace(' ', "_"),
        of.errors.total(),
        run.target.target,
        file.report.environment.time
    );
    let wall_ns = run.results.wall_ns;
    let speed = (wall_ns > 0).then(|| (wall_ns, of.calls_ok as f64 * 1e9 / wall_ns as f64));
    fields(out, (bench, of.calls_ok), speed, &of.latency, &extra);
}

/// One row for each step: there are no calls per second, and of percentiles the median only.
fn cold_rows(out: &mut String, file: &File) {
    let Some(cold) = file.report.cold_start() else { return };
    let extra = format!(
        "fresh={} failed={} target={} time={}",
        cold.fresh, cold.failed, cold.target, file.report.environment.time
    );
    for (step, Spread { min_ns, median_ns, max_ns, values_ns, .. }) in cold.figures() {
        let latency = Latency {
            min_ns: Some(*min_ns),
            p50_ns: Some(*median_ns),
            max_ns: Some(*max_ns),
            ..Latency::default()
        };
        let bench = format!("cold_start_{}", word(step));
        fields(out, (&bench, values_ns.len() as u64), None, &latency, &extra);
    }
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn fields(
    out: &mut String,
    (bench, calls): (&str, u64),
    speed: Option<(u64, f64)>,
    latency: &Latency,
    extra: &str,
) {
    let fields = [
        bench.to_owned(),
        calls.to_string(),
        shown(speed.map(|(wall_ns, _)| wall_ns as f64 / 1e6)),
        shown(speed.map(|(_, per_s)| per_s)),
        us(latency.min_ns),
        us(latency.p50_ns),
        us(latency.p95_ns),
        us(latency.p99_ns),
        us(latency.p99_9_ns),
        us(latency.max_ns),
        shown(latency.mean_ns.map(|ns| ns / 1e3)),
        quoted(extra),
    ];
    out.push_str(&fields.join(","));
    out.push('\n');
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.3}"))
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds below 2^53 are exact")]
fn us(ns: Option<u64>) -> String {
    shown(ns.map(|ns| ns as f64 / 1e3))
}

/// A field that may hold anything, on one line.
fn quoted(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("\"{}\"", line.replace('"', "\"\""))
}

/// What is fit for a name: anything else becomes `_`, and it begins with a letter.
pub(super) fn word(text: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let word: String = text.chars().take(64).map(fit).collect();
    if word.starts_with(|c: char| c.is_ascii_alphabetic()) { word } else { format!("x{word}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::hostile;

    /// A reader of RFC 4180, of its own.
    fn read(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut row, mut field, mut quoted) = (vec![], vec![], String::new(), false);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match (c, quoted) {
                ('"', true) if chars.peek() == Some(&'"') => field.extend(chars.next()),
                ('"', _) => quoted = !quoted,
                (',', false) => row.push(std::mem::take(&mut field)),
                ('\n', false) => {
                    row.push(std::mem::take(&mut field));
                    rows.push(std::mem::take(&mut row));
                }
                (c, _) => field.push(c),
            }
        }
        assert!(!quoted && field.is_empty() && row.is_empty(), "it ends in the middle of a row");
        rows
    }

    #[test]
    fn it_reads_back_with_cmcps_columns() {
        let document = hostile();
        let rows = read(&document.to_csv());
        assert_eq!(rows[0].join(","), CMCP_COLUMNS);
        assert_eq!(
            rows.len(),
            1 + document
                .runs()
                .map(|(.., run)| 1 + usize::from(run.floor.is_some()))
                .sum::<usize>()
        );
        assert!(rows.iter().all(|row| row.len() == 12), "{rows:?}");
        let (_, _, run) = document.runs().next().unwrap();
        let number = |at: usize| rows[1][at].parse::<f64>().unwrap();
        assert_eq!(rows[1][1].parse::<u64>().unwrap(), run.results.calls_ok);
        assert!((number(2) - run.results.wall_ns as f64 / 1e6).abs() < 1e-3);
        assert!((number(5) - run.results.latency.p50_ns.unwrap() as f64 / 1e3).abs() < 1e-3);
        assert!((number(10) - run.results.latency.mean_ns.unwrap() / 1e3).abs() < 1e-3);
        assert!(rows[2][0].starts_with("floor_"));
        let target = run.target.target.replace(char::is_control, " ");
        assert!(rows[1][11].contains(&format!("target={target}")), "{}", rows[1][11]);
        let few = rows.iter().find(|row| row[1] == "100").unwrap();
        assert_eq!((few[7].as_str(), few[8].as_str()), ("", ""), "100 samples have no p99");
    }

    #[test]
    fn no_cell_is_a_formula() {
        for row in read(&hostile().to_csv()) {
            assert!(row.iter().all(|cell| !cell.starts_with(['=', '+', '-', '@'])), "{row:?}");
        }
        assert_eq!((word("=cmd|'x"), word("Ab-1")), ("x_cmd__x".to_owned(), "ab_1".to_owned()));
    }
}
