//! The text of one target under several loads: a ladder with its knee, a search for a limit; and
//! what became of assertions.

use std::fmt::{self, Write as _};

use super::found::{is_open, knee_text, limit_text, outcome, verdict};
use super::lines::name;
use super::terminal::{Page, WIDTH};
use crate::results::{Checked, ColdStart, Found, Ladder, Probe, Report, Run, Step};
use crate::text::{count, cut, ns, rate, time};

/// What the loads of an open loop are.
const DUE: &str = "due per second";

/// What is said of a ladder that was not climbed to its end.
const UNREACHED: &str = "; rungs that were not reached are not here";

impl Page<'_> {
    /// One line for each load, then what they come to.
    pub(super) fn rungs(&mut self, report: &Report) -> fmt::Result {
        if let Some(run) = report.runs.first() {
            let (plan, target) = (&run.plan, &run.target);
            let server = target.server.as_deref().unwrap_or("unnamed server");
            let call = match run.results.tools.len() {
                0 => format!("{} {}", plan.tool, plan.args),
                kinds => format!("a mix of {kinds} kinds"),
            };
            let title = format!("{server} · {call} over {}", target.transport);
            writeln!(self.out, "{}", self.style.bold(&cut(&title, WIDTH)))?;
        }
        if let Some(ladder) = report.ladder() {
            self.ladder(ladder, &report.runs)?;
        }
        if let Some(found) = report.limit() {
            self.limit(found, &report.runs)?;
        }
        self.interrupted(&report.runs)?;
        let mut told: Vec<_> = report.runs.iter().flat_map(|run| &run.notes).collect();
        told.sort_unstable();
        told.dedup();
        told.iter().try_for_each(|note| self.field("note", note))?;
        for run in &report.runs {
            let name = name(run, report.limit());
            if let Some(headroom) = run.headroom.filter(|headroom| headroom.generator_bound) {
                let text = format!("{name}: {}", headroom.text());
                self.field("headroom", &self.style.red(&text))?;
            }
            let what = [run.results.first_failure.as_ref(), run.broken.as_ref()];
            for what in what.into_iter().flatten() {
                let text = self.style.red(&format!("{name}: {what}"));
                self.field("failed", &text)?;
            }
        }
        Ok(())
    }

    fn ladder(&mut self, ladder: &Ladder, runs: &[Run]) -> fmt::Result {
        self.field("ladder", &turns(ladder, runs))?;
        self.out.push('\n');
        let row = |(step, run): (&Step, _)| {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole")]
            let load = match step.load.fract() == 0.0 {
                true => count(step.load as u64),
                false => rate(step.load),
            };
            (load, run)
        };
        let rows: Vec<_> = ladder.rungs.iter().zip(runs).map(row).collect();
        self.lines(if is_open(ladder) { DUE } else { "in flight" }, &rows)?;
        self.out.push('\n');
        self.field("knee", &knee_text(ladder, runs))
    }

    fn limit(&mut self, found: &Found, runs: &[Run]) -> fmt::Result {
        self.field("condition", &found.conditions)?;
        self.out.push('\n');
        for probe in &found.probes {
            self.probe(probe)?;
        }
        self.out.push('\n');
        let row = |run| {
            let (outcome, due) = (outcome(found, run), run.load_size());
            (format!("{} {}", rate(due), verdict(outcome)), run)
        };
        let rows: Vec<_> = runs.iter().map(row).collect();
        self.lines(DUE, &rows)?;
        self.out.push('\n');
        self.field("limit", &limit_text(found))?;
        found.unfinished.iter().try_for_each(|why| self.field("unfinished", &self.style.red(why)))
    }

    fn probe(&mut self, probe: &Probe) -> fmt::Result {
        let verdict = match probe.holds {
            Some(true) => verdict(probe.holds).to_owned(),
            _ => self.style.red(verdict(probe.holds)),
        };
        #[allow(clippy::cast_precision_loss, reason = "three digits are printed")]
        let length = time(Some(probe.duration_ns as f64));
        let shown = probe.checked.iter().map(|checked| checked.measured.as_str());
        let shown = shown.collect::<Vec<_>>().join(" · ");
        let rate = rate(probe.rate_per_s);
        writeln!(
            self.out,
            "  {rate:>12} calls/s  {length:>8}  {verdict}  {}",
            self.style.dim(&shown)
        )
    }

    /// Each kind of call of a mix on one line.
    pub(super) fn tools(&mut self, run: &Run) -> fmt::Result {
        if run.results.tools.is_empty() {
            return Ok(());
        }
        let titles = format!(
            "\n  {:<26}{:>8}{:>10}{:>11}{:>11}{:>11}{:>8}  check",
            "tool", "weight", "calls", "p50", "p90", "p99", "failed"
        );
        writeln!(self.out, "{}", self.style.dim(&titles))?;
        for tool in &run.results.tools {
            let [p50, p90, p99] = [tool.latency.p50_ns, tool.latency.p90_ns, tool.latency.p99_ns]
                .map(|value| time(ns(value)));
            let (name, weight) = (cut(&tool.name, 26), tool.weight);
            let (calls, failed) = (count(tool.calls_ok), count(tool.errors.total()));
            let check = &tool.check;
            writeln!(
                self.out,
                "  {name:<26}{weight:>8}{calls:>10}{p50:>11}{p90:>11}{p99:>11}{failed:>8}  {check}"
            )?;
        }
        self.out.push('\n');
        Ok(())
    }

    /// One line for each figure.
    pub(super) fn cold_start(&mut self, cold: &ColdStart) -> fmt::Result {
        writeln!(self.out, "{}", self.style.bold(&cut(&cold.target, WIDTH)))?;
        let ok = cold.starts - cold.failed;
        let text = format!("{ok} starts, each with a fresh {}", cold.fresh);
        self.field("measured", &text)?;
        if let Some(text) = cold.interrupted() {
            self.field("stopped", &self.style.red(&text))?;
        }
        if let Some(why) = &cold.first_failure {
            let text = self.style.red(&format!("{} starts: {why}", cold.failed));
            self.field("failed", &text)?;
        }
        let titles = format!(
            "\n  {:<22}{:>12}{:>26}{:>12}{:>12}",
            "", "median", "95 % interval", "min", "max"
        );
        writeln!(self.out, "{}", self.style.dim(&titles))?;
        for (name, spread) in cold.figures() {
            let at = |value| time(ns(Some(value)));
            let interval = spread.median_interval_ns.map_or_else(
                || "n/a".to_owned(),
                |[low, high]| format!("{} to {}", at(low), at(high)),
            );
            let [median, min, max] = [spread.median_ns, spread.min_ns, spread.max_ns].map(at);
            writeln!(self.out, "  {name:<22}{median:>12}{interval:>26}{min:>12}{max:>12}")?;
        }
        self.out.push('\n');
        Ok(())
    }

    /// Each assertion and what became of it.
    pub(super) fn asserted(&mut self, report: &Report) -> fmt::Result {
        for (run, all) in report.runs.iter().zip(&report.asserted) {
            for Checked { text, measured, holds } in all {
                let line = match holds {
                    Some(true) => format!("{text} holds: {measured}"),
                    Some(false) => self.style.red(&format!("{text} FAILS: {measured}")),
                    None => self.style.red(&format!("{text} cannot be told: {measured}")),
                };
                let which = match report.runs.len() {
                    1 => String::new(),
                    _ => name(run, report.limit()) + ": ",
                };
                self.field("assert", &format!("{which}{line}"))?;
            }
        }
        Ok(())
    }
}

