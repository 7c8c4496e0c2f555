//! Scales, ticks and their labels.

/// Ticks that are aimed at.
const TICKS: f64 = 5.0;

/// One direction of a chart.
#[derive(Clone, Debug)]
pub(in crate::report) struct Axis {
    /// What it shows, with its unit where the ticks do not say it.
    pub(super) label: String,
    log: bool,
    low: f64,
    high: f64,
    /// Values and their labels.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// From zero to above the greatest of `values`.
    pub(in crate::report) fn linear(
        label: &str,
        values: impl IntoIterator<Item = f64>,
        show: impl Fn(f64) -> String,
    ) -> Self {
        let greatest = values.into_iter().filter(|v| v.is_finite()).fold(0.0, f64::max);
        let step = nice((if greatest > 0.0 { greatest } else { 1.0 }) / TICKS);
        let count = (greatest / step).ceil().clamp(1.0, 2.0 * TICKS);
        let mut ticks = Vec::new();
        let mut at = 0.0;
        while at <= count {
            ticks.push((at * step, show(at * step)));
            at += 1.0;
        }
        Self { label: label.to_owned(), log: false, low: 0.0, high: count * step, ticks }
    }

    /// From below the least to above the greatest of `values`, those above zero; equal ratios are
    /// equally long.
    pub(in crate::report) fn log(
        label: &str,
        values: impl IntoIterator<Item = f64>,
        show: impl Fn(f64) -> String,
    ) -> Self {
        let (low, high) = bounds(values);
        let decades = (high / low).log10();
        let steps: &[f64] = match decades {
            d if d < 1.6 => &[1.0, 2.0, 3.0, 5.0],
            d if d < 3.2 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let (first, last) = (low.log10().floor(), high.log10().ceil());
        let every = (decades / 8.0).ceil().max(1.0);
        let all: Vec<f64> = decade(first, last, every)
            .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powf(power)))
            .collect();
        // A little more than the data, up to the neighbouring tick.
        let slack = 1.0 + 1e-9;
        let low = all.iter().copied().rfind(|at| *at <= low * slack).unwrap_or(low);
        let high = all.iter().copied().find(|at| *at >= high / slack).unwrap_or(high);
        let is_inside = |at: &f64| *at >= low / slack && *at <= high * slack;
        let ticks = all.into_iter().filter(is_inside).map(|at| (at, show(at))).collect();
        Self { label: label.to_owned(), log: true, low, high, ticks }
    }

    /// These ticks on a logarithmic scale between two values.
    pub(in crate::report) fn named(
        label: &str,
        (low, high): (f64, f64),
        ticks: impl IntoIterator<Item = (f64, String)>,
    ) -> Self {
        let ticks = ticks.into_iter().filter(|(at, _)| *at >= low && *at <= high).collect();
        Self { label: label.to_owned(), log: true, low, high, ticks }
    }

    /// The same scale, cut off at a value.
    pub(in crate::report) fn ending(mut self, at: f64) -> Self {
        if at > self.low && at < self.high {
            self.high = at;
            self.ticks.retain(|(tick, _)| *tick <= at);
        }
        self
    }

    /// Where a value is, from 0 to 1; `None` outside or where it has no place on this scale.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        let part = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        (part.is_finite() && (-1e-6..=1.0 + 1e-6).contains(&part)).then(|| part.clamp(0.0, 1.0))
    }
}

/// The least and the greatest value above zero, with room between them.
fn bounds(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let fit = |value: &f64| value.is_finite() && *value > 1e-12 && *value < 1e18;
    let (low, high) = values
        .into_iter()
        .filter(fit)
        .fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)));
    match low.is_finite() {
        true if high < low * 1.5 => (low / 1.3, high * 1.3),
        true => (low, high),
        false => (1.0, 10.0),
    }
}

fn decade(first: f64, last: f64, every: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(first), move |power| Some(power + every))
        .take_while(move |power| *power <= last + every)
        .take(64)
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn nice(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}
