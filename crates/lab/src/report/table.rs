//! The text of targets that were measured in turns: one line for each, beside each other.

use std::fmt::{self, Write as _};

use super::terminal::{Page, WIDTH};
use crate::results::{Missing, Report, Run, Words};
use crate::text::{cut, time};

impl Page<'_> {
    /// One block of lines for each number of calls in flight, then what went wrong.
    pub(super) fn table(&mut self, report: &Report) -> fmt::Result {
        if let Some(run) = report.runs.first() {
            self.title(run)?;
        }
        let mut loads: Vec<_> = report.runs.iter().map(|run| run.plan.in_flight()).collect();
        loads.extend(report.missing.iter().map(|missing| missing.concurrency));
        loads.sort_unstable();
        loads.dedup();
        for load in loads {
            let runs = report.runs.iter().filter(|run| run.plan.in_flight() == load);
            let rows: Vec<_> = runs.map(|run| (name(run), run)).collect();
            self.lines(&format!("{load} in flight"), &rows)?;
            for missing in report.missing.iter().filter(|missing| missing.concurrency == load) {
                self.missing(missing)?;
            }
            self.out.push('\n');
        }
        self.faults(&report.runs)?;
        let mut notes: Vec<_> = report.runs.iter().flat_map(|run| &run.notes).collect();
        notes.sort_unstable();
        notes.dedup();
        for note in notes {
            self.field("note", note)?;
        }
        Ok(())
    }

    fn title(&mut self, run: &Run) -> fmt::Result {
        let (plan, target) = (&run.plan, &run.target);
        let server = target.server.as_deref().unwrap_or("unnamed server");
        let title = format!("{server} · {} {} over every transport", plan.tool, plan.args);
        writeln!(self.out, "{}", self.style.bold(&cut(&title, WIDTH)))?;
        let each = match (plan.calls, plan.duration_ns) {
            (Some(calls), _) => format!("{calls} calls"),
            #[allow(clippy::cast_precision_loss, reason = "three digits are printed")]
            (None, ns) => time(ns.map(|ns| ns as f64)),
        };
        let pin = plan.pin.map(|cpu| format!(" · pinned to core {cpu}")).unwrap_or_default();
        let load = match &plan.arrivals {
            Some(_) => format!("{}{} in flight, ", plan.load_in(Words::Long), plan.concurrency),
            None => plan.load_in(Words::Long),
        };
        let turns = format!(
            "{load}in turns: {} rounds, each beginning with another transport; {each} for \
             each transport and each floor{pin}",
            plan.slices
        );
        self.field("measured", &turns)?;
        self.out.push('\n');
        Ok(())
    }

    fn missing(&mut self, missing: &Missing) -> fmt::Result {
        // The command that was tried is known here.
        let why = missing.why.split_once("`: ").map_or(missing.why.as_str(), |(_, why)| why);
        let why = why.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let line = cut(&format!("  {:<22}  n/a: {why}", missing.target), WIDTH);
        writeln!(self.out, "{}", self.style.red(&line))
    }

    fn faults(&mut self, runs: &[Run]) -> fmt::Result {
        for run in runs {
            let told = [run.results.first_failure.as_ref(), run.broken.as_ref()];
            for what in told.into_iter().flatten() {
                let mut text = format!("{}, {} in flight: ", name(run), run.plan.in_flight());
                let _ = write!(text, "{what}");
                self.field("failed", &self.style.red(&text))?;
            }
        }
        self.interrupted(runs)
    }
}

fn name(run: &Run) -> String {
    format!("{} {}", run.target.transport, run.target.revision)
}