/// How often the rungs were measured: a ladder that was stopped has not had all its visits.
fn turns(ladder: &Ladder, runs: &[Run]) -> String {
    let visits = || runs.iter().map(|run| run.results.slices.len());
    let (least, most) = (visits().min().unwrap_or(0), visits().max().unwrap_or(0));
    let asked = ladder.visits;
    let (times, rest) = match (least, most) {
        _ if least >= asked => (format!("{asked} times"), ""),
        _ if least == most => (format!("{least} of {asked} times"), UNREACHED),
        _ => (format!("{least} to {most} of {asked} times"), UNREACHED),
    };
    format!("each rung {times}, upwards and downwards in turns{rest}")
}

#[cfg(test)]
mod tests {
    use crate::report::{Document, Style};
    use crate::results::tests::{begun_at, sample};
    use crate::results::{Environment, Ladder, Report, Run};

    fn ladder(load: &str, visits: usize, runs: Vec<Run>) -> Report {
        let rung = |run: &Run| {
            let load = run.load_size();
            serde_json::json!({
                "load": load, "throughput_per_s": 1.0, "p50_ns": 1, "p99_ns": 1,
                "errors": run.results.errors,
            })
        };
        let rungs: Vec<_> = runs.iter().map(rung).collect();
        let mut report = Report::new(Environment::look(), runs);
        let ladder = serde_json::json!({
            "load": load, "rungs": rungs, "visits": visits,
            "knee": {"load": 4.1, "throughput_per_s": 50.0, "rung": 4.0, "from_the_first": false},
        });
        report.measured = serde_json::from_value::<Ladder>(ladder).unwrap().into();
        report
    }

