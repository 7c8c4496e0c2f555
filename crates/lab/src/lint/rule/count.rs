//! Counts that must add up, shares of a whole, and what is never below zero.

use super::found::{Found, finding};
use super::show;
use crate::lint::figure::Figure;
use crate::lint::finding::Severity::{Doubtful, Impossible, Unclear};
use crate::lint::name::{Column, Quantity, words};
use crate::lint::table::{Row, Side, Table};

/// How far rate × duration may be from the count: start and end of a run.
const TOTAL_SLACK: f64 = 0.05;

/// Words of a column that holds differences, which may be below zero.
const DIFFERENCES: &[&str] = &[
    "%",
    "added",
    "change",
    "changed",
    "delta",
    "diff",
    "difference",
    "drift",
    "extra",
    "growth",
    "offset",
    "overhead",
    "pct",
    "percent",
    "shift",
    "δ",
];

pub(super) fn apply(table: &Table, found: &mut Found) {
    for side in table.all() {
        balance(&side, found);
        success(&side, found);
        total(&side, found);
    }
    negative(table, found);
    percent(table, found);
    errors_missing(table, found);
}

fn balance(side: &Side<'_>, found: &mut Found) {
    let Some(sent) = side.one(Quantity::Sent) else { return };
    let value = |quantity| side.one(quantity).map(|figure| figure.value);
    let lost = value(Quantity::Lost);
    let (parts, severity, names) = match (value(Quantity::Received), value(Quantity::Ok), lost) {
        (Some(received), _, Some(lost)) => (received + lost, Impossible, "received + lost"),
        (Some(received), _, None) => (received, Unclear, "received"),
        (None, Some(ok), Some(lost)) => (ok + side.errors() + lost, Doubtful, "ok + errors + lost"),
        (None, Some(ok), None) if side.one(Quantity::Errors).is_some() => {
            (ok + side.errors(), Unclear, "ok + errors")
        }
        _ => return,
    };
    let differs = (sent.value - parts).abs() > 0.5 * sent.step.max(1.0);
    // A failure that is counted twice is not missing.
    if differs && !(side.table.machine && side.errors() > 0.0) {
        let numbers = format!("sent {}, {names} {}", show::number(sent.value), show::number(parts));
        let why = "Every call that was sent was answered, lost, or is still to be accounted for.";
        found.push(side.finding("balance", severity, numbers, why));
    }
}

fn success(side: &Side<'_>, found: &mut Found) {
    let Some(rate) = side.one(Quantity::SuccessRate) else { return };
    let value = |quantity| side.one(quantity).map(|figure| figure.value);
    let all = value(Quantity::Sent).or_else(|| value(Quantity::Samples)).filter(|n| *n > 0.0);
    let (ok, errors) = (value(Quantity::Ok), value(Quantity::Errors));
    let percent = match (ok, errors, all) {
        (Some(ok), _, Some(all)) => ok / all * 100.0,
        (None, Some(errors), Some(all)) => (1.0 - errors / all) * 100.0,
        (Some(ok), Some(errors), None) if ok + errors > 0.0 => ok / (ok + errors) * 100.0,
        _ => return,
    };
    if !rate.meets(Figure::exact(percent)) {
        let (stated, counted) = (show::number(rate.value), show::number(percent));
        let numbers = format!("stated {stated} %, counted {counted} %");
        let why = "The success rate is the successful calls by all calls.";
        found.push(side.finding("success-rate", Impossible, numbers, why));
    }
}

