//! Charts as inline SVG: no script, colours from the page, every figure also in a table beside it.
//!
//! * `axis`  — scales, ticks and their labels.
//! * `lines` — one or several lines over an axis.
//! * `rows`  — named rows with a bar, or a ratio and its interval.

mod axis;
mod lines;
mod rows;

pub(super) use axis::Axis;
pub(super) use lines::{Line, Lines, Mark};
pub(super) use rows::{Row, Rows};

use std::fmt::Write;

use super::markup::e;

/// Width of every drawing in its own units, which are pixels where there is room.
const WIDTH: f64 = 480.0;

/// Width of a character of a label, in those units: an estimate on the large side.
const CHAR: f64 = 6.6;

/// Lines that have a colour of their own.
pub(super) const COLOURS: usize = 6;

/// The head of a drawing: what it is, for those who cannot see it.
fn open(out: &mut String, height: f64, id: &str, title: &str, text: &str) {
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
        e(title),
        e(text)
    );
}

/// Where a label is anchored.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

fn label(out: &mut String, (x, y): (f64, f64), anchor: Anchor, text: &str) {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    let _ =
        write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", e(text));
}

fn rule(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let ((x, y), (x2, y2)) = (from, to);
    let _ = write!(
        out,
        "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
}

/// The width that a label takes.
#[allow(clippy::cast_precision_loss, reason = "a label is short")]
fn width(text: &str) -> f64 {
    CHAR * text.chars().count() as f64
}

#[cfg(test)]
mod tests;
