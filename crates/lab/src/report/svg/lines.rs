//! One or several lines over an axis.

use std::fmt::Write;

use super::{Anchor, Axis, COLOURS, WIDTH, label, open, rule, width};
use crate::report::markup::e;

const HEIGHT: f64 = 300.0;
/// The plot inside the drawing: left, top, right, bottom.
const PLOT: (f64, f64, f64, f64) = (62.0, 30.0, 466.0, 252.0);

/// A chart of lines.
#[derive(Clone, Debug)]
pub(in crate::report) struct Lines {
    pub(in crate::report) title: String,
    /// What is to be seen, for those who cannot.
    pub(in crate::report) text: String,
    pub(in crate::report) x: Axis,
    pub(in crate::report) y: Axis,
    pub(in crate::report) lines: Vec<Line>,
    /// A vertical rule with its label.
    pub(in crate::report) mark: Option<(f64, String)>,
}

/// One line.
#[derive(Clone, Debug)]
pub(in crate::report) struct Line {
    pub(in crate::report) name: String,
    /// Which of the page's colours; lines that belong together share one.
    pub(in crate::report) colour: usize,
    /// How it is drawn.
    pub(in crate::report) dash: &'static str,
    pub(in crate::report) points: Vec<(f64, f64)>,
    /// Points with a dot, and what they say when the pointer rests on them.
    pub(in crate::report) marks: Vec<Mark>,
}

/// A dot.
#[derive(Clone, Debug)]
pub(in crate::report) struct Mark {
    pub(in crate::report) at: (f64, f64),
    pub(in crate::report) says: String,
}

impl Lines {
    /// The drawing and its legend; `id` is unique on the page.
    pub(in crate::report) fn draw(&self, id: &str) -> String {
        let mut out = String::from("<figure class=\"chart\">");
        let _ = write!(out, "<figcaption>{}</figcaption>", e(&self.title));
        open(&mut out, HEIGHT, id, &self.title, &self.text);
        self.axes(&mut out);
        self.marked(&mut out);
        for line in &self.lines {
            self.line(&mut out, line);
        }
        out.push_str("</svg><ul class=\"legend\">");
        for line in &self.lines {
            let (colour, dash) = (line.colour % COLOURS, line.dash);
            let _ = write!(out, "<li><i class=\"k c{colour} {dash}\"></i>{}</li>", e(&line.name));
        }
        out.push_str("</ul></figure>");
        out
    }

    fn axes(&self, out: &mut String) {
        let (left, top, right, bottom) = PLOT;
        label(out, (4.0, 16.0), Anchor::Start, &self.y.label);
        label(out, (f64::midpoint(left, right), 292.0), Anchor::Middle, &self.x.label);
        let mut lowest = f64::INFINITY;
        for (value, text) in &self.y.ticks {
            let Some(part) = self.y.at(*value) else { continue };
            let y = bottom - part * (bottom - top);
            rule(out, "grid", (left, y), (right, y));
            // Ticks may be closer than lines of text.
            if lowest - y >= 14.0 {
                label(out, (left - 6.0, y + 4.0), Anchor::End, text);
                lowest = y;
            }
        }
        let mut taken = f64::NEG_INFINITY;
        for (value, text) in &self.x.ticks {
            let Some(part) = self.x.at(*value) else { continue };
            let x = left + part * (right - left);
            rule(out, "grid", (x, top), (x, bottom));
            let half = width(text) / 2.0;
            let middle = x.min(WIDTH - half);
            if middle - half >= taken {
                label(out, (middle, bottom + 18.0), Anchor::Middle, text);
                taken = middle + half + 4.0;
            }
        }
        rule(out, "axis", (left, bottom), (right, bottom));
    }

    fn marked(&self, out: &mut String) {
        let (left, top, right, bottom) = PLOT;
        let Some((value, text)) = &self.mark else { return };
        let Some(part) = self.x.at(*value) else { return };
        let x = left + part * (right - left);
        rule(out, "mark", (x, top - 10.0), (x, bottom));
        let anchor = if part > 0.5 { Anchor::End } else { Anchor::Start };
        let beside = if part > 0.5 { -5.0 } else { 5.0 };
        label(out, (x + beside, top - 3.0), anchor, text);
    }

    fn line(&self, out: &mut String, line: &Line) {
        let (colour, dash) = (line.colour % COLOURS, line.dash);
        let places: Vec<_> = line.points.iter().filter_map(|at| self.place(*at)).collect();
        if places.len() > 1 {
            let _ = write!(out, "<polyline class=\"line c{colour} {dash}\" points=\"");
            for (x, y) in places {
                let _ = write!(out, "{x:.1},{y:.1} ");
            }
            out.push_str("\"/>");
        }
        for mark in &line.marks {
            let Some((x, y)) = self.place(mark.at) else { continue };
            let _ = write!(
                out,
                "<circle class=\"dot c{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"><title>{}</title></circle>",
                e(&mark.says)
            );
        }
    }

    fn place(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let (left, top, right, bottom) = PLOT;
        let (x, y) = (self.x.at(x)?, self.y.at(y)?);
        Some((left + x * (right - left), bottom - y * (bottom - top)))
    }
}
