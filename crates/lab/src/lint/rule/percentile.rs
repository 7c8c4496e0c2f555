//! Percentiles: their order, their ties, the samples behind them, the clock they were read from.

use super::found::{Found, once};
use super::show;
use crate::lint::figure::Figure;
use crate::lint::finding::Severity::{Doubtful, Impossible, Unclear};
use crate::lint::name::{Quantity, percentile_name};
use crate::lint::table::{Side, Table};
use crate::results::samples_min;

/// One tick that is more than this share of a median hides what it is asked for.
const TICK_MAX: f64 = 0.04;

pub(super) fn apply(table: &Table, found: &mut Found) {
    for side in table.all() {
        samples(&side, found);
    }
    for side in table.all() {
        monotone(&side, found);
        same(&side, found);
        clock(&side, found);
    }
}

/// min ≤ p50 ≤ p99 ≤ max.
fn points(side: &Side<'_>) -> Vec<(String, Figure)> {
    let figure = |quantity| side.cell(quantity)?.figure;
    let mut points = Vec::new();
    points.extend(figure(Quantity::Min).map(|min| ("min".to_owned(), min)));
    points.extend(side.percentiles().into_iter().map(|(share, f)| (percentile_name(share), f)));
    points.extend(figure(Quantity::Max).map(|max| ("max".to_owned(), max)));
    points
}

fn monotone(side: &Side<'_>, found: &mut Found) {
    let points = points(side);
    for ((low, a), (high, b)) in points.iter().zip(points.iter().skip(1)) {
        // A histogram reports the end of a bucket: a thousandth more than the greatest sample.
        let grace = if low == "min" || high == "max" { 0.002 * b.value.abs() } else { 0.0 };
        if a.is_above(*b) && a.value - b.value > grace {
            let numbers =
                format!("{low} {} > {high} {}", shown(side, a.value), shown(side, b.value));
            let why = "A higher percentile of one distribution is never below a lower one.";
            found.push(side.finding("monotone", Impossible, numbers, why));
        }
    }
}

fn samples(side: &Side<'_>, found: &mut Found) {
    let Some(n) = side.samples() else { return };
    #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
    let few = |share: &f64| n < samples_min(*share) as f64;
    let short: Vec<_> =
        side.percentiles().into_iter().map(|(share, _)| share).filter(few).collect();
    if short.is_empty() {
        return;
    }
    let names: Vec<_> = short
        .iter()
        .map(|share| format!("{} needs {}", percentile_name(*share), samples_min(*share)))
        .collect();
    let numbers = format!("n = {}; {}", show::number(n), names.join(", "));
    let why = "With fewer samples the greatest of them passes for the percentile: the chance that \
               none lies above the true value is more than 2.5 %.";
    once(found, side.finding("sample-minimum", Doubtful, numbers, why));
}

fn same(side: &Side<'_>, found: &mut Found) {
    let points = points(side);
    let Some((_, first)) = points.last() else { return };
    let equal = points.iter().filter(|(_, figure)| figure.value.total_cmp(&first.value).is_eq());
    let names: Vec<_> = equal.map(|(name, _)| name.as_str()).collect();
    let (all, few) = (names.len() == points.len() && names.len() > 2, names.len() > 1);
    let numbers = format!("{} = {}", names.join(" = "), shown(side, first.value));
    if all && first.value > 0.0 {
        let why = "A whole distribution at one value is that of a constant, not of a measurement.";
        found.push(side.finding("same-percentiles", Doubtful, numbers, why));
    } else if few && !side.table.machine {
        let why = "The highest figures are one and the same sample, or one step of the clock: only \
                   the lowest of the names is known.";
        found.push(side.finding("same-percentiles", Unclear, numbers, why));
    }
}

/// The rounding of all latencies of a side against the lowest percentile.
fn clock(side: &Side<'_>, found: &mut Found) {
    let Some((share, least)) = side.percentiles().first().copied() else { return };
    let name = percentile_name(share);
    if least.value < 0.0 {
        return;
    }
    if least.value == 0.0 {
        let numbers = format!("{name} = 0");
        let why = "No call takes no time: the clock is too coarse for what it measures.";
        found.push(side.finding("clock-resolution", Doubtful, numbers, why));
        return;
    }
    let tick = tick(side, &points(side));
    if tick > least.value * TICK_MAX {
        let numbers = format!(
            "every figure is a multiple of {}, {} % of {name} = {}",
            shown(side, tick),
            show::number(tick / least.value * 100.0),
            shown(side, least.value)
        );
        let why = "One step of the clock or of the rounding is a large part of the figure, so \
                   neither a difference nor a ratio of a few steps means anything.";
        found.push(side.finding("clock-resolution", Doubtful, numbers, why));
    }
}

/// The greatest of the roundings and of the round numbers (1, 10, 100 … times it) that divide all.
fn tick(side: &Side<'_>, points: &[(String, Figure)]) -> f64 {
    let step = points.iter().map(|(_, figure)| figure.step).fold(f64::INFINITY, f64::min);
    if side.table.machine || points.len() < 3 || step <= 0.0 || !step.is_finite() {
        return step;
    }
    let divides = |tick: f64| {
        points.iter().all(|(_, figure)| {
            let times = figure.value / tick;
            (times - times.round()).abs() < 1e-6
        })
    };
    let mut tick = step;
    while tick < step * 1e9 && divides(tick * 10.0) && points.iter().any(|(_, f)| f.value > 0.0) {
        tick *= 10.0;
    }
    tick
}

fn shown(side: &Side<'_>, value: f64) -> String {
    if side.is_stated() { show::time(value) } else { show::number(value) }
}
