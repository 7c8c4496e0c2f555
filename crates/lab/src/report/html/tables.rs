//! The figures.

use std::fmt::Write;

use super::section;
use crate::report::document::Document;
use crate::report::found::Cell;
use crate::report::markup::e;
use crate::report::open as schedule;
use crate::results::{Environment, Limit, Ratio, Ratios, Results, Run, Side, Transport, Verdict};
use crate::text::{bytes, count, digits, na, ns, rate, short, time};

/// Most rows of a table.
const ROWS_MAX: usize = 80;

/// Columns of the figures that every load has.
const FIGURES: usize = 12;

/// Most failures that are told in full.
const TOLD_MAX: usize = 20;

impl Document {
    pub(super) fn at_a_glance(&self, out: &mut String) {
        let mut rows = Vec::new();
        for (name, _, run) in self.runs() {
            rows.push(figures(&name, &run.results, run.ratios.as_ref()));
            if let Some(floor) = &run.floor {
                rows.push(figures("— its floor", floor, None));
            }
        }
        let opened = self.open_titles();
        rows.iter_mut().for_each(|row| row.truncate(FIGURES + opened.len()));
        section(out, "At a glance", |out| {
            let head: [&str; FIGURES] = [
                "run", "calls/s", "÷ floor", "min", "mean", "p50", "p90", "p95", "p99", "p99.9",
                "max", "failed",
            ];
            let head = [&head, opened].concat();
            let caption = "Latency of the calls that succeeded, from their intended start; n/a: too few samples";
            out.push_str(&table(caption, &head, rows));
            if let Some(chart) = self.throughputs() {
                let _ = write!(out, "<div class=\"charts one\">{chart}</div>");
            }
        });
    }

    /// What is beside the runs.
    pub(super) fn found(&self, out: &mut String) {
        for of in self.tables() {
            section(out, &of.title, |out| out.push_str(&table(of.caption, of.head, of.rows)));
        }
    }

    pub(super) fn comparisons(&self, out: &mut String) {
        let mut rows = Vec::new();
        for side in self.files.iter().flat_map(|file| file.report.sides()) {
            for comparison in &side.comparisons {
                let ratio = comparison.ratio;
                rows.push(vec![
                    (side.name.clone(), false),
                    (comparison.metric.as_str().replace('_', " "), false),
                    (digits(ratio.value), false),
                    (format!("{} to {}", digits(ratio.low), digits(ratio.high)), false),
                    (comparison.samples.to_string(), false),
                    (comparison.verdict.to_string(), comparison.verdict == Verdict::Slower),
                    (comparison.why.clone().unwrap_or_default(), false),
                ]);
            }
        }
        if rows.is_empty() {
            return;
        }
        let of = |side: &Side| {
            let rss = side
                .rss_bytes
                .map_or_else(na, |rss| format!("{:.1} MiB", rss / f64::from(1 << 20)));
            let processes = side.processes.map_or_else(na, |n| format!("{n:.0}"));
            [side.name.clone(), side.target.clone(), side.spoken.clone(), rss, processes]
                .map(|text| (text, false))
                .to_vec()
        };
        let sides = self.files.iter().flat_map(|file| file.report.sides()).map(of).collect();
        section(out, "Comparison", |out| {
            let head = ["side", "what", "spoken", "memory", "processes"];
            out.push_str(&table("The sides; medians of each run's most", &head, sides));
            let _ = write!(out, "<div class=\"charts one\">{}</div>", self.forests());
            let head = ["side", "figure", "÷ A", "95 % interval", "pairs", "verdict", "because"];
            out.push_str(&table("Each side by the first, run by run", &head, rows));
        });
    }

    pub(super) fn resources(&self, out: &mut String) {
        let mut rows = Vec::new();
        for (name, _, run) in
            self.runs().filter(|(_, _, run)| run.target.transport != Transport::Memory)
        {
            let start = &run.start;
            let started =
                [start.spawn_to_handshake_ns, start.spawn_to_ready_ns, start.first_call_ns];
            let started = started.map(|at| time(ns(Some(at))));
            rows.push(used(&name, &run.results, started));
            if let Some(floor) = &run.floor {
                rows.push(used("— its floor", floor, Default::default()));
            }
        }
        if rows.is_empty() {
            return;
        }
        section(out, "Resources and start", |out| {
            let head = [
                "run",
                "CPU/call",
                "user",
                "kernel",
                "switches/call",
                "memory, most",
                "at end",
                "procs / threads / files",
                "handshake",
                "tools listed",
                "first call",
            ];
            out.push_str(&table(
                "The server's whole process tree; starting, each from one observation",
                &head,
                rows,
            ));
        });
    }

