//! The wait that a row names in words (`50 ms sleep`) beside the latencies in its figures.

use super::found::Found;
use super::show;
use crate::lint::finding::Severity::{Doubtful, Unclear};
use crate::lint::name::{Dimension, Quantity, duration, percentile_name, unit_of, words};
use crate::lint::table::{Side, Table};

/// A call that only waits takes little more than its wait.
const TIMES_MAX: f64 = 10.0;

pub(super) fn apply(table: &Table, found: &mut Found) {
    // However few are in flight on average: calls may come while others wait.
    if table.open {
        return;
    }
    for side in table.all() {
        let texts = table.cells(side.row).filter(|(_, cell)| cell.figure.is_none());
        let words: Vec<_> = texts.flat_map(|(_, cell)| words(&cell.text)).collect();
        let Some(wait) = wait(&words) else { continue };
        let load = side.in_flight().map_or(1.0, |(load, _)| load.value);
        if load <= 1.0 {
            against(&side, wait, found);
        } else if let Some(workers) = workers(&words) {
            rounds(&side, wait, workers, load, found);
        }
    }
}

/// A duration beside a word for waiting, in seconds.
fn wait(words: &[String]) -> Option<f64> {
    let is_wait = |at: Option<usize>| {
        let word = at.and_then(|at| words.get(at));
        word.is_some_and(|word| ["sleep", "wait", "delay"].iter().any(|w| word.starts_with(w)))
    };
    words.iter().enumerate().find_map(|(at, word)| {
        let unit = words.get(at + 1).and_then(|word| unit_of(word));
        let unit = unit.filter(|unit| unit.dimension == Dimension::Time);
        let (seconds, end) = match (duration(word), unit) {
            (Some(seconds), _) => (seconds, at + 1),
            (None, Some(unit)) => (word.parse::<f64>().ok()? * unit.scale, at + 2),
            (None, None) => return None,
        };
        (seconds > 0.0 && (is_wait(at.checked_sub(1)) || is_wait(Some(end)))).then_some(seconds)
    })
}

fn workers(words: &[String]) -> Option<f64> {
    let pair = words.windows(2).find(|pair| pair.get(1).is_some_and(|word| word == "workers"))?;
    pair.first()?.parse().ok().filter(|n| *n >= 1.0)
}

fn against(side: &Side<'_>, wait: f64, found: &mut Found) {
    let figures = [Quantity::Value, Quantity::Mean, Quantity::Percentile(0.5)];
    let Some(figure) = figures.into_iter().find_map(|quantity| side.one(quantity)) else { return };
    let is_time = side.cell(Quantity::Value).is_none() || unit_is_time(side);
    let times = figure.value / wait;
    let numbers = format!(
        "{} beside a wait of {} (× {})",
        show::time(figure.value),
        show::time(wait),
        show::number(times)
    );
    if is_time && figure.high < wait {
        let why = "A call does not end before the wait that it consists of.";
        found.push(side.finding("stated-wait", Doubtful, numbers, why));
    } else if is_time && times >= TIMES_MAX {
        let why = "The latency is many times the wait that the row names, and nothing in the table \
                   says what the rest is.";
        found.push(side.finding("stated-wait", Doubtful, numbers, why));
    }
}

fn unit_is_time(side: &Side<'_>) -> bool {
    let texts = side.table.cells(side.row).filter(|(_, cell)| cell.figure.is_none());
    let unit = texts.filter_map(|(_, cell)| unit_of(&cell.text.to_lowercase())).next();
    unit.is_some_and(|unit| unit.dimension == Dimension::Time)
}

/// Calls that all start at once and wait are served in rounds of as many as there are workers.
fn rounds(side: &Side<'_>, wait: f64, workers: f64, load: f64, found: &mut Found) {
    let (Some(n), Some((share, figure))) = (side.samples(), side.percentiles().first().copied())
    else {
        return;
    };
    if n > load {
        return;
    }
    let rounds = ((n * share).ceil() / workers).ceil();
    let expected = rounds * wait;
    if figure.low > expected * 1.1 || figure.high < expected {
        let numbers = format!(
            "{} {}; {n} calls of {} on {workers} workers: call {} ends in round {rounds}, at {}",
            percentile_name(share),
            show::time(figure.value),
            show::time(wait),
            (n * share).ceil(),
            show::time(expected)
        );
        let why = "Calls that wait are served in rounds; a percentile between or beyond them comes \
                   from another rank, or from how the calls were collected.";
        found.push(side.finding("service-rounds", Unclear, numbers, why));
    }
}
