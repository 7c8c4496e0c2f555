//! Named rows with a bar, or a ratio and its interval.

use std::fmt::Write;

use super::{Anchor, Axis, COLOURS, WIDTH, label, open, rule, width};
use crate::report::markup::e;
use crate::text::short;

/// Height of a row, and of what is above and below the rows.
const ROW: f64 = 24.0;
const TOP: f64 = 10.0;
const FOOT: f64 = 44.0;

/// Where the plot begins and ends; names are left of it, figures right.
const LEFT: f64 = 206.0;
const RIGHT: f64 = 362.0;

/// Characters of a name.
const NAME: usize = 30;

/// A chart of rows.
#[derive(Clone, Debug)]
pub(in crate::report) struct Rows {
    pub(in crate::report) title: String,
    /// What is to be seen, for those who cannot.
    pub(in crate::report) text: String,
    pub(in crate::report) x: Axis,
    /// Between these nothing that matters is seen.
    pub(in crate::report) band: Option<(f64, f64)>,
    pub(in crate::report) rows: Vec<Row>,
}

/// One row.
#[derive(Clone, Debug)]
pub(in crate::report) struct Row {
    pub(in crate::report) name: String,
    pub(in crate::report) colour: usize,
    pub(in crate::report) value: f64,
    /// The interval of the value: a bar has none.
    pub(in crate::report) interval: Option<(f64, f64)>,
    /// Something to compare a bar with.
    pub(in crate::report) beside: Option<f64>,
    /// The figure at the end of the row.
    pub(in crate::report) figure: String,
}

impl Rows {
    /// The drawing; `id` is unique on the page.
    #[allow(clippy::cast_precision_loss, reason = "a few dozen rows")]
    pub(in crate::report) fn draw(&self, id: &str) -> String {
        let bottom = TOP + ROW * self.rows.len() as f64;
        let mut out =
            format!("<figure class=\"chart\"><figcaption>{}</figcaption>", e(&self.title));
        open(&mut out, bottom + FOOT, id, &self.title, &self.text);
        self.axis(&mut out, bottom);
        for (at, row) in self.rows.iter().enumerate() {
            self.row(&mut out, row, TOP + ROW * (at as f64 + 0.5));
        }
        out.push_str("</svg></figure>");
        out
    }

    fn axis(&self, out: &mut String, bottom: f64) {
        if let Some((from, to)) = self.band {
            let x = self.x(from).unwrap_or(LEFT);
            let width = self.x(to).unwrap_or(RIGHT) - x;
            let height = bottom - TOP;
            let _ = write!(
                out,
                "<rect class=\"band\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{height}\"/>",
                width.max(0.0)
            );
        }
        let mut taken = f64::NEG_INFINITY;
        for (value, text) in &self.x.ticks {
            let Some(x) = self.x(*value) else { continue };
            rule(out, "grid", (x, TOP), (x, bottom));
            let half = width(text) / 2.0;
            if x - half >= taken {
                label(out, (x, bottom + 16.0), Anchor::Middle, text);
                taken = x + half + 4.0;
            }
        }
        if let Some(x) = self.band.and_then(|_| self.x(1.0)) {
            rule(out, "one", (x, TOP), (x, bottom));
        }
        label(out, (f64::midpoint(LEFT, RIGHT), bottom + 36.0), Anchor::Middle, &self.x.label);
    }

    fn row(&self, out: &mut String, row: &Row, y: f64) {
        label(out, (4.0, y + 4.0), Anchor::Start, &short(&row.name, NAME));
        label(out, (WIDTH - 4.0, y + 4.0), Anchor::End, &row.figure);
        let colour = row.colour % COLOURS;
        let title = format!("<title>{}: {}</title>", e(&row.name), e(&row.figure));
        match row.interval {
            Some((low, high)) => {
                let ends = self.inside(low).zip(self.inside(high));
                if let Some((low, high)) = ends {
                    rule(out, &format!("whisker c{colour}"), (low, y), (high, y));
                }
                if let Some(x) = self.inside(row.value) {
                    let _ = write!(
                        out,
                        "<circle class=\"dot c{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\">{title}</circle>"
                    );
                }
            }
            None => {
                let width = (self.inside(row.value).unwrap_or(LEFT) - LEFT).max(0.0);
                let _ = write!(
                    out,
                    "<rect class=\"bar c{colour}\" x=\"{LEFT}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"14\">{title}</rect>",
                    y - 7.0
                );
            }
        }
        if let Some(x) = row.beside.and_then(|value| self.x(value)) {
            rule(out, "beside", (x, y - 10.0), (x, y + 10.0));
        }
    }

    fn x(&self, value: f64) -> Option<f64> {
        Some(LEFT + self.x.at(value)? * (RIGHT - LEFT))
    }

    /// Where a value is, at the edge if it is beyond.
    fn inside(&self, value: f64) -> Option<f64> {
        let first = self.x.ticks.first().map(|(at, _)| *at);
        let beyond = || first.map(|first| if value < first { LEFT } else { RIGHT });
        value.is_finite().then(|| self.x(value).or_else(beyond)).flatten()
    }
}
