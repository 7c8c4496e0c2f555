//! The whole lies between its parts: slow tools in a mix, a total over rows, hits and misses.

use super::found::{Found, finding};
use super::show;
use crate::lint::figure::Figure;
use crate::lint::finding::Severity::{Doubtful, Impossible};
use crate::lint::name::{Column, Quantity, percentile_name, statistic, words};
use crate::lint::table::{Row, Side, Table};

/// What rounding of histograms may add.
const SLACK: f64 = 0.01;

pub(super) fn apply(table: &Table, found: &mut Found) {
    for side in table.all() {
        waits(&side, found);
    }
    for name in table.sides() {
        whole(table, name, found);
    }
    cache(table, found);
}

/// Columns that count what takes at least so long, as `tools_200ms`: with calls spread evenly the
/// slowest share of all calls takes at least that.
fn waits(side: &Side<'_>, found: &mut Found) {
    let parts: Vec<_> = side
        .table
        .cells(side.row)
        .filter_map(|(column, cell)| match column.quantity {
            Quantity::Part(seconds) => Some((column, seconds, cell.figure?.value)),
            _ => None,
        })
        .collect();
    let Some((first, ..)) = parts.first() else { return };
    // The others of the kind, as `tools_fast`, wait for nothing.
    let kind = words(&first.name).into_iter().next();
    let of_kind = |column: &Column| words(&column.name).into_iter().next() == kind;
    let cells = side.table.cells(side.row).filter(|(column, _)| of_kind(column));
    let total: f64 = cells.filter_map(|(_, cell)| cell.figure).map(|figure| figure.value).sum();
    if total <= 0.0 || !side.is_stated() {
        return;
    }
    let least = |share: f64| {
        let reached = parts.iter().filter(|(_, seconds, _)| {
            let slower = parts.iter().filter(|(_, other, _)| other >= seconds);
            slower.map(|(.., count)| count).sum::<f64>() / total > 1.0 - share + SLACK
        });
        reached.map(|(_, seconds, _)| *seconds).fold(0.0, f64::max)
    };
    let below: Vec<_> = side
        .percentiles()
        .into_iter()
        .filter(|(share, figure)| figure.high < least(*share))
        .map(|(share, figure)| {
            let (name, bound) = (percentile_name(share), show::time(least(share)));
            format!("{name} {}, at least {bound}", show::time(figure.value))
        })
        .collect();
    if !below.is_empty() {
        let mix: Vec<_> = parts
            .iter()
            .map(|(_, seconds, count)| {
                format!("{} of {total} take {}", count, show::time(*seconds))
            })
            .collect();
        let numbers = format!("{}; {}", below.join("; "), mix.join(", "));
        let why = "If calls go evenly to all of them, that share of all calls takes at least the \
                   stated wait, and no percentile beyond it can be shorter.";
        found.push(side.finding("mixture", Impossible, numbers, why));
    }
}

/// A row `all`, `total` or `overall` against the other rows of its load.
fn whole(table: &Table, name: &str, found: &mut Found) {
    const WHOLE: &[&str] = &["all", "total", "overall", "mixture", "aggregate", "combined"];
    let load = |row: &Row| Side { table, row, name }.in_flight().map(|(load, _)| load.value);
    let is_whole =
        |row: &&Row| words(&row.label).first().is_some_and(|word| WHOLE.contains(&word.as_str()));
    let Some(any) = table.rows.iter().find(is_whole) else { return };
    let one_each = table.rows.iter().filter(|row| load(row) == load(any)).count();
    for row in table.rows.iter().filter(is_whole).take(64) {
        let parts: Vec<_> = table
            .rows
            .iter()
            .filter(|part| !is_whole(part) && load(part) == load(row))
            .map(|row| Side { table, row, name })
            .collect();
        if parts.len() < 2 || one_each < 3 {
            continue;
        }
        let side = Side { table, row, name };
        let shares = side.percentiles().into_iter().map(|(share, _)| Quantity::Percentile(share));
        for quantity in shares.chain([Quantity::Mean]) {
            between(&side, &parts, quantity, found);
        }
    }
}

