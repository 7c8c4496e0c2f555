//! The load: Little's law, bursts, ladders, and the generator's own limit.

use super::found::{Found, finding, once};
use super::show;
use crate::lint::figure::Figure;
use crate::lint::finding::Severity::{Doubtful, Impossible, Unclear};
use crate::lint::name::Quantity;
use crate::lint::table::{MeanBounds, Side, Table, by_load};

/// What rounding, start and end of a run may add to Little's law.
const SLACK: f64 = 0.05;

/// A tail that would have to be this many times the highest percentile is not believed.
const TAIL_MAX: f64 = 10.0;

/// Calls per call in flight from which start and end of a run no longer matter.
const STEADY_MIN: f64 = 20.0;

pub(super) fn apply(table: &Table, found: &mut Found) {
    table.all().for_each(|side| little(&side, found));
    // The others are about a load that was kept in flight.
    if table.open {
        return;
    }
    table.all().for_each(|side| burst(&side, found));
    one_in_flight(table, found);
    for side in table.sides() {
        flat(table, side, found);
        generator(table, side, found);
    }
    concurrency(table, found);
}

fn little(side: &Side<'_>, found: &mut Found) {
    let (Some(rate), Some((load, firm))) = (side.one(Quantity::Throughput), side.in_flight())
    else {
        return;
    };
    if rate.value <= 0.0 {
        return;
    }
    // Units that are off by a power of 1,000 are a finding of their own.
    if super::unit::scale(side).is_some() {
        return;
    }
    let too_many = if firm { Impossible } else { Doubtful };
    let min = side.one(Quantity::Min).filter(|_| !side.table.open).map(|min| rate.low * min.low);
    if let Some(least) = min.filter(|least| *least > load.high * (1.0 + SLACK)) {
        let numbers = format!(
            "{} × least latency = {} in flight, stated {}",
            show::rate(rate.value),
            show::number(least),
            show::number(load.value)
        );
        let why = "In a closed loop each call in flight ends at most once per least latency.";
        found.push(side.finding("closed-loop", too_many, numbers, why));
        return;
    }
    let bounds = side.mean_bounds();
    let mean = side.one(Quantity::Mean);
    let low = mean.map(|mean| mean.low).or_else(|| bounds.map(|bounds| bounds.low));
    if let Some(low) = low.filter(|low| rate.low * low > load.high * (1.0 + SLACK)) {
        let numbers = format!(
            "{} × mean of at least {} = {} in flight, stated {}",
            show::rate(rate.value),
            show::time(low),
            show::number(rate.value * low),
            show::number(load.value)
        );
        let why = "By Little's law throughput times mean latency is the number in flight; the \
                   figures need more than there were.";
        found.push(side.finding("little", too_many, numbers, why));
        return;
    }
    if let Some((numbers, why)) = idle(side, rate, load, (mean, bounds)) {
        // Each failed call may have been in flight for the whole run.
        let may_be_failed = side.errors() >= load.value;
        let severity = if may_be_failed { Unclear } else { Doubtful };
        found.push(side.finding("little", severity, numbers, &why));
    }
}

/// Fewer in flight than stated: either the mean says so, or only an absurd tail would avoid it.
fn idle(
    side: &Side<'_>,
    rate: Figure,
    load: Figure,
    (mean, bounds): (Option<Figure>, Option<MeanBounds>),
) -> Option<(String, String)> {
    let wanted = load.low.max(load.value * 0.99) / rate.high;
    let start = format!(
        "{} in flight ÷ {} = mean of {}",
        show::number(load.value),
        show::rate(rate.value),
        show::time(load.value / rate.value)
    );
    let drains = side.samples().is_some_and(|n| n < STEADY_MIN * load.value);
    let end = if side.errors() > 0.0 {
        " Failed calls were in flight as well: their time is in the throughput and in no latency."
    } else if drains {
        " With so few calls the run is mostly start and end: the stated number was in flight only \
         for a moment."
    } else {
        ""
    };
    let law = "By Little's law the stated number in flight needs another mean latency than the \
               figures allow.";
    let known = mean.map(|mean| mean.high).or_else(|| bounds.and_then(|bounds| bounds.high));
    if let Some(high) = known {
        let few = high * (1.0 + SLACK) < wanted && high < wanted * 0.8;
        let numbers = format!("{start}, figures say at most {}", show::time(high));
        return few.then(|| (numbers, format!("{law}{end}")));
    }
    let bounds = bounds?;
    let tail = (wanted - bounds.body) / bounds.tail.max(1e-9);
    let wall = side.wall();
    let absurd = tail > TAIL_MAX * bounds.top || wall.is_some_and(|wall| tail > wall * 1.1);
    let numbers = format!(
        "{start}; all but the slowest {} % add at most {}, so those would take {} (top percentile {}{})",
        show::number(bounds.tail * 100.0),
        show::time(bounds.body),
        show::time(tail),
        show::time(bounds.top),
        wall.map(|wall| format!(", run {}", show::time(wall))).unwrap_or_default(),
    );
    (absurd && bounds.body < wanted * 0.95).then(|| (numbers, format!("{law}{end}")))
}

