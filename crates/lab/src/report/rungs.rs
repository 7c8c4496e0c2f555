//! The text of one target under several loads: a ladder with its knee, a search for a limit; and
//! what became of assertions.

use std::fmt::{self, Write as _};

use super::found::{is_open, knee_text, limit_text, verdict};
use super::terminal::{Page, WIDTH, count, cut, ns, rate, time};
use super::{Report, Run};
use crate::cold::ColdStart;
use crate::ladder::Ladder;
use crate::limit::{Found, Probe};
use crate::verdict::Checked;

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
        if let Some(ladder) = &report.ladder {
            self.ladder(ladder, &report.runs)?;
        }
        if let Some(found) = &report.limit {
            self.limit(found)?;
        }
        let mut told: Vec<_> = report.runs.iter().flat_map(|run| &run.notes).collect();
        told.sort_unstable();
        told.dedup();
        told.iter().try_for_each(|note| self.field("note", note))?;
        for run in &report.runs {
            if let Some(headroom) = run.headroom.filter(|headroom| headroom.generator_bound) {
                let text = format!("{}: {}", load(run), headroom.text());
                self.field("headroom", &self.style.red(&text))?;
            }
            let what = [run.results.first_failure.as_ref(), run.broken.as_ref()];
            for what in what.into_iter().flatten() {
                let text = self.style.red(&format!("{}: {what}", load(run)));
                self.field("failed", &text)?;
            }
        }
        Ok(())
    }

    fn ladder(&mut self, ladder: &Ladder, runs: &[Run]) -> fmt::Result {
        let turns = format!("each rung {} times, upwards and downwards in turns", ladder.visits);
        self.field("ladder", &turns)?;
        self.out.push('\n');
        self.titles(if is_open(ladder) { "begun per second" } else { "in flight" })?;
        for (step, run) in ladder.rungs.iter().zip(runs) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole")]
            let load = match step.load.fract() == 0.0 {
                true => count(step.load as u64),
                false => rate(step.load),
            };
            self.line(&load, run)?;
        }
        self.out.push('\n');
        self.field("knee", &knee_text(ladder))
    }

    fn limit(&mut self, found: &Found) -> fmt::Result {
        self.field("condition", &found.conditions)?;
        self.out.push('\n');
        for probe in &found.probes {
            self.probe(probe)?;
        }
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
                let which = if report.runs.len() > 1 { load(run) + ": " } else { String::new() };
                self.field("assert", &format!("{which}{line}"))?;
            }
        }
        Ok(())
    }
}

fn load(run: &Run) -> String {
    match &run.plan.arrivals {
        Some(arrivals) => format!("{} calls/s", rate(arrivals.rate_per_s())),
        None => {
            let in_flight = run.plan.concurrency * run.plan.sessions;
            format!("{} × {in_flight}", run.target.transport)
        }
    }
}
