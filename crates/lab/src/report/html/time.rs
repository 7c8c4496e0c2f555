//! The course of a run: by seconds, or by slices where those are finer.

use super::charts::{chart, short_count};
use super::tables::{cells, table as figures};
use crate::report::document::Load;
use crate::report::svg::{Axis, Line, Lines, Mark};
use crate::results::{Latencies, Results, Second, Slice};
use crate::text::{count, ns, rate, short, time};

/// Most points of a line; neighbours are joined where there are more.
const POINTS_MAX: usize = 60;

/// Most points that have a dot each.
const DOTS_MAX: usize = 16;

/// Most rows of the table.
const ROWS_MAX: usize = 60;

/// A part of the measured time.
struct Part {
    /// Its middle in seconds of measured time.
    at_s: f64,
    length_s: f64,
    throughput_per_s: f64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
}

/// Throughput and latency over time.
pub(super) fn charts(loads: &[&Load<'_>]) -> [Lines; 2] {
    let (mut throughput, mut latency, mut end) = (Vec::new(), Vec::new(), 0.0_f64);
    for (colour, load) in loads.iter().enumerate() {
        let parts = parts(load);
        end = parts.last().map_or(end, |last| end.max(last.at_s + last.length_s / 2.0));
        let name = short(&load.name, 60);
        let of_rate = line(
            &parts,
            &name,
            "",
            |part| Some(part.throughput_per_s),
            |v| format!("{}/s", rate(v)),
        );
        throughput.push(Line { colour, ..of_rate });
        let shown = |ns| time(Some(ns));
        let p50 = line(&parts, &format!("p50, {name}"), "", |part| ns(part.p50_ns), shown);
        let p99 = line(&parts, &format!("p99, {name}"), "dash", |part| ns(part.p99_ns), shown);
        latency.extend([p50, p99].map(|line| Line { colour, ..line }));
    }
    let x = || Axis::linear("measured time, seconds", [end], short_count).ending(end);
    let text = "Each point is a part of the run; the table below the charts has the figures.";
    [
        chart("Throughput over time", text, x(), "calls per second", throughput, false),
        chart("Latency over time", text, x(), "latency", latency, true),
    ]
}

fn line(
    parts: &[Part],
    name: &str,
    dash: &'static str,
    of: impl Fn(&Part) -> Option<f64>,
    show: impl Fn(f64) -> String,
) -> Line {
    let points: Vec<_> = parts.iter().filter_map(|part| Some((part.at_s, of(part)?))).collect();
    let says = |(at, value): (f64, f64)| format!("{name}: {} after {at:.2} s", show(value));
    let dotted = points.iter().filter(|_| points.len() <= DOTS_MAX);
    let marks = dotted.map(|at| Mark { at: *at, says: says(*at) }).collect();
    Line { name: name.to_owned(), colour: 0, dash, points, marks }
}

/// The same as a table to open.
pub(super) fn table(out: &mut String, loads: &[Load<'_>]) {
    let row = |(load, part): (&Load<'_>, Part)| {
        vec![
            load.name.clone(),
            format!("{:.2}", part.at_s),
            format!("{:.2}", part.length_s),
            rate(part.throughput_per_s),
            time(ns(part.p50_ns)),
            time(ns(part.p99_ns)),
        ]
    };
    let mut all: Vec<_> = loads
        .iter()
        .flat_map(|load| parts(load).into_iter().map(move |part| (load, part)))
        .collect();
    let more = all.len().saturating_sub(ROWS_MAX);
    all.truncate(ROWS_MAX);
    let caption = match more {
        0 => "Parts of the run in the order of time".to_owned(),
        more => format!(
            "Parts of the run in the order of time; {} more are in the data",
            count(more as u64)
        ),
    };
    out.push_str("<details><summary>The course of the run as a table</summary>");
    let head = ["load", "middle, s", "length, s", "calls/s", "p50", "p99"];
    out.push_str(&figures(&caption, &head, cells(all.into_iter().map(row).collect())));
    out.push_str("</details>");
}

/// The seconds but for a last one of less than half of their length: it was cut off by the end, and
/// holds what was still in flight then more than what was begun in it.
fn whole(seconds: &[Second]) -> &[Second] {
    match seconds.split_last() {
        Some((last, whole @ [first, ..])) if last.length_ns < first.length_ns / 2 => whole,
        _ => seconds,
    }
}

/// The parts of a load's runs, one run after the other, at most [`POINTS_MAX`].
#[allow(clippy::cast_precision_loss, reason = "nanoseconds of a run")]
fn parts(load: &Load<'_>) -> Vec<Part> {
    let (mut parts, mut before_s) = (Vec::new(), 0.0);
    let each = (POINTS_MAX / load.runs.len().max(1)).max(1);
    for run in load.runs.iter().take(POINTS_MAX) {
        let mut of = of_run(&run.results, each);
        of.iter_mut().for_each(|part| part.at_s += before_s);
        before_s += run.results.wall_ns as f64 / 1e9;
        parts.append(&mut of);
    }
    parts
}

fn of_run(results: &Results, parts_max: usize) -> Vec<Part> {
    let (seconds, slices) = (&results.seconds, &results.slices);
    if seconds.len() > slices.len() {
        let seconds = whole(seconds);
        seconds.chunks(seconds.len().div_ceil(parts_max).max(1)).map(of_seconds).collect()
    } else {
        let mut before_ns = 0;
        let chunks = slices.chunks(slices.len().div_ceil(parts_max).max(1));
        chunks.map(|slices| of_slices(slices, &mut before_ns)).collect()
    }
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds of a run")]
fn of_seconds(seconds: &[Second]) -> Part {
    let start = seconds.first().map_or(0, |first| first.start_ns);
    let length_s =
        seconds.iter().map(|second| second.length_ns).fold(0, u64::saturating_add) as f64 / 1e9;
    let calls = seconds.iter().map(|second| second.calls_ok).fold(0, u64::saturating_add);
    let (p50_ns, p99_ns) = match seconds {
        [one] => (one.p50_ns, one.p99_ns),
        many => {
            let mut all = Latencies::new();
            let decoded =
                many.iter().filter_map(|second| Latencies::decode(&second.latency_histogram));
            decoded.for_each(|latencies| all.merge(&latencies));
            (all.quantile_ns(0.5), all.quantile_ns(0.99))
        }
    };
    let throughput_per_s = if length_s > 0.0 { calls as f64 / length_s } else { 0.0 };
    Part { at_s: start as f64 / 1e9 + length_s / 2.0, length_s, throughput_per_s, p50_ns, p99_ns }
}

/// Slices have no histograms: of several the slowest speaks.
#[allow(clippy::cast_precision_loss, reason = "nanoseconds of a run")]
fn of_slices(slices: &[Slice], before_ns: &mut u64) -> Part {
    let wall_ns = slices.iter().map(|slice| slice.wall_ns).fold(0, u64::saturating_add);
    let calls = slices.iter().map(|slice| slice.calls_ok).fold(0, u64::saturating_add);
    let length_s = wall_ns as f64 / 1e9;
    let at_s = *before_ns as f64 / 1e9 + length_s / 2.0;
    *before_ns = before_ns.saturating_add(wall_ns);
    let throughput_per_s = match slices {
        [one] => one.throughput_per_s,
        _ if wall_ns > 0 => calls as f64 / length_s,
        _ => 0.0,
    };
    let slowest = |of: fn(&Slice) -> Option<u64>| slices.iter().filter_map(of).max();
    let (p50_ns, p99_ns) = (slowest(|slice| slice.p50_ns), slowest(|slice| slice.p99_ns));
    Part { at_s, length_s, throughput_per_s, p50_ns, p99_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Run;
    use crate::results::tests::sample;

    fn second(start_s: u64, us: std::ops::Range<u64>) -> Second {
        let mut latencies = Latencies::new();
        us.clone().for_each(|us| latencies.record(std::time::Duration::from_micros(us)));
        let summary = latencies.summary();
        let value = serde_json::json!({
            "start_ns": start_s * 1_000_000_000, "length_ns": 1_000_000_000, "calls_ok": us.end - us.start,
            "errors": crate::results::Errors::default(), "p50_ns": summary.p50_ns, "p99_ns": summary.p99_ns,
            "latency_histogram": latencies.encode(),
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn joined_seconds_are_one_histogram() {
        let mut run = sample(100, false);
        run.results.seconds =
            (0..120).map(|at| second(at, 1_000 * (at % 2)..1_000 * (at % 2) + 1_000)).collect();
        let load = Load { name: "one".to_owned(), runs: vec![&run] };
        let parts = parts(&load);
        assert_eq!(parts.len(), POINTS_MAX);
        let first = &parts[0];
        assert!((first.throughput_per_s - 1_000.0).abs() < 1e-9 && (first.at_s - 1.0).abs() < 1e-9);
        let p50 = first.p50_ns.unwrap();
        assert!(
            (990_000..=1_001_000).contains(&p50),
            "{p50}: between the two, not the mean of both"
        );
    }

    #[test]
    fn a_last_second_that_was_cut_off_is_not_drawn() {
        let mut run = sample(100, false);
        run.results.seconds = (0..4).map(|at| second(at, 1_000..1_189)).collect();
        let last = &mut run.results.seconds[3];
        (last.length_ns, last.calls_ok) = (17_463_101, 4);
        run.results.wall_ns = 3_017_463_101;
        let twice = |run: &Run| parts(&Load { name: "one".to_owned(), runs: vec![run, run] });
        let drawn = twice(&run);
        let rates: Vec<_> = drawn.iter().map(|part| part.throughput_per_s).collect();
        assert_eq!(rates, [189.0; 6]);
        assert!((drawn[3].at_s - 3.517).abs() < 1e-3, "the second begins where the first ended");
        run.results.seconds[3].length_ns = 500_000_000;
        assert_eq!(twice(&run).len(), 8, "a half says something");
    }

    #[test]
    fn without_seconds_the_slices_follow_each_other() {
        let (one, other) = (sample(100, false), sample(100, false));
        let parts = parts(&Load { name: "one".to_owned(), runs: vec![&one, &other] });
        let at: Vec<_> = parts.iter().map(|part| part.at_s).collect();
        assert_eq!(at, [0.25, 0.75, 1.25, 1.75]);
        assert!((parts[1].throughput_per_s - 6_000.0).abs() < 1e-9);
    }
}