fn between(side: &Side<'_>, parts: &[Side<'_>], quantity: Quantity, found: &mut Found) {
    let of_parts: Option<Vec<_>> = parts.iter().map(|part| part.one(quantity)).collect();
    let (Some(whole), Some(of_parts)) = (side.one(quantity), of_parts) else { return };
    let low = of_parts.iter().map(|figure| figure.low).fold(f64::INFINITY, f64::min);
    let high = of_parts.iter().map(|figure| figure.high).fold(0.0, f64::max);
    if whole.high < low * (1.0 - SLACK) || whole.low > high * (1.0 + SLACK) {
        let numbers = format!(
            "{} {} of the whole, {} to {} of its parts",
            quantity.name(),
            show::time(whole.value),
            show::time(low),
            show::time(high)
        );
        let why = "A percentile or mean of a mixture lies between the least and the greatest of its \
                   parts.";
        found.push(side.finding("mixture", Impossible, numbers, why));
    }
}

/// What a row says about a cache.
struct Hits<'a> {
    row: &'a Row,
    /// The share of hits, 0 to 1.
    share: f64,
    mean: Option<Figure>,
    median: Option<Figure>,
}

fn cache(table: &Table, found: &mut Found) {
    let rows: Vec<_> = table.rows.iter().filter_map(|row| hits(table, row)).collect();
    let uncached = rows.iter().find(|hits| hits.share <= 0.0).and_then(|hits| hits.mean);
    let Some(miss) = uncached else { return };
    let mut hit: Option<f64> = None;
    for (hits, mean) in rows.iter().filter_map(|hits| Some((hits, hits.mean?))) {
        let of_misses = (1.0 - hits.share) * miss.low;
        if mean.high < of_misses * (1.0 - SLACK) {
            let numbers = format!(
                "mean {} at {} % hits; misses alone add {}",
                show::time(mean.value),
                show::number(hits.share * 100.0),
                show::time(of_misses)
            );
            let why = "A mean over hits and misses is at least the share of the misses.";
            found.push(finding(
                (table, Some(hits.row)),
                "cache-mixture",
                Impossible,
                (numbers, why),
            ));
        } else if hits.share > 0.0 {
            let rest = mean.value - (1.0 - hits.share) * miss.value;
            hit.get_or_insert_with(|| (rest / hits.share).max(0.0));
        }
    }
    let Some(hit) = hit else { return };
    for (hits, median) in rows.iter().filter_map(|hits| Some((hits, hits.median?))) {
        if hits.share < 0.5 || median.low < 3.0 * hit || median.high > miss.value * 0.67 {
            continue;
        }
        let mean = (1.0 - hits.share) * miss.value + hits.share * hit;
        let numbers = format!(
            "median {} at {} % hits; by the means a hit takes {}, a miss {}, and the mean is {}",
            show::time(median.value),
            show::number(hits.share * 100.0),
            show::time(hit),
            show::time(miss.value),
            show::time(mean)
        );
        let why = "With at least half of the calls hits the median is a hit, or at the edge of the \
                   gap to the misses; a figure inside the gap is no median of these calls.";
        found.push(finding((table, Some(hits.row)), "cache-mixture", Doubtful, (numbers, why)));
    }
}

fn hits<'a>(table: &'a Table, row: &'a Row) -> Option<Hits<'a>> {
    let side = Side { table, row, name: table.sides().first().copied().unwrap_or("") };
    if let Some(share) = side.one(Quantity::HitRate) {
        let (mean, median) = (side.one(Quantity::Mean), side.one(Quantity::Percentile(0.5)));
        return Some(Hits { row, share: share.value / 100.0, mean, median });
    }
    let value = side.one(Quantity::Value)?;
    let texts = table.cells(row).filter(|(_, cell)| cell.figure.is_none());
    let text: String = texts.map(|(_, cell)| format!("{} ", cell.text)).collect();
    let words = words(&text);
    let at = words.iter().position(|word| word == "hits" || word == "hit");
    let percent = at.and_then(|at| {
        let before = words.get(at.saturating_sub(2)..at)?;
        before.iter().find_map(|word| word.trim_end_matches('%').parse::<f64>().ok())
    });
    let none =
        text.contains("without cache") || text.contains("no cache") || text.contains("uncached");
    let share = percent.map(|percent| percent / 100.0).or_else(|| none.then_some(0.0))?;
    let statistic = statistic(&words)?;
    let when = |quantity| (statistic == quantity).then_some(value);
    Some(Hits { row, share, mean: when(Quantity::Mean), median: when(Quantity::Percentile(0.5)) })
}
