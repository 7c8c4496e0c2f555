//! Runs on one line each.

use std::fmt::{self, Write as _};
use std::iter::once;

use super::found::named;
use super::open;
use super::terminal::{Page, WIDTH};
use crate::results::{Found, Ratio, Ratios, Run};
use crate::text::{count, ns, rate, time, times};

/// Columns of the name of a run, where there is room.
const NAME: usize = 22;

/// Fewest columns of a figure.
const FIGURE: usize = 6;

impl Page<'_> {
    /// One line for each of several runs.
    pub(super) fn summary(&mut self, runs: &[Run]) -> fmt::Result {
        let rows: Vec<_> = runs.iter().map(|run| (name(run, None), run)).collect();
        self.lines("in short", &rows)?;
        self.out.push('\n');
        Ok(())
    }

    /// One line for each run, under titles, the first of which is given. A column is as wide as what
    /// stands in it, and left out where nothing does; between two is always a gap.
    pub(super) fn lines(&mut self, name: &str, rows: &[(String, &Run)]) -> fmt::Result {
        let cells: Vec<_> = rows.iter().map(|(_, run)| cells(run)).collect();
        let column = |(at, title): (usize, &'static str)| {
            let column: Vec<_> = cells.iter().filter_map(|row| row.get(at)).collect();
            let widest = column.iter().map(|cell| cell.chars().count()).max()?;
            let width = widest.max(title.chars().count()).max(FIGURE);
            (widest > 0).then_some((title, width, column))
        };
        let [raw, missed] = open::TITLES;
        let titles = [
            "calls/s", "÷ floor", "p50", "÷ floor", "p99", raw, "CPU/call", "÷ floor", missed,
            "failed",
        ];
        let columns: Vec<_> = titles.into_iter().enumerate().filter_map(column).collect();
        let names = || once(name).chain(rows.iter().map(|(name, _)| name.as_str()));
        let longest = names().map(|name| name.chars().count()).max().unwrap_or(0);
        let figures: usize = columns.iter().map(|(_, width, _)| width).sum();
        let taken = |gap| 2 + figures + gap * columns.len();
        let gap = if longest + taken(2) <= WIDTH { 2 } else { 1 };
        let width = longest.max(NAME.min(WIDTH.saturating_sub(taken(gap))));
        let mut lines: Vec<_> = names().map(|name| format!("  {name:<width$}")).collect();
        for (title, width, cells) in columns {
            let cells = once(title).chain(cells.into_iter().map(String::as_str));
            for (line, cell) in lines.iter_mut().zip(cells) {
                write!(line, "{:gap$}{cell:>width$}", "")?;
            }
        }
        for (at, line) in lines.iter().enumerate() {
            let line = if at == 0 { &self.style.dim(line) } else { line };
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }
}

/// The transport and the load of a run, which tell it from the others.
pub(super) fn name(run: &Run, limit: Option<&Found>) -> String {
    format!("{}, {}", run.target.transport, named(run, limit))
}

fn cells(run: &Run) -> [String; 10] {
    let (results, ratios) = (&run.results, run.ratios.as_ref());
    let ratio = |of: fn(&Ratios) -> Option<Ratio>| {
        ratios.and_then(of).map_or_else(String::new, |ratio| times(ratio.value()))
    };
    let [(raw, _), (missed, _)] = open::cells(results);
    [
        rate(results.throughput_per_s),
        ratio(|ratios| ratios.throughput),
        time(ns(results.latency.p50_ns)),
        ratio(|ratios| ratios.p50),
        time(ns(results.latency.p99_ns)),
        raw,
        time(results.resources.cpu_ns_per_call),
        ratio(|ratios| ratios.cpu_per_call),
        missed,
        count(results.errors.total()),
    ]
}

#[cfg(test)]
mod tests {
    use crate::report::Style;
    use crate::results::tests::{begun_at, sample};
    use crate::results::{Environment, Ratio, Ratios, Report, Run};

    #[test]
    fn columns_are_apart_and_small_ratios_have_digits() {
        let slow = |run: Run| {
            let ratio = |whole| Some(Ratio { whole, median: None, min: None, max: None });
            let [throughput, p50, cpu_per_call] = [0.000_812, 1_247.62, 131.0].map(ratio);
            let mut run = run;
            run.ratios = Some(Ratios { throughput, p50, p99: None, cpu_per_call });
            run.results.latency.p50_ns = Some(79_400_000);
            run
        };
        for (runs, said) in [
            ([1.0, 12_345.0].map(|rate| begun_at(rate, 100, 20)), " 0.00081 × 79.4 ms  1248 × "),
            ([100, 400].map(|calls| sample(calls, true)), "  0.00081 ×  79.4 ms   1248 × "),
        ] {
            let runs = runs.map(slow).to_vec();
            let text = Report::new(Environment::look(), runs).to_text(Style::default());
            let short: Vec<_> = text.lines().skip_while(|line| !line.contains("short")).collect();
            assert!(short[1].contains(said), "{text}");
            let widths = [0, 1, 2].map(|at: usize| short[at].chars().count());
            assert!(widths[0] <= 100 && widths == [widths[0]; 3], "{text}");
        }
    }
}