    #[test]
    fn a_ladder_of_rates_shows_missed_calls_and_raw_figures() {
        let runs = vec![begun_at(100.0, 2_000, 0), begun_at(400.0, 2_000, 1_353)];
        let report = ladder("calls_per_s", 2, runs);
        let text = report.to_text(Style::default());
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap();
        assert!(
            line("  due per second").ends_with("  raw p99  CPU/call  missed  failed"),
            "{text}"
        );
        assert!(line("  400").ends_with("  1.98 ms   1.50 µs   1,353       0"), "{text}");
        let document = Document::of(&report);
        let [markdown, html] = [document.to_markdown(), document.to_html()];
        assert!(markdown.contains(" failed | raw p99 | missed |\n"), "{markdown}");
        assert!(markdown.contains("| 0 | 1.98 ms | 1,353 |\n"), "{markdown}");
        assert!(html.contains("<td>1.98 ms</td><td class=\"fail\">1,353</td></tr>"), "{html}");
        let csv = document.to_csv();
        assert!(csv.contains(" due=3353 missed=1353 raw_p99_us=198"), "{csv}");
        assert_eq!(document.to_erlmcp()[1]["missed"], 1_353);
        let junit = document.to_junit();
        assert!(junit.contains("name=\"calls_missed\" value=\"1353\"/>"), "{junit}");
        assert!(junit.contains("failures=\"0\" errors=\"0\""), "{junit}");
        let closed = ladder("calls_in_flight", 2, vec![sample(100, false)]);
        let (text, document) = (closed.to_text(Style::default()), Document::of(&closed));
        for text in [text, document.to_markdown(), document.to_html(), document.to_csv()] {
            assert!(!text.contains("missed") && !text.contains("raw"), "{text}");
        }
    }

    #[test]
    fn a_ladder_that_was_stopped_says_so_in_every_form() {
        let stopped = |slices: usize| {
            let mut run = sample(100, false);
            run.interrupted = true;
            run.results.calls_unfinished = 2;
            run.results.slices.truncate(slices);
            run
        };
        let report = ladder("calls_in_flight", 4, vec![stopped(2), stopped(1)]);
        let text = report.to_text(Style::default());
        assert!(text.contains("each rung 1 to 2 of 4 times"), "{text}");
        assert!(text.contains("interrupted these are the results so far; 4 calls"), "{text}");
        assert!(text.contains("knee        so far 4.10 in flight"), "{text}");
        let document = Document::of(&report);
        for text in [document.to_markdown(), document.to_html()] {
            assert!(text.contains("Interrupted, these are the results so far: stdio"), "{text}");
            assert!(text.contains("The knee of the ladder: so far 4.10 in flight"), "{text}");
        }
        assert_eq!(document.to_csv().matches(" interrupted=true ").count(), 2);
        let prometheus = document.to_prometheus();
        let series = prometheus.lines().filter(|line| line.starts_with("mcplane_bench_interr"));
        assert_eq!(series.filter(|line| line.ends_with("} 1")).count(), 2, "{prometheus}");
        assert_eq!(document.to_erlmcp()[0]["interrupted"], true);
        let mut run = stopped(1);
        run.plan.slices = 10;
        let text = Report::new(Environment::look(), vec![run]).to_text(Style::default());
        assert!(text.contains("over 1 of 10 slices") && text.contains("so far; 2 calls"), "{text}");
    }
}
