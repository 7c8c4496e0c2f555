//! Which charts are drawn, of which runs.

use std::fmt::Write;

use super::{resources, section, time};
use crate::report::document::{Document, Group, Load};
use crate::report::markup::e;
use crate::report::svg::{Axis, COLOURS, Line, Lines, Mark, Row, Rows};
use crate::results::{Latencies, Run};
use crate::stats::knee;
use crate::text::time as shown_time;
use crate::text::{digits, ns, rate, short, short_time};

/// Most groups that have charts of their own; the tables have all of them.
const GROUPS_MAX: usize = 12;

/// Most rows of a chart of rows.
const ROWS_MAX: usize = 40;

/// Points of a percentile curve for each factor of ten.
const POINTS_PER_DECADE: f64 = 12.0;

/// The quantiles that have a dot and a label.
const NAMED: [(f64, &str); 7] = [
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
    (0.99999, "99.999 %"),
    (0.999_999, "99.9999 %"),
];

impl Document {
    /// The throughput of every run beside each other.
    pub(super) fn throughputs(&self) -> Option<String> {
        let row = |(name, _, run): (String, _, &Run)| Row {
            name,
            colour: 0,
            value: run.results.throughput_per_s,
            interval: None,
            beside: run.floor.as_ref().map(|floor| floor.throughput_per_s),
            figure: format!("{}/s", rate(run.results.throughput_per_s)),
        };
        let rows: Vec<_> = self.runs().take(ROWS_MAX).map(row).collect();
        let values = rows.iter().flat_map(|row| [Some(row.value), row.beside]).flatten();
        let x = Axis::linear("calls per second", values, short_count);
        let floor = rows.iter().any(|row| row.beside.is_some());
        let title = if floor { "Throughput; the upright line is the floor" } else { "Throughput" };
        let text = rows.iter().map(|row| format!("{}: {}", row.name, row.figure));
        let text = text.collect::<Vec<_>>().join("; ");
        let chart = Rows { title: title.to_owned(), text, x, band: None, rows };
        let is_plain = self.files.iter().all(|file| file.report.sides().is_empty());
        (is_plain && chart.rows.len() > 1).then(|| chart.draw("throughputs"))
    }

    /// The ratios of a comparison with their intervals.
    pub(super) fn forests(&self) -> String {
        let mut out = String::new();
        for (at, file) in self.files.iter().enumerate() {
            let effect = file.report.effect();
            let rows: Vec<_> = file
                .report
                .sides()
                .iter()
                .enumerate()
                .flat_map(|(colour, side)| {
                    side.comparisons.iter().map(move |comparison| {
                        let ratio = comparison.ratio;
                        let [value, low, high] = [ratio.value, ratio.low, ratio.high].map(digits);
                        Row {
                            name: format!(
                                "{} {}",
                                side.name,
                                comparison.metric.as_str().replace('_', " ")
                            ),
                            colour,
                            value: ratio.value,
                            interval: Some((ratio.low, ratio.high)),
                            beside: None,
                            figure: format!("{value} [{low}, {high}]"),
                        }
                    })
                })
                .take(ROWS_MAX)
                .collect();
            if rows.is_empty() {
                continue;
            }
            // One interval that says nothing must not press the others together.
            let values =
                || rows.iter().map(|row| row.value).filter(|value| *value > 0.0).chain([1.0]);
            let least = values().fold(f64::INFINITY, f64::min) / 2.0;
            let most = values().fold(0.0, f64::max) * 2.0;
            let ends =
                rows.iter().filter_map(|row| row.interval).flat_map(|(low, high)| [low, high]);
            let values = ends.map(|end| end.clamp(least, most)).chain([1.0]);
            let x = Axis::log("ratio to A, 95 % interval", values, short_count).sparse();
            let text = rows.iter().map(|row| format!("{}: {}", row.name, row.figure));
            let text = text.collect::<Vec<_>>().join("; ");
            let title = format!("Ratios; grey: less than {} % apart", 100.0 * effect);
            let band = Some((1.0 / (1.0 + effect), 1.0 + effect));
            out.push_str(&Rows { title, text, x, band, rows }.draw(&format!("forest{at}")));
        }
        out
    }

