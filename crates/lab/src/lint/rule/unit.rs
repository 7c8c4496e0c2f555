//! Units: missing, off by a thousand, of batches, or of no known operation.

use super::found::{Found, finding};
use super::show;
use crate::lint::finding::Severity::{Doubtful, Impossible, Unclear};
use crate::lint::name::{Dimension, Quantity, unit_of, words};
use crate::lint::table::{Row, Side, Table};

pub(super) fn apply(table: &Table, found: &mut Found) {
    missing(table, found);
    for side in table.all() {
        off(&side, found);
        batch(&side, found);
        too_small(&side, found);
    }
    for row in &table.rows {
        known(table, row, found);
    }
}

fn missing(table: &Table, found: &mut Found) {
    for (at, column) in table.columns.iter().enumerate() {
        let bare = |row: &&Row| row.cells.get(at).is_some_and(|c| c.figure.is_some() && !c.stated);
        let Some(row) = table.rows.iter().find(bare) else { continue };
        let text = row.cells.get(at).map(|cell| cell.text.as_str()).unwrap_or_default();
        let numbers = format!("{} = {text}", column.name);
        let why = "Neither the name nor the cell says the unit; the figure may mean anything.";
        found.push(finding((table, Some(row)), "unit-missing", Unclear, (numbers, why)));
    }
    if let Some(column) = table.columns.iter().find(|c| c.quantity == Quantity::Latency) {
        let why = "A latency without a statistic may be a mean, a median, or one call.";
        let numbers = column.name.clone();
        found.push(finding((table, None), "statistic-missing", Unclear, (numbers, why)));
    }
}

/// The power of 1,000 by which the latencies are off, if Little's law says so.
pub(super) fn scale(side: &Side<'_>) -> Option<i32> {
    let (rate, (load, _)) = (side.one(Quantity::Throughput)?, side.in_flight()?);
    let latency = side.one(Quantity::Mean).or_else(|| side.one(Quantity::Percentile(0.5)))?;
    let ratio = rate.value * latency.value / load.value;
    [-2, -1, 1, 2].into_iter().find(|power| (0.5..1.5).contains(&(ratio / 1e3_f64.powi(*power))))
}

fn off(side: &Side<'_>, found: &mut Found) {
    let (Some(power), Some((load, firm)), Some(rate)) =
        (scale(side), side.in_flight(), side.one(Quantity::Throughput))
    else {
        return;
    };
    let latency = side.one(Quantity::Mean).or_else(|| side.one(Quantity::Percentile(0.5)));
    let Some(latency) = latency.map(|figure| figure.value) else { return };
    let numbers = format!(
        "{} × {} = {} in flight, stated {}; with {} it is {}",
        show::rate(rate.value),
        show::time(latency),
        show::number(rate.value * latency),
        show::number(load.value),
        show::time(latency / 1e3_f64.powi(power)),
        show::number(rate.value * latency / 1e3_f64.powi(power)),
    );
    let why = "By Little's law the figures fit each other only if the latencies (or the rate) are in \
               another unit than stated.";
    let severity = if firm && power > 0 { Impossible } else { Doubtful };
    found.push(side.finding("unit-scale", severity, numbers, why));
}

fn batch(side: &Side<'_>, found: &mut Found) {
    let (Some(batch), Some(rate), Some((_, latency))) = (
        side.one(Quantity::Batch).filter(|batch| batch.value > 1.0),
        side.one(Quantity::Throughput),
        side.percentiles().first().copied(),
    ) else {
        return;
    };
    let load = side.in_flight().map_or(1.0, |(load, _)| load.value);
    let batches = rate.value * latency.value / load;
    if side.is_stated() && (0.3..1.5).contains(&batches) {
        let numbers = format!(
            "{} × {} per batch of {} ≈ {}; of operations it would be {}, {} each",
            show::rate(rate.value),
            show::time(latency.value),
            show::number(batch.value),
            show::number(batches),
            show::rate(rate.value * batch.value),
            show::time(1.0 / rate.value / batch.value),
        );
        let why = "The rate is that of batches, and the percentiles are those of whole batches: the \
                   latency of one operation was never measured.";
        found.push(side.finding("batch-rate", Doubtful, numbers, why));
    }
}

fn too_small(side: &Side<'_>, found: &mut Found) {
    let tiny = |(_, cell): &(&crate::lint::name::Column, &crate::lint::table::Cell)| {
        cell.figure.is_some_and(|figure| figure.high > 0.0 && figure.high < 1e-9)
    };
    let mut cells = side.table.cells(side.row);
    let tiny = cells.find(|pair| pair.0.quantity.is_latency() && pair.1.stated && tiny(pair));
    if let Some((column, cell)) = tiny {
        let numbers = format!("{} = {}", column.name, cell.text);
        let why = "Less than a nanosecond is below the resolution of every clock that calls are \
                   measured with.";
        found.push(side.finding("magnitude", Impossible, numbers, why));
    }
}

/// Operations whose usual time is well known: words, and seconds from and to.
const KNOWN: [(&[&str], f64, f64); 4] = [
    (&["no", "op", "function"], 1e-10, 10e-6),
    (&["empty", "function"], 1e-10, 10e-6),
    (&["json", "1", "kb"], 50e-9, 100e-6),
    (&["loopback", "connect"], 1e-6, 10e-3),
];

fn known(table: &Table, row: &Row, found: &mut Found) {
    let side = Side { table, row, name: "" };
    let figures = [Quantity::Value, Quantity::Mean, Quantity::Percentile(0.5)];
    let Some(figure) = figures.into_iter().find_map(|quantity| side.one(quantity)) else { return };
    let texts: Vec<_> = table.cells(row).filter(|(_, cell)| cell.figure.is_none()).collect();
    let unit = texts.iter().find_map(|(_, cell)| unit_of(&cell.text.to_lowercase()));
    if side.cell(Quantity::Value).is_some() && unit.is_none_or(|u| u.dimension != Dimension::Time) {
        return;
    }
    let words = words(&row.label);
    let names = |any: &[&str]| any.iter().all(|word| words.iter().any(|w| w == word));
    let Some((_, from, to)) = KNOWN.into_iter().find(|(any, ..)| names(any)) else { return };
    if figure.low > to || figure.high < from {
        let numbers = format!(
            "{}; elsewhere {} to {}",
            show::time(figure.value),
            show::time(from),
            show::time(to)
        );
        let why = "A well-known operation takes far less, or more, elsewhere: something around it was \
                   measured with it.";
        found.push(finding((table, Some(row)), "magnitude", Doubtful, (numbers, why)));
    }
}
