//! Ratios: of what they say, with what behind them.

use super::found::{Found, finding};
use super::show;
use crate::lint::figure::Figure;
use crate::lint::finding::Severity::{Doubtful, Impossible, Unclear};
use crate::lint::name::{Column, Quantity};
use crate::lint::table::{Row, Side, Table};

pub(super) fn apply(table: &Table, found: &mut Found) {
    let columns = table.columns.iter().enumerate();
    for (at, column) in columns.filter(|(_, column)| column.quantity == Quantity::Ratio) {
        let claimed = |row: &Row| row.cells.get(at).and_then(|cell| cell.figure);
        let is_one =
            |row: &&Row| claimed(row).is_some_and(|figure| (figure.value - 1.0).abs() < 1e-9);
        let base = table.rows.iter().find(is_one).or_else(|| table.rows.first());
        for row in &table.rows {
            if let (Some(ratio), Some(base)) = (claimed(row), base) {
                label(table, column, (row, base), ratio, found);
            }
        }
        scaling(table, at, found);
    }
}

/// A ratio that the figures allow: of what, and its bounds.
struct Candidate {
    of: Quantity,
    ratio: Figure,
    /// Whether calls failed on either side of it.
    failed: bool,
}

fn label(
    table: &Table,
    column: &Column,
    (row, base): (&Row, &Row),
    ratio: Figure,
    found: &mut Found,
) {
    let candidates = candidates(table, row, base);
    let fits = |candidate: &&Candidate| candidate.ratio.meets(ratio);
    let at = (table, Some(row));
    let numbers = |of: &str| format!("{} = {}{of}", column.name, show::number(ratio.value));
    let listed = |candidate: &Candidate| {
        let (low, high) = (show::number(candidate.ratio.low), show::number(candidate.ratio.high));
        format!(
            "; of {} it is {} ({low} to {high})",
            candidate.of.name(),
            show::number(candidate.ratio.value)
        )
    };
    let named: Vec<_> =
        candidates.iter().filter(|c| column.of.is_none_or(|of| of == c.of)).collect();
    let Some(nearest) = named.iter().min_by(|a, b| {
        (a.ratio.value - ratio.value).abs().total_cmp(&(b.ratio.value - ratio.value).abs())
    }) else {
        return;
    };
    let Some(fit) = named.iter().copied().find(fits) else {
        let other = candidates.iter().find(fits).map(&listed).unwrap_or_default();
        let told = column.of.is_some();
        let why = match (told, other.is_empty()) {
            (true, false) => "It is the ratio of another figure than the one it names.",
            (true, true) => "It is not the ratio of the figures that it names.",
            _ => "It is the ratio of no two figures beside it.",
        };
        let severity = if told { Impossible } else { Doubtful };
        let text = numbers(&format!("{}{other}", listed(nearest)));
        found.push(finding(at, "ratio-label", severity, (text, why)));
        return;
    };
    if fit.failed {
        let why = "One side of the ratio has failed calls, whose time is in its throughput and not \
                   in its latency: the ratio says what a failure costs, not how fast a side is.";
        found.push(finding(at, "ratio-errors", Doubtful, (numbers(&listed(fit)), why)));
    }
    if ratio.step * 10.0 < (fit.ratio.high - fit.ratio.low) / 2.0 && !table.machine {
        let why =
            "The ratio is printed with more digits than the figures that it was divided from.";
        found.push(finding(at, "precision", Unclear, (numbers(&listed(fit)), why)));
    }
}

/// Every ratio of two figures of a quantity: of two sides of the row, or of the row and the base.
fn candidates(table: &Table, row: &Row, base: &Row) -> Vec<Candidate> {
    let sides = table.sides();
    let mut pairs = Vec::new();
    if sides.len() > 1 {
        for (at, name) in sides.iter().enumerate().take(16) {
            for other in sides.iter().skip(at + 1).take(16) {
                pairs.push((Side { table, row, name }, Side { table, row, name: other }));
            }
        }
    } else if let Some(name) = sides.first().filter(|_| !std::ptr::eq(row, base)) {
        pairs.push((Side { table, row, name }, Side { table, row: base, name }));
    }
    let mut quantities: Vec<Quantity> = Vec::new();
    for quantity in table.columns.iter().map(|column| column.quantity) {
        if quantity.is_measured() && !quantities.contains(&quantity) {
            quantities.push(quantity);
        }
    }
    let mut candidates = Vec::new();
    for (a, b) in &pairs {
        for quantity in &quantities {
            let (Some(x), Some(y)) = (a.one(*quantity), b.one(*quantity)) else { continue };
            let failed = a.errors() + b.errors() > 0.0;
            for ratio in [x.over(y), y.over(x)].into_iter().flatten() {
                candidates.push(Candidate { of: *quantity, ratio, failed });
            }
        }
    }
    candidates
}

/// Speedups between two sides that are numbers of workers, as `throughput_1`, `throughput_4`.
fn scaling(table: &Table, at: usize, found: &mut Found) {
    let sides: Vec<f64> = table.sides().iter().filter_map(|side| side.parse().ok()).collect();
    let &[few, many] = sides.as_slice() else { return };
    let workers = many.max(few) / many.min(few);
    let mut best: Option<(f64, &Row)> = None;
    for row in &table.rows {
        let failed = table.sides().iter().any(|name| Side { table, row, name }.errors() > 0.0);
        let Some(ratio) = row.cells.get(at).and_then(|cell| cell.figure).filter(|_| !failed) else {
            continue;
        };
        if ratio.high < 1.0 {
            let numbers = format!("× {}", show::number(ratio.value));
            let why = "A speedup below one is a loss: here the larger number made it slower.";
            found.push(finding((table, Some(row)), "scaling", Unclear, (numbers, why)));
        }
        if best.is_none_or(|(most, _)| ratio.value > most) {
            best = Some((ratio.value, row));
        }
    }
    let Some((speedup, row)) = best.filter(|(speedup, _)| *speedup > 1.0 && *speedup < workers)
    else {
        return;
    };
    let serial = (workers / speedup - 1.0) / (workers - 1.0) * 100.0;
    if serial > 10.0 {
        let numbers = format!(
            "at best × {} of × {}: serial share {} %",
            show::number(speedup),
            show::number(workers),
            show::number(serial)
        );
        let why = "By Amdahl's law so much of the work is serial; without saying what is shared, the \
                   speedup cannot be carried over to another case.";
        found.push(finding((table, Some(row)), "scaling", Unclear, (numbers, why)));
    }
}