    /// A section for each group.
    pub(super) fn groups_drawn(&self, out: &mut String) {
        let groups = self.groups();
        for (at, group) in groups.iter().take(GROUPS_MAX).enumerate() {
            section(out, &format!("Latency and throughput: {}", short(&group.name, 120)), |out| {
                group.draw(out, at);
            });
        }
        if let Some(more) = groups.len().checked_sub(GROUPS_MAX).filter(|more| *more > 0) {
            let _ = write!(
                out,
                "<p class=\"note\">{more} more have no charts here; the tables have them.</p>"
            );
        }
    }
}

impl Group<'_> {
    fn draw(&self, out: &mut String, at: usize) {
        for line in &self.about {
            let _ = write!(out, "<p class=\"note\">{}</p>", e(line));
        }
        let drawn = self.drawn();
        if drawn.len() < self.loads.len() {
            let _ = write!(
                out,
                "<p class=\"note\">{} of {} loads are drawn as lines.</p>",
                drawn.len(),
                self.loads.len()
            );
        }
        out.push_str("<div class=\"charts\">");
        out.push_str(&percentiles(&drawn).draw(&format!("g{at}q")));
        let [throughput, latency] = time::charts(&drawn);
        out.push_str(&throughput.draw(&format!("g{at}t")));
        out.push_str(&latency.draw(&format!("g{at}l")));
        for (name, lines) in ["r", "c"].iter().zip(resources::charts(&drawn).into_iter().flatten())
        {
            out.push_str(&lines.draw(&format!("g{at}{name}")));
        }
        if self.is_ladder && self.loads.len() > 2 {
            let [throughput, latency] = self.ladder();
            out.push_str(&throughput.draw(&format!("g{at}k")));
            out.push_str(&latency.draw(&format!("g{at}m")));
        }
        out.push_str("</div>");
        time::table(out, &self.loads);
    }

    /// As many loads as there are colours, from the first to the last.
    fn drawn(&self) -> Vec<&Load<'_>> {
        let len = self.loads.len();
        if len <= COLOURS {
            return self.loads.iter().collect();
        }
        (0..COLOURS).filter_map(|at| self.loads.get(at * (len - 1) / (COLOURS - 1))).collect()
    }

    /// Throughput and latency by load.
    fn ladder(&self) -> [Lines; 2] {
        let mut runs: Vec<&Run> =
            self.loads.iter().flat_map(|load| load.runs.iter().copied()).collect();
        runs.sort_by(|a, b| a.load_size().total_cmp(&b.load_size()));
        let label = match runs.first().and_then(|run| run.plan.arrivals.as_ref()) {
            Some(_) => "calls due per second",
            None => "calls in flight",
        };
        let sizes: Vec<_> =
            runs.iter().map(|run| run.load_size()).filter(|size| *size > 0.0).collect();
        let ends = sizes.first().zip(sizes.last()).map_or((1.0, 10.0), |(a, b)| (a / 1.2, b * 1.2));
        let ticks = || sizes.iter().map(|size| (*size, short_count(*size)));
        let x = || Axis::named(label, ends, ticks());
        let line = |name: &str,
                    colour,
                    dash,
                    of: &dyn Fn(&Run) -> Option<f64>,
                    show: &dyn Fn(f64) -> String| {
            let points: Vec<_> =
                runs.iter().filter_map(|run| Some((run.load_size(), of(run)?))).collect();
            let says = |at: &(f64, f64)| format!("{name}: {} at {}", show(at.1), short_count(at.0));
            let marks = points.iter().map(|at| Mark { at: *at, says: says(at) }).collect();
            Line { name: name.to_owned(), colour, dash, points, marks }
        };
        let per_s = |value: f64| format!("{}/s", rate(value));
        let target = line("target", 0, "", &|run| Some(run.results.throughput_per_s), &per_s);
        let floor =
            line("floor", 1, "dash", &|run| Some(run.floor.as_ref()?.throughput_per_s), &per_s);
        let knee = knee(&target.points).map(|knee| knee.load);
        let shown = |ns: f64| shown_time(Some(ns));
        let p50 = line("p50", 0, "", &|run| ns(run.results.latency.p50_ns), &shown);
        let p99 = line("p99", 0, "dash", &|run| ns(run.results.latency.p99_ns), &shown);
        let text = match knee {
            Some(knee) => format!("{} loads; the knee is at {}.", runs.len(), short_count(knee)),
            None => format!("{} loads.", runs.len()),
        };
        let mark = knee.map(|knee| (knee, "knee".to_owned()));
        let mut throughput =
            chart("Throughput by load", &text, x(), "calls per second", vec![target, floor], false);
        throughput.mark = mark;
        [throughput, chart("Latency by load", &text, x(), "latency", vec![p50, p99], true)]
    }
}