    /// What lets a reader judge the figures.
    pub(super) fn evidence(&self, out: &mut String) {
        let rows: Vec<_> = self.runs().map(|(name, _, run)| rests_on(name, run)).collect();
        section(out, "What the figures rest on", |out| {
            let head = [
                "run",
                "generator used",
                "by",
                "Little's ratio",
                "warm-up",
                "steady",
                "due, not begun",
                "late",
                "pacing p99",
            ];
            let caption = "Above 70 % the generator limits; calls in flight ÷ (rate × latency) is 1; the \
                           last three are of open loops";
            out.push_str(&table(caption, &head, rows));
        });
    }

    pub(super) fn failures(&self, out: &mut String) {
        let mut rows = Vec::new();
        for (name, _, run) in self.runs() {
            let results = &run.results;
            let errors = &results.errors;
            let mut row = vec![
                (name, false),
                (count(results.calls_sent), false),
                (count(results.calls_ok), false),
            ];
            let kinds = [
                errors.transport,
                errors.json_rpc,
                errors.is_error,
                errors.timeout,
                errors.wrong_content,
            ];
            row.extend(kinds.map(|number| (count(number), number > 0)));
            row.push((count(results.calls_unfinished), false));
            rows.push(row);
        }
        section(out, "Errors", |out| {
            let head = [
                "run",
                "sent",
                "succeeded",
                "transport",
                "JSON-RPC",
                "isError",
                "timeout",
                "wrong content",
                "unfinished",
            ];
            out.push_str(&table("Calls; a failure of any kind is not success", &head, rows));
            let told: Vec<_> = self
                .runs()
                .flat_map(|(name, _, run)| what_failed(&name, run))
                .take(TOLD_MAX)
                .collect();
            if !told.is_empty() {
                out.push_str(&words("What failed", &["run", "what"], &told));
            }
        });
    }

    pub(super) fn environments(&self, out: &mut String) {
        section(out, "Environment", |out| {
            for file in self.files.iter().take(8) {
                let caption =
                    if self.files.len() > 1 { &file.name } else { "Where it was measured" };
                out.push_str(&words(caption, &["", ""], &environment(&file.report.environment)));
            }
        });
    }
}

fn figures(name: &str, of: &Results, ratios: Option<&Ratios>) -> Vec<Cell> {
    let ratio = |ratio: Ratio| digits(ratio.value());
    let latency = &of.latency;
    let mut row = vec![
        (name.to_owned(), false),
        (rate(of.throughput_per_s), false),
        (ratios.and_then(|ratios| ratios.throughput).map_or_else(String::new, ratio), false),
        (time(ns(latency.min_ns)), false),
        (time(latency.mean_ns), false),
    ];
    let quantiles = [
        latency.p50_ns,
        latency.p90_ns,
        latency.p95_ns,
        latency.p99_ns,
        latency.p99_9_ns,
        latency.max_ns,
    ];
    row.extend(quantiles.map(|value| (time(ns(value)), false)));
    row.push((count(of.errors.total()), of.errors.total() > 0));
    row.extend(schedule::cells(of));
    row
}

fn used(name: &str, results: &Results, started: [String; 3]) -> Vec<Cell> {
    let of = &results.resources;
    let number = |value: Option<u64>| value.map_or_else(na, count);
    let figures = [
        name.to_owned(),
        time(of.cpu_ns_per_call),
        time(of.cpu_user_ns_per_call),
        time(of.cpu_system_ns_per_call),
        of.ctx_switches_per_call.map_or_else(na, |count| format!("{count:.2}")),
        bytes(of.rss_bytes_max),
        bytes(of.rss_bytes_end),
        [of.processes_max, of.threads_max, of.fds_max].map(number).join(" / "),
    ];
    cells(vec![figures.into_iter().chain(started).collect()]).pop().unwrap_or_default()
}

fn rests_on(name: String, run: &Run) -> Vec<Cell> {
    let of = &run.results;
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let by = |limit| match limit {
        Limit::Floor => "the floor's rate",
        Limit::Cpu => "its CPU time",
    };
    let headroom = run.headroom.as_ref();
    let open = of.open.as_ref();
    let warmup = of.warmup.map(|warm| {
        let time = time(ns(Some(warm.wall_ns)));
        format!("{} calls, {time}", count(warm.calls_ok))
    });
    let steady = of.warmup.and_then(|warm| warm.steady);
    let ratio = of.little.and_then(|little| little.ratio);
    vec![
        (name, false),
        (
            headroom.map_or_else(na, |of| percent(of.utilisation)),
            headroom.is_some_and(|of| of.generator_bound),
        ),
        (headroom.map_or_else(String::new, |of| by(of.by).to_owned()), false),
        (ratio.map_or_else(na, |ratio| format!("{ratio:.3}")), false),
        (warmup.unwrap_or_else(na), false),
        (steady.map_or_else(na, |steady| if steady { "yes" } else { "no" }.to_owned()), false),
        (
            open.map_or_else(String::new, |open| count(open.calls_missed)),
            open.is_some_and(|open| open.calls_missed > 0),
        ),
        (open.map_or_else(String::new, |open| percent(open.late_share)), false),
        (open.map_or_else(String::new, |open| time(ns(open.pacing_error_p99_ns))), false),
    ]
}

