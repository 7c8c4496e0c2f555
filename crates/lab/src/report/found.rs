//! What a file holds beside its runs, in sentences and in tables: a search for a limit, the knee of
//! a ladder, cold starts, and the kinds of calls of a mix.

use std::fmt::Write;

use super::document::{Document, File};
use super::words::Mood;
use crate::results::{
    Checked, ColdStart, Found, Ladder, LoadUnit, Probe, Run, Spread, ToolResults,
};
use crate::text::{count, ns, rate, short, time};

/// A cell: its text, and whether it tells of a failure.
pub(super) type Cell = (String, bool);

/// A table in no form yet; the first column names the row.
pub(super) struct Table {
    pub(super) title: String,
    pub(super) caption: &'static str,
    pub(super) head: &'static [&'static str],
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Document {
    /// The tables of what is beside the runs.
    pub(super) fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        for file in &self.files {
            let of = [file.report.limit().map(probes), file.report.cold_start().map(starts)];
            for mut table in of.into_iter().flatten() {
                if self.files.len() > 1 {
                    table.title = format!("{}: {}", file.name, table.title);
                }
                tables.push(table);
            }
        }
        let kinds: Vec<_> = self.runs().flat_map(|(name, _, run)| kinds(&name, run)).collect();
        if !kinds.is_empty() {
            tables.push(Table {
                title: "Each kind of call".to_owned(),
                caption: "The kinds of a mix; how their results were compared is the last column",
                head: &["run", "tool", "weight", "calls", "p50", "p90", "p99", "failed", "check"],
                rows: kinds,
            });
        }
        tables
    }
}

impl File {
    /// What is beside the runs in sentences.
    pub(super) fn found(&self) -> Vec<(Mood, String)> {
        let mut said = Vec::new();
        if let Some(found) = self.report.limit() {
            let mood = if found.limit_per_s.is_some() { Mood::Fact } else { Mood::Bad };
            let of = short(&found.conditions, 200);
            said.push((mood, format!("The highest rate with {of}: {}.", limit_text(found))));
            let ended = found.unfinished.iter();
            said.extend(ended.map(|why| (Mood::Bad, format!("The search is unfinished: {why}."))));
        }
        if let Some(ladder) = self.report.ladder() {
            let knee = knee_text(ladder, &self.report.runs);
            said.push((Mood::Fact, format!("The knee of the ladder: {knee}.")));
        }
        if let Some(cold) = self.report.cold_start() {
            said.push((Mood::Fact, cold_text(cold)));
            said.extend(cold.interrupted().map(|text| (Mood::Bad, format!("It was {text}."))));
            if cold.failed > 0 {
                let why = cold.first_failure.as_deref().unwrap_or("not recorded");
                let text = format!("{} of {} starts failed: {why}", cold.failed, cold.starts);
                said.push((Mood::Bad, short(&text, 600)));
            }
        }
        said
    }
}

/// The limit, and what fails above it.
pub(super) fn limit_text(found: &Found) -> String {
    let mut text = match found.limit_per_s {
        Some(limit) => format!("{} calls/s", rate(limit)),
        None => "none: no rate that was tried holds".to_owned(),
    };
    if let Some(fails) = found.fails_at_per_s {
        let was = |Checked { text, measured, .. }: &Checked| format!("{text} was {measured}");
        let failed = found.failed.iter().map(was).collect::<Vec<_>>().join("; ");
        // Writing into a string does not fail.
        let _ = write!(text, "; {} calls/s does not hold: {failed}", rate(fails));
    }
    text
}