/// Latency by percentile: corrected, as sent, and the floor's.
fn percentiles(loads: &[&Load<'_>]) -> Lines {
    let mut lines = Vec::new();
    for (colour, load) in loads.iter().enumerate() {
        let name = short(&load.name, 60);
        lines.push(curve(&name, colour, "", &load.latencies(false), true));
        if load.runs.iter().any(|run| run.results.open.is_some()) {
            let name = format!("{name}, from the actual start");
            lines.push(curve(&name, colour, "dots", &load.raw_latencies(), false));
        }
        if load.runs.iter().any(|run| run.floor.is_some()) {
            let name = format!("floor, {name}");
            lines.push(curve(&name, colour, "dash", &load.latencies(true), false));
        }
    }
    lines.retain(|line| !line.points.is_empty());
    let most = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(10.0, f64::max);
    let ticks = NAMED.map(|(quantile, label)| (1.0 / (1.0 - quantile), label.to_owned()));
    let x = Axis::named("percentile of calls", (1.0, most * 1.02), ticks);
    let text = lines.iter().filter_map(|line| {
        let says: Vec<_> = line.marks.iter().map(|mark| mark.says.as_str()).collect();
        (!says.is_empty()).then(|| says.join(", "))
    });
    let text = text.collect::<Vec<_>>().join("; ");
    chart("Latency by percentile", &text, x, "latency", lines, true)
}

/// The curve as far as the samples carry it.
fn curve(name: &str, colour: usize, dash: &'static str, of: &Latencies, dots: bool) -> Line {
    let at = |quantile: f64| {
        #[allow(clippy::cast_precision_loss, reason = "three digits are drawn")]
        of.quantile_ns(quantile).map(|ns| (1.0 / (1.0 - quantile), ns as f64))
    };
    let steps = std::iter::successors(Some(0.0_f64), |step| Some(step + 1.0));
    let quantile = |step: f64| 1.0 - 10_f64.powf(-step / POINTS_PER_DECADE);
    let all = steps.take(84).map(quantile);
    // The very first is the least value; quantile 0 has no sample minimum.
    let mut points: Vec<_> = all.skip(1).map_while(at).collect();
    let named =
        NAMED.iter().filter(|_| dots).filter_map(|(quantile, label)| Some((at(*quantile)?, label)));
    let marks: Vec<_> = named
        .map(|(at, label)| Mark {
            at,
            says: format!("{name}: {label} within {}", shown_time(Some(at.1))),
        })
        .collect();
    points.extend(
        marks.last().map(|mark| mark.at).filter(|last| points.last().is_some_and(|p| p.0 < last.0)),
    );
    Line { name: name.to_owned(), colour, dash, points, marks }
}

pub(super) fn chart(
    title: &str,
    text: &str,
    x: Axis,
    what: &str,
    mut lines: Vec<Line>,
    log: bool,
) -> Lines {
    lines.retain(|line| !line.points.is_empty());
    let values: Vec<_> = lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y).collect();
    let y = if log {
        Axis::log(what, values, short_time)
    } else {
        Axis::linear(what, values, short_count)
    };
    Lines { title: title.to_owned(), text: text.to_owned(), x, y, lines, mark: None }
}

/// `12k`, `1.5M`: a number that fits at a tick.
pub(super) fn short_count(value: f64) -> String {
    let (scale, unit) = match value {
        v if v >= 999_950.0 => (1e6, "M"),
        v if v >= 999.95 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let decimals = if value < 0.1 { 4 } else { 2 };
    let text = format!("{:.decimals$}", value / scale);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}
