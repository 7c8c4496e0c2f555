//! A contest for people: a table for each side, and what it means in words.

use std::fmt::{self, Write as _};

use crate::results::{Comparison, Contest, Metric, Role, Side, Verdict};
use crate::stats::Interval;

const MIB: f64 = 1024.0 * 1024.0;

impl Contest {
    /// The text for a terminal, its sentences in lines of at most so many columns.
    #[must_use]
    pub fn to_text(&self, columns: usize) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out, columns);
        out
    }

    fn write(&self, out: &mut String, columns: usize) -> fmt::Result {
        for side in &self.sides {
            writeln!(out, "{:<8}{}  ({})", side.name, side.target, side.spoken)?;
        }
        if let Some(run) = self.runs.first() {
            let plan = &run.plan;
            write!(out, "\n{} {} · {} · ", plan.tool, plan.args, run.load())?;
            let what = plan.duration_ns.map(|ns| Metric::P50.show(ns as f64));
            let what = what.or_else(|| plan.calls.map(|calls| format!("{calls} calls")));
            let turns = "in turns A B B A, each with fresh processes";
            writeln!(out, "{} pairs of runs of {} {turns}", self.pairs, what.unwrap_or_default())?;
        }
        for side in self.sides.iter().filter(|side| !side.comparisons.is_empty()) {
            side.table(out)?;
        }
        out.push('\n');
        for side in &self.sides {
            writeln!(out, "{}", wrapped(&side.words(self), columns))?;
        }
        if !self.environment.optimised {
            writeln!(
                out,
                "This program was built without optimisation: it may be the slower part."
            )?;
        }
        Ok(())
    }
}

impl Side {
    fn table(&self, out: &mut String) -> fmt::Result {
        let name = &self.name;
        let by = format!("{name} by A [95 %]");
        writeln!(
            out,
            "\n{:<14}{:>12}{:>12}   {by:<26} {:<36}{:>8}  verdict",
            "", "A", name, "difference [95 %]", "p"
        )?;
        for row in &self.comparisons {
            let Comparison { metric, ratio, .. } = row;
            let digits = if ratio.high < 100.0 { 3 } else { 1 };
            let of = |value: f64| format!("{value:.digits$}");
            let ratio = format!("{} [{}, {}]", of(ratio.value), of(ratio.low), of(ratio.high));
            let shift = row.shift.map_or_else(|| "n/a".to_owned(), |shift| signed(*metric, &shift));
            let p = row.mann_whitney.map_or_else(|| "n/a".to_owned(), |test| p_value(test.p));
            writeln!(
                out,
                "  {metric:<12}{:>12}{:>12}   {ratio:<26} {shift:<36}{p:>8}  {}",
                metric.show(row.a),
                metric.show(row.b),
                row.verdict
            )?;
        }
        Ok(())
    }

    /// What its figures mean, in a few sentences.
    #[must_use]
    pub fn words(&self, contest: &Contest) -> String {
        let mut text = match self.role {
            Role::Base => String::new(),
            Role::Calibration => self.noise(contest.effect),
            Role::Rival => self.verdicts(),
            Role::Gateway => format!("{} {}", self.added(contest), self.verdicts()),
        };
        if self.errors > 0 {
            let why = self.first_failure.as_deref().unwrap_or("no reason was given");
            let _ = write!(text, " {} calls failed, the first: {why}", self.errors);
        } else if let Some(why) = &self.first_failure {
            let _ = write!(text, " A run broke off: {why}");
        }
        if text.is_empty() {
            let memory = self.rss_bytes.map(|bytes| format!("{:.1} MiB", bytes / MIB));
            let memory = memory.unwrap_or_else(|| "n/a".to_owned());
            let processes = self.processes.map_or_else(|| "n/a".to_owned(), |n| format!("{n:.0}"));
            text = format!("memory {memory}, processes {processes}.");
        }
        format!("{}: {}", self.name, text.trim())
    }

    fn verdicts(&self) -> String {
        let mut parts = Vec::new();
        for verdict in
            [Verdict::Faster, Verdict::Slower, Verdict::NoDifference, Verdict::CannotTell]
        {
            let rows = self.comparisons.iter().filter(|row| row.verdict == verdict);
            let shown: Vec<_> = rows.map(|row| row.words()).collect();
            if !shown.is_empty() {
                parts.push(format!("{verdict}: {}.", shown.join("; ")));
            }
        }
        if parts.is_empty() {
            return "cannot tell: fewer than three pairs of runs.".to_owned();
        }
        parts.join(" ")
    }