fn burst(side: &Side<'_>, found: &mut Found) {
    let (Some(n), Some((load, _))) = (side.samples(), side.in_flight()) else { return };
    let waves = n / load.value;
    if load.value <= 1.0 || waves >= STEADY_MIN || waves.is_nan() {
        return;
    }
    let numbers = format!(
        "{} calls by {} in flight = {}",
        show::number(n),
        show::number(load.value),
        show::number(waves)
    );
    let (severity, why) = if waves <= 2.0 {
        (
            Doubtful,
            "This is a burst that drains, not a level of load: most of the time fewer calls \
                    were in flight.",
        )
    } else {
        (Unclear, "So few waves of calls leave start and end in the figures; 20 make a level.")
    };
    once(found, side.finding("burst", severity, numbers, why));
}

fn one_in_flight(table: &Table, found: &mut Found) {
    let loads: Vec<_> = table.all().filter_map(|side| side.in_flight()).collect();
    if !loads.is_empty() && loads.iter().all(|(load, _)| load.value <= 1.0) && !table.machine {
        let numbers = format!("1 in flight in each of {} rows", table.rows.len());
        let why = "One call at a time shows no queue: nothing follows for latency under load.";
        found.push(finding((table, None), "one-in-flight", Unclear, (numbers, why)));
    }
}

/// Rows of one group (the same texts beside the load), in rising order of the load.
fn ladders<'a>(table: &'a Table, name: &'a str) -> Vec<Vec<(Side<'a>, f64, f64)>> {
    let mut groups: Vec<(String, Vec<_>)> = Vec::new();
    let mut places = std::collections::HashMap::<String, usize>::new();
    for row in &table.rows {
        let side = Side { table, row, name };
        let (Some(rate), Some((load, _))) = (side.one(Quantity::Throughput), side.in_flight())
        else {
            continue;
        };
        if side.errors() > 0.0 {
            continue;
        }
        let texts = table.cells(row).filter(|(_, cell)| cell.figure.is_none());
        let key: String = texts.map(|(_, cell)| format!("{}\u{1}", cell.text)).collect();
        let at = *places.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        if let Some((_, group)) = groups.get_mut(at) {
            group.push((side, load.value, rate.value));
        }
    }
    let mut groups: Vec<_> = groups.into_iter().map(|(_, group)| group).collect();
    groups.iter_mut().for_each(|group| group.sort_by(|a, b| a.1.total_cmp(&b.1)));
    groups
}

fn flat(table: &Table, side: &str, found: &mut Found) {
    for group in ladders(table, side) {
        let Some((last, load, rate)) = group.last() else { continue };
        let level = group.iter().rev().take_while(|(_, _, r)| (r / rate - 1.0).abs() <= 0.1);
        let level: Vec<_> = level.collect();
        let Some((_, first, _)) =
            level.last().filter(|(_, first, _)| level.len() > 2 && load / first >= 4.0)
        else {
            continue;
        };
        let rates: Vec<_> = level.iter().rev().map(|(_, _, rate)| show::number(*rate)).collect();
        let numbers = format!(
            "from {} to {} in flight: {} per s",
            show::number(*first),
            show::number(*load),
            rates.join(", ")
        );
        let why = "Throughput stays while the number in flight grows: the target is full, or the \
                   generator lets no more through; latencies of these rows are waiting time.";
        found.push(last.finding("flat-ladder", Unclear, numbers, why));
    }
}

/// Different targets at one load that all give one throughput.
fn generator(table: &Table, name: &str, found: &mut Found) {
    let rows = by_load(table, name, |side| Some(side.one(Quantity::Throughput)?.value));
    for group in rows.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let (Some(least), Some(most)) = (group.first(), group.last()) else { continue };
        let labels: std::collections::HashSet<_> =
            group.iter().map(|(_, _, row)| &row.label).collect();
        if labels.len() < 3 || most.1 > least.1 * 1.03 || table.machine {
            continue;
        }
        let numbers = format!(
            "{} targets between {} and {}",
            labels.len(),
            show::rate(least.1),
            show::rate(most.1)
        );
        let why = "Different targets with one throughput: what was measured is the generator, or \
                   what all of them share.";
        found.push(finding((table, Some(least.2)), "generator-bound", Doubtful, (numbers, why)));
    }
}

fn concurrency(table: &Table, found: &mut Found) {
    let both = table.has(|q| q == Quantity::Throughput) && table.has(Quantity::is_latency);
    let told = table.has(|q| matches!(q, Quantity::InFlight | Quantity::Clients));
    if !both || told || table.machine {
        return;
    }
    let product = table.all().find_map(|side| {
        Some((side.one(Quantity::Throughput)?.value, side.percentiles().first()?.1.value))
    });
    let Some((rate, latency)) = product else { return };
    let numbers = format!(
        "{} × {} = {} in flight, if they belong together",
        show::rate(rate),
        show::time(latency),
        show::number(rate * latency)
    );
    let why = "Throughput and latency cannot be checked against each other, or be compared with \
               others, without the number of calls in flight.";
    found.push(finding((table, None), "concurrency-missing", Unclear, (numbers, why)));
}
