//! The mean between the bounds that percentiles imply, and beside the median.

use super::found::Found;
use super::show;
use crate::lint::finding::Severity::{Impossible, Unclear};
use crate::lint::name::Quantity;
use crate::lint::table::{Side, Table};

/// What rounding of histograms and of quantiles may add.
const SLACK: f64 = 0.01;

/// A mean this much above the median is another figure.
const SKEW_MIN: f64 = 1.25;

pub(super) fn apply(table: &Table, found: &mut Found) {
    for side in table.all() {
        bounds(&side, found);
        skew(&side, found);
    }
}

fn bounds(side: &Side<'_>, found: &mut Found) {
    let Some(mean) = side.one(Quantity::Mean) else { return };
    let (least, most) = (side.one(Quantity::Min), side.one(Quantity::Max));
    let bounds = side.mean_bounds();
    let low = bounds.map(|b| b.low).into_iter().chain(least.map(|f| f.low)).fold(0.0, f64::max);
    let high = bounds
        .and_then(|b| b.high)
        .into_iter()
        .chain(most.map(|f| f.high))
        .fold(f64::INFINITY, f64::min);
    let outside = mean.high < low * (1.0 - SLACK) || mean.low > high * (1.0 + SLACK);
    if outside && side.is_stated() {
        let top = if high.is_finite() { show::time(high) } else { "…".to_owned() };
        let numbers =
            format!("mean {}, possible {} to {top}", show::time(mean.value), show::time(low));
        let why = "Each percentile fixes how many calls took at least, and at most, so long: their \
                   sum bounds the mean.";
        found.push(side.finding("mean-bounds", Impossible, numbers, why));
    }
}

/// With one call at a time the mean is the inverse of the throughput.
fn skew(side: &Side<'_>, found: &mut Found) {
    if side.cell(Quantity::Mean).is_some() || side.table.machine || side.errors() > 0.0 {
        return;
    }
    let (Some(rate), Some(median)) =
        (side.one(Quantity::Throughput), side.one(Quantity::Percentile(0.5)))
    else {
        return;
    };
    let in_flight = match side.in_flight() {
        Some((figure, true)) => figure.value,
        Some((_, false)) => return,
        // Not told: one at a time if the figures say so.
        None if (0.4..1.1).contains(&(rate.value * median.value)) => 1.0,
        None => return,
    };
    let mean = in_flight / rate.value;
    if side.samples().is_none_or(|n| n >= 20.0 * in_flight)
        && mean > SKEW_MIN * (median.value + median.step / 2.0)
    {
        let numbers = format!(
            "median {}, mean by throughput {} (× {})",
            show::time(median.value),
            show::time(mean),
            show::number(mean / median.value)
        );
        let why = "The throughput is that of the mean, which slow calls raise far above the median \
                   beside it; the two describe different calls.";
        found.push(side.finding("skew", Unclear, numbers, why));
    }
}