    /// What the machine does by itself.
    fn noise(&self, effect: f64) -> String {
        let of = |row: &Comparison| {
            let ratio = percent(&row.ratio);
            format!("{} {ratio}, {:.1} % from run to run", row.metric, 100.0 * row.noise)
        };
        let shown: Vec<_> = self
            .comparisons
            .iter()
            .filter(|row| matches!(row.metric, Metric::Throughput | Metric::P50 | Metric::P99))
            .map(of)
            .collect();
        format!(
            "the noise of this machine: {}. An effect below {:.1} % does not matter (--effect).",
            shown.join("; "),
            100.0 * effect
        )
    }

    /// What the way through a gateway costs.
    fn added(&self, contest: &Contest) -> String {
        let shift = |row: &Comparison| {
            let Some(shift) = row.shift else {
                return format!("{} {:+.3} ms", row.metric, (row.b - row.a) / 1e6);
            };
            let Interval { value, low, high } = shift.map(|ns| ns / 1e6);
            format!("{} {value:+.3} ms [{low:+.3}, {high:+.3}]", row.metric)
        };
        let latencies = self
            .comparisons
            .iter()
            .filter(|row| !matches!(row.metric, Metric::Throughput | Metric::CpuPerCall));
        let added: Vec<_> = latencies.map(shift).collect();
        let base = contest.sides.first();
        let of = |value: fn(&Self) -> Option<f64>| (base.and_then(value), value(self));
        let (memory, processes) = (of(|side| side.rss_bytes), of(|side| side.processes));
        let mut text = format!("added latency: {}.", added.join("; "));
        if let ((Some(before), Some(now)), (Some(few), Some(many))) = (memory, processes) {
            let (before, now) = (before / MIB, now / MIB);
            let _ = write!(
                text,
                " {many:.0} processes with {now:.1} MiB in place of {few:.0} with {before:.1} MiB."
            );
        }
        text
    }
}

impl Comparison {
    fn words(&self) -> String {
        let mut text = format!("{} {}", self.metric, percent(&self.ratio));
        if let Some(why) = &self.why {
            let _ = write!(text, " ({why})");
        }
        match self.samples_needed {
            Some(pairs) if pairs <= 20 * self.samples => {
                let _ = write!(text, " (about {pairs} pairs would tell)");
            }
            Some(_) => text.push_str(" (too much noise here to be told with more pairs)"),
            None => {}
        }
        text
    }
}

/// Lines of at most so many columns, all but the first indented. A line ends behind a figure or a
/// sentence, and within one that is longer than a line behind a word.
fn wrapped(text: &str, columns: usize) -> String {
    const INDENT: &str = "\n  ";
    let (mut out, mut used) = (String::new(), 0);
    let parts =
        text.split_inclusive([';', '.', ':']).fold(Vec::<String>::new(), |mut parts, part| {
            match parts.last_mut() {
                // A dot within a number, a colon within a time.
                Some(last) if !part.starts_with(' ') => last.push_str(part),
                _ => parts.push(part.trim_start().to_owned()),
            }
            parts
        });
    for part in parts {
        let length = part.chars().count();
        let words =
            if length + 2 > columns { part.split(' ').collect() } else { vec![part.as_str()] };
        for words in words {
            let length = words.chars().count();
            match used {
                0 => {}
                used if used + 1 + length <= columns => out.push(' '),
                _ => out.push_str(INDENT),
            }
            out.push_str(words);
            used = out.rsplit('\n').next().unwrap_or_default().chars().count();
        }
    }
    out
}

/// A ratio as a change: `+9.0 % [+5.1, +13.0]`.
fn percent(ratio: &Interval) -> String {
    let Interval { value, low, high } = ratio.map(|ratio| 100.0 * (ratio - 1.0));
    format!("{value:+.1} % [{low:+.1}, {high:+.1}]")
}

fn signed(metric: Metric, shift: &Interval) -> String {
    let plus = |value: f64| format!("{}{}", if value > 0.0 { "+" } else { "" }, metric.show(value));
    format!("{} [{}, {}]", plus(shift.value), plus(shift.low), plus(shift.high))
}

fn p_value(p: f64) -> String {
    if p < 0.0001 { "<0.0001".to_owned() } else { format!("{p:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_cut_between_figures() {
        let text = "B: faster: throughput +20.0 % [+20.0, +20.0]; p50 -16.7 % [-16.7, -16.7]. \
            no difference seen: p90 +0.0 % [+0.0, +0.0] (a long way to say why it is so).";
        let lines = "B: faster: throughput +20.0 % [+20.0, +20.0];\n  p50 -16.7 % [-16.7, -16.7]. \
            no difference seen:\n  p90 +0.0 % [+0.0, +0.0] (a long way to say why\n  it is so).";
        assert_eq!(wrapped(text, 50), lines);
        assert_eq!(wrapped(text, 1000), text);
        assert!(wrapped(&"ä ".repeat(100), 20).lines().all(|line| line.chars().count() <= 20));
        assert_eq!(wrapped("one-word-that-is-longer", 5), "one-word-that-is-longer");
        assert_eq!(wrapped("", 80), "");
    }
}