fn what_failed(name: &str, run: &Run) -> Vec<(String, String)> {
    let told = [run.results.first_failure.as_ref(), run.broken.as_ref()];
    told.into_iter().flatten().map(|what| (name.to_owned(), short(what, 600))).collect()
}

/// Names and values of a machine.
pub(in crate::report) fn environment(of: &Environment) -> Vec<(String, String)> {
    let load = of.load_before.map(|loads| loads.map(|load| format!("{load:.2}")).join(", "));
    let built = if of.optimised { "" } else { ", built without optimisation" };
    let rows = [
        ("time", Some(of.time.clone())),
        ("mcplane", Some(format!("{}{built}", of.mcplane))),
        ("command", Some(of.command.join(" "))),
        ("system", Some(format!("{} {}", of.os, of.arch))),
        ("kernel", of.kernel.clone()),
        ("CPU", of.cpu.clone()),
        ("cores", Some(of.cores.to_string())),
        ("affinity", of.affinity.clone()),
        ("governor", of.governor.clone()),
        ("clock", of.clock.clone()),
        ("CPU limit", of.cgroup_cpu.clone()),
        ("memory limit", of.cgroup_memory.clone()),
        ("load before", load),
        ("memory", of.memory_bytes.map(|memory| bytes(Some(memory)))),
    ];
    let shown = |(name, value): (&str, Option<String>)| {
        (name.to_owned(), value.map_or_else(|| "unknown".to_owned(), |value| short(&value, 400)))
    };
    rows.into_iter().map(shown).collect()
}

/// Cells that tell of no failure.
pub(super) fn cells(rows: Vec<Vec<String>>) -> Vec<Vec<Cell>> {
    rows.into_iter().map(|row| row.into_iter().map(|text| (text, false)).collect()).collect()
}

/// A table of figures; the first column names the row. A column in which nothing stands is left out.
pub(super) fn table(caption: &str, head: &[&str], rows: Vec<Vec<Cell>>) -> String {
    let stands =
        |at: usize| rows.iter().any(|row| row.get(at).is_some_and(|(text, _)| !text.is_empty()));
    let kept: Vec<_> = (0..head.len()).filter(|at| *at == 0 || stands(*at)).collect();
    let head: Vec<_> = kept.iter().filter_map(|at| head.get(*at).copied()).collect();
    let mut out = open(caption, "", &head);
    let more = rows.len().saturating_sub(ROWS_MAX);
    for row in rows.into_iter().take(ROWS_MAX) {
        out.push_str("<tr>");
        for (at, (text, failed)) in kept.iter().filter_map(|at| Some((*at, row.get(*at)?))) {
            let _ = match (at, failed) {
                (0, _) => write!(out, "<th scope=\"row\">{}</th>", e(&short(text, 120))),
                (_, true) => write!(out, "<td class=\"fail\">{}</td>", e(&short(text, 200))),
                (_, false) => write!(out, "<td>{}</td>", e(&short(text, 200))),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>");
    if more > 0 {
        let _ = write!(out, "<p class=\"note\">{more} more rows are in the data.</p>");
    }
    out
}

/// A table of two columns of words.
fn words(caption: &str, head: &[&str], rows: &[(String, String)]) -> String {
    let head = if head.iter().all(|name| name.is_empty()) { &[] } else { head };
    let mut out = open(caption, "words", head);
    for (name, value) in rows.iter().take(ROWS_MAX) {
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
            e(&short(name, 120)),
            e(value)
        );
    }
    out.push_str("</tbody></table></div>");
    out
}

fn open(caption: &str, class: &str, head: &[&str]) -> String {
    let mut out = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table class=\"{class}\">\
         <caption>{}</caption>",
        e(caption),
        e(caption)
    );
    if !head.is_empty() {
        out.push_str("<thead><tr>");
        for name in head {
            let _ = write!(out, "<th scope=\"col\">{}</th>", e(name));
        }
        out.push_str("</tr></thead>");
    }
    out.push_str("<tbody>\n");
    out
}