/// Whether the rate of a run, meant or due, is the one that holds, or the one that does not.
pub(super) fn outcome(found: &Found, run: &Run) -> Option<bool> {
    let rates = [Some(run.plan.arrivals?.rate_per_s()), run.due_per_s()];
    let is = |bound: f64| rates.iter().flatten().any(|rate| (rate / bound - 1.0).abs() < 1e-9);
    match (found.limit_per_s.is_some_and(is), found.fails_at_per_s.is_some_and(is)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// The load of a run, and whether it is the one that a search found not to hold.
pub(super) fn named(run: &Run, limit: Option<&Found>) -> String {
    match limit.and_then(|found| outcome(found, run)) {
        Some(false) => format!("{}, which does not hold", run.load()),
        _ => run.load(),
    }
}

/// Where the knee is.
pub(super) fn knee_text(ladder: &Ladder, runs: &[Run]) -> String {
    let so_far = if runs.iter().any(|run| run.interrupted) { "so far " } else { "" };
    let Some(knee) = &ladder.knee else {
        return format!(
            "{so_far}not reached: throughput rose in step with the load to the last rung, or there \
             are fewer than three"
        );
    };
    let unit = if is_open(ladder) { "calls/s due" } else { "in flight" };
    let (at, level) = (rate(knee.load), rate(knee.throughput_per_s));
    let most = if knee.from_the_first { "at most " } else { "" };
    format!("{so_far}{most}{at} {unit}, with {level} calls/s; beyond it calls only wait longer")
}

/// Whether the loads are rates.
pub(super) fn is_open(ladder: &Ladder) -> bool {
    ladder.load == LoadUnit::CallsPerS
}

fn cold_text(cold: &ColdStart) -> String {
    let median = |(name, spread): (_, &Spread)| format!("{name} {}", at(spread.median_ns));
    let medians = cold.figures().map(median).collect::<Vec<_>>().join(", ");
    format!(
        "{} was started {} times, each with a fresh {}. Medians: {medians}.",
        short(&cold.target, 200),
        count(cold.starts as u64),
        short(&cold.fresh, 40)
    )
}

/// How a test or a probe ended.
pub(super) const fn verdict(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "holds",
        Some(false) => "fails",
        None => "cannot be told",
    }
}

fn probes(found: &Found) -> Table {
    let row = |probe: &Probe| {
        let was = |Checked { text, measured, .. }: &Checked| format!("{text}: {measured}");
        let checked = probe.checked.iter().map(was).collect::<Vec<_>>().join("; ");
        vec![
            (rate(probe.rate_per_s), false),
            (at(probe.duration_ns), false),
            (verdict(probe.holds).to_owned(), probe.holds == Some(false)),
            (checked, false),
        ]
    };
    Table {
        title: "The search for the limit".to_owned(),
        caption: "Every probe, in order",
        head: &["calls/s", "for", "verdict", "measured"],
        rows: found.probes.iter().map(row).collect(),
    }
}

fn starts(cold: &ColdStart) -> Table {
    let row = |(name, of): (&str, &Spread)| {
        let interval = of
            .median_interval_ns
            .map_or_else(|| "n/a".to_owned(), |[low, high]| format!("{} to {}", at(low), at(high)));
        let values = count(of.values_ns.len() as u64);
        [name.to_owned(), at(of.median_ns), interval, at(of.min_ns), at(of.max_ns), values]
            .map(|text| (text, false))
            .to_vec()
    };
    Table {
        title: "Cold starts".to_owned(),
        caption: "From before the start until each step was done; the first call by itself",
        head: &["step", "median", "95 % interval", "min", "max", "starts"],
        rows: cold.figures().map(row).collect(),
    }
}

fn kinds(name: &str, run: &Run) -> Vec<Vec<Cell>> {
    let row = |tool: &ToolResults| {
        let of = &tool.latency;
        let [p50, p90, p99] = [of.p50_ns, of.p90_ns, of.p99_ns].map(|value| time(ns(value)));
        vec![
            (name.to_owned(), false),
            (tool.name.clone(), false),
            (tool.weight.to_string(), false),
            (count(tool.calls_ok), false),
            (p50, false),
            (p90, false),
            (p99, false),
            (count(tool.errors.total()), tool.errors.total() > 0),
            (tool.check.to_string(), false),
        ]
    };
    run.results.tools.iter().map(row).collect()
}

fn at(value: u64) -> String {
    time(ns(Some(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Style;
    use crate::report::tests::{HOSTILE, elements};
    use crate::results::tests::{begun_at, sample};
    use crate::results::{Checking, Environment, Measured, Report};

    fn quiet() -> Environment {
        let mut environment = Environment::look();
        (environment.optimised, environment.load_before) = (true, Some([0.0; 3]));
        environment
    }

    fn read(report: &Report) -> Document {
        let text = serde_json::to_string(report).unwrap();
        Document::read([("r.json", text.as_str())]).unwrap()
    }

    /// Markdown, HTML, `JUnit`, CSV, Prometheus.
    fn forms(document: &Document) -> [String; 5] {
        [
            document.to_markdown(),
            document.to_html(),
            document.to_junit(),
            document.to_csv(),
            document.to_prometheus(),
        ]
    }

    fn search(limit_per_s: Option<f64>, unfinished: Option<&str>) -> Report {
        let checked = |holds| Checked {
            text: "p99<1ms".to_owned(),
            measured: "17 ms".to_owned(),
            holds: Some(holds),
        };
        let probe = |rate_per_s, holds| Probe {
            rate_per_s,
            duration_ns: 2_000_000_000,
            holds: Some(holds),
            checked: vec![checked(holds)],
        };
        let mut report = Report::new(quiet(), vec![sample(100, false)]);
        report.measured = Measured::Limit(Found {
            conditions: "p99<1ms".to_owned(),
            limit_per_s,
            fails_at_per_s: Some(432.0),
            failed: vec![checked(false)],
            unfinished: unfinished.map(str::to_owned),
            probes: vec![probe(321.0, true), probe(432.0, false)],
        });
        report
    }

    #[test]
    fn a_search_for_a_limit_is_in_every_form_and_fails_its_case() {
        for (limit, unfinished, said, counts) in [
            (
                Some(321.0),
                None,
                "321 calls/s; 432 calls/s does not hold: p99<1ms was 17 ms",
                (0, 0),
            ),
            (None, None, "none: no rate that was tried holds", (1, 0)),
            (Some(321.0), Some("stopped"), "The search is unfinished: stopped.", (0, 1)),
        ] {
            let document = read(&search(limit, unfinished));
            assert!(document.words().iter().any(|of| of.text.contains(said)), "{said}");
            let [markdown, html, junit, _, prometheus] = forms(&document);
            assert!(
                markdown.contains("| 432 | 2.00 s | fails | p99&lt;1ms: 17 ms |"),
                "{markdown}"
            );
            assert!(html.contains("<td class=\"fail\">fails</td>"), "{html}");
            let all = elements(&junit);
            let count = |name: &str| all.iter().filter(|(element, _)| element == name).count();
            assert_eq!((count("failure"), count("error")), counts, "{junit}");
            assert_eq!(count("testcase"), 1);
            assert_eq!(prometheus.contains("bound=\"holds\"} 321\n"), limit.is_some());
            assert!(prometheus.contains("probe=\"1\",rate_per_s=\"432\"} 0\n"), "{prometheus}");
        }
    }

    #[test]
    fn the_rate_that_does_not_hold_is_evidence_of_the_search() {
        let mut report = search(Some(321.0), None);
        report.runs = vec![begun_at(321.0, 100, 0), begun_at(432.0, 100, 7)];
        report.runs[1].results.errors.timeout = 94;
        let document = read(&report);
        let junit = document.to_junit();
        assert!(junit.contains("tests=\"1\" failures=\"0\" errors=\"0\""), "{junit}");
        let markdown = document.to_markdown();
        let of = "- 94 of 200 calls failed (stdio 2026-07-28, 432/s, which does not hold).";
        assert!(markdown.contains(of), "{markdown}");
        let text = report.to_text(Style::default());
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
        assert!(line("  321 holds").ends_with(" 0       0"), "{text}");
        assert!(line("  432 fails").ends_with(" 7      94"), "{text}");
        // Of random arrivals the rate is that of the calls that were due: 107 in a second.
        let Measured::Limit(found) = &mut report.measured else { unreachable!() };
        found.fails_at_per_s = Some(107.0);
        assert_eq!(outcome(found, &report.runs[1]), Some(false));
        found.fails_at_per_s = None;
        assert_eq!(outcome(found, &report.runs[1]), None);
        let markdown = read(&report).to_markdown();
        assert!(markdown.contains("**✗** 94 of 200 calls failed"), "{markdown}");
    }

    #[test]
    fn loads_are_told_by_their_number() {
        let runs = [100.0, 400.0, 50.0, 200.0].map(|per_s| begun_at(per_s, 100, 0));
        let said = &read(&Report::new(quiet(), runs.to_vec())).words()[0].text;
        assert!(said.contains(" at 50.00/s, 100/s, 200/s, 400/s, in an open loop"), "{said}");
        let mut run = sample(100, false);
        run.plan.think = Some(crate::results::Think { mean_ns: 5_000_000, exponential: true });
        let said = &read(&Report::new(quiet(), vec![run])).words()[0].text;
        let of = "with 1 in flight, thinking exponential 5 ms, in a closed loop: each call began when \
                  another had ended and its user had thought.";
        assert!(said.contains(of), "{said}");
    }

    #[test]
    fn a_ladder_says_its_knee() {
        let mut report = Report::new(quiet(), vec![sample(100, false)]);
        let ladder: Ladder = serde_json::from_value(serde_json::json!({
            "load": "calls_in_flight", "rungs": [], "visits": 4,
            "knee": {"load": 4.1, "throughput_per_s": 50.0, "rung": 4.0, "from_the_first": false},
        }))
        .unwrap();
        report.measured = ladder.into();
        let [markdown, html, .., prometheus] = forms(&read(&report));
        for text in [markdown, html] {
            assert!(text.contains("The knee of the ladder: 4.10 in flight, with 50.00"), "{text}");
        }
        assert!(prometheus.contains("knee_load{file=\"0\",load=\"calls_in_flight\"} 4.1\n"));
    }

    fn cold(failed: usize) -> Report {
        let spread = serde_json::json!({
            "min_ns": 1_000_000, "median_ns": 2_000_000, "max_ns": 3_000_000,
            "median_interval_ns": [1_000_000, 3_000_000],
            "values_ns": [1_000_000, 2_000_000, 3_000_000],
        });
        let mut report = Report::new(quiet(), vec![]);
        let cold: ColdStart = serde_json::from_value(serde_json::json!({
            "target": "the-server", "fresh": "process", "tool": "echo", "asked": 5, "starts": 3 + failed,
            "failed": failed, "first_failure": (failed > 0).then_some(HOSTILE), "connect": null,
            "tls": null, "listens": null, "handshake": spread, "ready": spread,
            "first_call": spread,
        })).unwrap();
        report.measured = cold.into();
        report
    }

    #[test]
    fn cold_starts_are_in_every_form() {
        let document = read(&cold(0));
        let [markdown, html, junit, csv, prometheus] = forms(&document);
        for text in [&markdown, &html] {
            for untrue in ["nothing", "Nothing speaks", "no run", "calls succeeded", "calls/s"] {
                assert!(!text.contains(untrue), "{untrue:?} in {text}");
            }
            assert!(text.contains("the-server: measured by mcplane"), "{text}");
            assert!(text.contains("It was interrupted after 3 of 5 starts."), "{text}");
            assert!(text.contains("Medians: handshake 2.00 ms, tools listed 2.00 ms"), "{text}");
        }
        let row = "| handshake | 2.00 ms | 1.00 ms to 3.00 ms | 1.00 ms | 3.00 ms | 3 |";
        assert!(markdown.contains(row), "{markdown}");
        assert_eq!(csv.lines().count(), 4);
        assert!(
            csv.contains("\ncold_start_first_call,3,,,1000.000,2000.000,,,,3000.000,,"),
            "{csv}"
        );
        assert!(prometheus.contains("step=\"tools_listed\",figure=\"high\"} 0.003\n"));
        let count = |xml: &str, name: &str| {
            elements(xml).into_iter().filter(|(element, _)| element == name).count()
        };
        assert_eq!((count(&junit, "testcase"), count(&junit, "failure")), (1, 0), "{junit}");
        let [_, html, junit, ..] = forms(&read(&cold(2)));
        assert_eq!(count(&junit, "failure"), 1, "{junit}");
        assert!(html.contains("2 of 5 starts failed") && !html.contains("<script"), "{html}");
        elements(&html);
    }

    #[test]
    fn a_mix_is_no_single_tool() {
        let mut run = sample(4_000, false);
        let kind = |name: &str, calls: u64| {
            let of = sample(calls, false).results;
            ToolResults {
                name: name.to_owned(),
                weight: 1.0,
                check: Checking::Equal,
                calls_sent: calls,
                calls_ok: calls,
                errors: of.errors,
                latency: of.latency,
                latency_histogram: of.latency_histogram,
            }
        };
        run.results.tools = vec![kind("echo", 3_000), kind("search", 1_000)];
        let document = read(&Report::new(quiet(), vec![run]));
        let said = &document.words()[0].text;
        assert!(said.starts_with("A mix of 2 kinds of calls (echo, search) of s"), "{said}");
        let [markdown, html, junit, csv, prometheus] = forms(&document);
        assert!(markdown.contains(", 1 in flight | search | 1 | 1,000 |"), "{markdown}");
        assert!(html.contains("<td>search</td>") && html.contains("a mix of 2 kinds of calls"));
        assert!(junit.contains("classname=\"bench.stdio.mix\""), "{junit}");
        let names: Vec<_> = csv.lines().skip(1).filter_map(|row| row.split(',').next()).collect();
        assert_eq!(names, ["mix_stdio_1", "mix_1_echo_stdio_1", "mix_2_search_stdio_1"]);
        assert!(csv.contains("\nmix_2_search_stdio_1,1000,1000.000,1000.000,"), "{csv}");
        let of = "load=\"1 in flight\",kind=\"2\",tool=\"search\",outcome=\"ok\"} 1000\n";
        assert!(prometheus.contains(of) && prometheus.contains("tool=\"mix\""), "{prometheus}");
        assert!(prometheus.contains("tool=\"search\",quantile=\"0.5\"} "), "{prometheus}");
    }

    #[test]
    fn rates_have_names_of_their_own() {
        let at = |per_s: f64| {
            let mut run = sample(100, false);
            run.plan.concurrency = 1024;
            run.plan.arrivals = crate::Plan::default().at(per_s).arrivals;
            run
        };
        let document = read(&Report::new(quiet(), vec![at(500.0), at(1_000.0), at(197.530_86)]));
        let csv = document.to_csv();
        let names: Vec<_> = csv.lines().skip(1).filter_map(|row| row.split(',').next()).collect();
        let rates = ["500", "1000", "197_531"];
        assert_eq!(names, rates.map(|rate| format!("echo_stdio_{rate}_per_s")));
        let ids: Vec<_> = document
            .to_erlmcp()
            .iter()
            .map(|result| result["workload_id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(ids, rates.map(|rate| format!("stdio_sustained_{rate}_per_s_100b")));
    }

    #[test]
    fn what_was_interrupted_cannot_be_told() {
        let mut run = sample(100, false);
        run.interrupted = true;
        let asserting = |text: &str| {
            let report = Report::new(quiet(), vec![run.clone()]);
            report.asserting(&text.parse().unwrap())
        };
        let holds = asserting("p50<1s");
        assert_eq!((holds.asserted[0][0].holds, holds.holds()), (Some(true), None));
        assert_eq!(asserting("p50<1ns").holds(), Some(false));
        let junit = read(&holds).to_junit();
        assert!(junit.contains("errors=\"1\"") && junit.contains("<error message=\"interrupted\""));
    }

    #[test]
    fn without_a_call_nothing_succeeded() {
        let document = read(&Report::new(quiet(), vec![sample(0, false)]));
        let said = document.words().into_iter().map(|said| said.text).collect::<Vec<_>>();
        assert!(said.contains(&"No call was made.".to_owned()), "{said:?}");
        assert!(!said.iter().any(|said| said.contains("succeeded")), "{said:?}");
    }
}