fn total(side: &Side<'_>, found: &mut Found) {
    let (Some(rate), Some(time)) = (side.one(Quantity::Throughput), side.one(Quantity::Duration))
    else {
        return;
    };
    let counts = [Quantity::Ok, Quantity::Received, Quantity::Sent, Quantity::Samples];
    let counts: Vec<_> = counts.into_iter().filter_map(|quantity| side.one(quantity)).collect();
    let (low, high) = (rate.low * time.low, rate.high * time.high);
    let fits =
        |count: f64| count >= low * (1.0 - TOTAL_SLACK) && count <= high * (1.0 + TOTAL_SLACK);
    let Some(count) = counts.first().map(|count| count.value) else { return };
    let product = rate.value * time.value;
    let numbers = format!(
        "{} × {} = {}, count {}",
        show::rate(rate.value),
        show::time(time.value),
        show::number(product),
        show::number(count)
    );
    if !counts.iter().any(|count| fits(count.value) || fits(count.value + side.errors())) {
        let far = product > 1.5 * count || product < count / 1.5;
        let severity = if far { Impossible } else { Doubtful };
        let why = "Throughput times duration is the number of calls.";
        found.push(side.finding("total", severity, numbers, why));
        return;
    }
    let both = side.one(Quantity::Sent).zip(side.one(Quantity::Received));
    let messages = side.table.columns.iter().any(|column| {
        let is = |word: &String| word.starts_with("msg") || word.starts_with("message");
        column.quantity == Quantity::Throughput && words(&column.name).iter().any(is)
    });
    let (Some((sent, received)), true) = (both, messages) else { return };
    if received.value > 0.5 * sent.value && !fits(sent.value + received.value) {
        let why = "A request and its answer are two messages; this rate counts one of them, so it \
                   is a rate of calls under another name.";
        found.push(side.finding("message-count", Unclear, numbers, why));
    }
}

/// Times, rates and counts below zero, except in columns of differences.
fn negative(table: &Table, found: &mut Found) {
    let is_difference = |at: usize, column: &Column| {
        let signed = |row: &Row| {
            let text = row.cells.get(at).map(|cell| cell.text.as_str()).unwrap_or_default();
            text.starts_with('+') || text.contains('%')
        };
        words(&column.name).iter().any(|word| DIFFERENCES.contains(&word.as_str()))
            || table.rows.iter().any(signed)
    };
    for (at, column) in table.columns.iter().enumerate() {
        let quantity = column.quantity;
        let is_positive = quantity.is_measured()
            || quantity.is_count()
            || matches!(quantity, Quantity::Duration | Quantity::Stddev);
        if !is_positive || is_difference(at, column) {
            continue;
        }
        for row in &table.rows {
            let Some(cell) = row.cells.get(at) else { continue };
            if cell.figure.is_some_and(|figure| figure.value < 0.0 && figure.high <= 0.0) {
                let numbers = format!("{} = {}", column.name, cell.text);
                let why = "No time, rate or count is below zero.";
                found.push(finding((table, Some(row)), "negative", Impossible, (numbers, why)));
            }
        }
    }
}

fn percent(table: &Table, found: &mut Found) {
    for row in &table.rows {
        for (column, cell) in table.cells(row) {
            let Some(figure) = cell.figure else { continue };
            let over = figure.low > 100.0;
            let (rule, severity, why) = match column.quantity {
                Quantity::SuccessRate | Quantity::HitRate | Quantity::Share
                    if over || figure.high < 0.0 =>
                {
                    ("percent", Impossible, "A share is between nothing and all of the whole.")
                }
                Quantity::Improvement if over => {
                    let why = "More than 100 % of an improvement is a ratio under another name: say \
                               how many times, and of which figure.";
                    ("improvement", Doubtful, why)
                }
                _ => continue,
            };
            let numbers = format!("{} = {} %", column.name, show::number(figure.value));
            found.push(finding((table, Some(row)), rule, severity, (numbers, why)));
        }
    }
}

fn errors_missing(table: &Table, found: &mut Found) {
    let told = |quantity| {
        use Quantity::{Errors, Lost, Ok, Received, Share, SuccessRate};
        matches!(quantity, Errors | Lost | Ok | Received | Share | SuccessRate)
    };
    let measured: Vec<_> = table
        .all()
        .filter(|side| side.cell(Quantity::Throughput).is_some() || !side.percentiles().is_empty())
        .collect();
    let silent = |side: &&Side<'_>| {
        !table.cells(side.row).any(|(column, cell)| told(column.quantity) && cell.figure.is_some())
    };
    let Some(side) = measured.iter().find(silent) else { return };
    let every = measured.iter().all(|side| silent(&side));
    let numbers = if every { "in no row".to_owned() } else { "not in this row".to_owned() };
    let why = "Nothing says how many calls failed, or whether a failed call counts: a server that \
               answers every call with an error is fast.";
    let row = (!every).then_some(side.row);
    found.push(finding((table, row), "errors-missing", Unclear, (numbers, why)));
}
