//! The table as a whole: copies, constants, digits, repetitions.

use std::collections::HashMap;

use super::found::{Found, finding};
use super::show;
use crate::lint::finding::Severity::{Doubtful, Unclear};
use crate::lint::name::{Quantity, words};
use crate::lint::table::{Row, Side, Table, by_load};

pub(super) fn apply(table: &Table, found: &mut Found) {
    copied(table, found);
    two_points(table, found);
    if table.machine {
        return;
    }
    constant(table, found);
    no_spread(table, found);
    for side in table.all() {
        digits(&side, found);
    }
}

/// Different rows with at least three measured figures, all the same. The throughput of an open
/// loop is that of its schedule.
fn copied(table: &Table, found: &mut Found) {
    let mut seen: HashMap<String, &Row> = HashMap::new();
    let is_measured = |q: Quantity| q.is_measured() && !(table.open && q == Quantity::Throughput);
    for row in &table.rows {
        let measured = table
            .cells(row)
            .filter(|(column, cell)| is_measured(column.quantity) && cell.figure.is_some());
        let texts: Vec<_> = measured.map(|(_, cell)| cell.text.as_str()).collect();
        if texts.len() < 3 {
            continue;
        }
        match seen.get(texts.join("\u{1}").as_str()) {
            Some(first) => {
                let numbers =
                    format!("{} as in line {} ({})", texts.join(" · "), first.line, first.label);
                let why =
                    "Two measurements do not agree in every digit: one of the rows is a copy.";
                found.push(finding((table, Some(row)), "copied-row", Doubtful, (numbers, why)));
            }
            None => {
                seen.insert(texts.join("\u{1}"), row);
            }
        }
    }
}

fn constant(table: &Table, found: &mut Found) {
    for (at, column) in table.columns.iter().enumerate() {
        let cells = || table.rows.iter().filter_map(|row| row.cells.get(at));
        let Some(first) = cells().next() else { continue };
        let digits = first.figure.map_or(0, |figure| figure.digits());
        let same = cells().all(|cell| cell.text == first.text);
        if column.quantity.is_latency() && table.rows.len() > 2 && digits > 2 && same {
            let numbers =
                format!("{} = {} in all {} rows", column.name, first.text, table.rows.len());
            let why = "A latency that is the same to the last digit in every row was not measured in \
                       every row.";
            found.push(finding((table, None), "constant-figure", Doubtful, (numbers, why)));
        }
    }
}

/// The standard error of a few samples is far above the last digit that is printed.
fn digits(side: &Side<'_>, found: &mut Found) {
    let Some(n) = side.samples().filter(|n| *n <= 1_000.0) else { return };
    let fine = side.table.cells(side.row).find(|(column, cell)| {
        let ours = column.side == side.name || column.side.is_empty();
        ours && column.quantity.is_measured()
            && cell.figure.is_some_and(|f| f.value > 0.0 && f.step / f.value < 0.001 / n.sqrt())
    });
    if let Some((column, cell)) = fine {
        let digits = cell.figure.map_or(0, |figure| figure.digits());
        let numbers = format!(
            "{} = {}: {digits} digits of {} samples",
            column.name,
            cell.text,
            show::number(n)
        );
        let why = "The last digits are far below what so few samples can tell.";
        found.push(side.finding("precision", Unclear, numbers, why));
    }
}

/// Nothing tells repetitions from one another; the nearest pair of rows shows what is lost.
fn no_spread(table: &Table, found: &mut Found) {
    let measured = table.has(Quantity::is_measured);
    let told = table.has(|quantity| quantity == Quantity::Spread)
        || words(&table.name).iter().any(|word| word == "runs" || word == "rounds");
    let figures = |name| table.columns.iter().any(|c| c.name.contains('±') || c.name == name);
    let pm = table.rows.iter().flat_map(|row| &row.cells).any(|cell| cell.text.contains('±'));
    if !measured || told || pm || figures("±") || table.rows.len() < 2 {
        return;
    }
    let nearest = [Quantity::Throughput, Quantity::Percentile(0.5)]
        .into_iter()
        .find_map(|quantity| nearest(table, quantity).map(|pair| (quantity, pair)));
    let why = "No column tells how often a row was measured or how far repetitions lie apart, so \
               no difference between rows can be told from chance.";
    let Some((quantity, (a, b, row))) = nearest else {
        let numbers = format!("{} rows", table.rows.len());
        found.push(finding((table, None), "no-spread", Unclear, (numbers, why)));
        return;
    };
    let shown = if quantity == Quantity::Throughput { show::rate } else { show::time };
    let numbers = format!(
        "{} {} and {}: {} % apart",
        quantity.name(),
        shown(a),
        shown(b),
        show::number((b / a - 1.0) * 100.0)
    );
    found.push(finding((table, Some(row)), "no-spread", Unclear, (numbers, why)));
}

/// The two rows of one load that are nearest to each other without being the same, if within 10 %:
/// their figures, and the later row.
fn nearest(table: &Table, quantity: Quantity) -> Option<(f64, f64, &Row)> {
    let name = table.sides().first().copied()?;
    let rows = by_load(table, name, |side| Some(side.cell(quantity)?.figure?.value));
    let pairs = rows.iter().zip(rows.iter().skip(1));
    pairs
        .filter(|(a, b)| a.0.total_cmp(&b.0).is_eq() && b.1 > a.1 && a.1 > 0.0 && b.1 <= a.1 * 1.1)
        .min_by(|(a, b), (c, d)| (b.1 / a.1).total_cmp(&(d.1 / c.1)))
        .map(|(a, b)| (a.1, b.1, if a.2.line > b.2.line { a.2 } else { b.2 }))
}

/// Columns `…_start` and `…_end` with nothing between them.
fn two_points(table: &Table, found: &mut Found) {
    let stem = |name: &str, end: &str| {
        let mut words = words(name);
        let at = words.iter().position(|word| word == end)?;
        words.remove(at);
        Some(words.join(" "))
    };
    let pairs = [("start", "end"), ("first", "last"), ("before", "after")];
    let names: Vec<_> = pairs
        .into_iter()
        .flat_map(|(start, end)| {
            let ends: Vec<_> = table.columns.iter().filter_map(|c| stem(&c.name, end)).collect();
            let starts = table.columns.iter().filter_map(move |c| stem(&c.name, start));
            starts.filter(move |stem| ends.contains(stem))
        })
        .collect();
    if !names.is_empty() {
        let numbers =
            format!("{} columns with a first and a last figure: {}", names.len(), names.join(", "));
        let why = "Two points make no trend: a step before the first, or a peak before the last, \
                   decides; a slope with its confidence needs the figures between.";
        found.push(finding((table, None), "two-points", Unclear, (numbers, why)));
    }
}
