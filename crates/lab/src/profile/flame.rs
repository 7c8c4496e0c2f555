//! A flame graph: one SVG that needs nothing else, each frame as wide as its share.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::stacks::Stacks;

const WIDTH: f64 = 1200.0;

/// Height of a frame.
const ROW: f64 = 17.0;

/// Above the frames: the title.
const HEAD: f64 = 34.0;

/// Narrower frames are not drawn.
const NARROW: f64 = 0.3;

/// Width of a character in the font of the frames.
const CHAR: f64 = 6.6;

/// A frame and those that it called.
#[derive(Default)]
struct Frame {
    cost: u64,
    callees: BTreeMap<String, Self>,
}

impl Frame {
    fn depth(&self, unit: f64) -> usize {
        let wide = self.callees.values().filter(|callee| callee.width(unit) >= NARROW);
        wide.map(|callee| 1 + callee.depth(unit)).max().unwrap_or(0)
    }

    #[allow(clippy::cast_precision_loss, reason = "a width in pixels")]
    fn width(&self, unit: f64) -> f64 {
        self.cost as f64 * unit
    }
}

/// The graph of these stacks; `unit` is what was counted.
#[allow(clippy::cast_precision_loss, reason = "a size in pixels")]
pub(super) fn svg(stacks: &Stacks, title: &str, counted: &str) -> String {
    let mut root = Frame { cost: stacks.total(), ..Frame::default() };
    for (stack, cost) in stacks.iter() {
        let mut at = &mut root;
        for name in stack {
            at = at.callees.entry(name.clone()).or_default();
            at.cost += cost;
        }
    }
    let unit = WIDTH / root.cost.max(1) as f64;
    let height = HEAD + ROW * root.depth(unit) as f64 + 10.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <style>rect{{stroke:#fff;stroke-width:.5}}g:hover rect{{stroke:#000;stroke-width:1.5}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fdfdfb\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"14\">{} ({} {counted}; hover for names)</text>\n",
        escape(title),
        root.cost
    );
    let page = Page { unit, counted, total: root.cost.max(1) };
    page.callees(&mut out, &root, 0.0, HEAD);
    out.push_str("</svg>\n");
    out
}

struct Page<'a> {
    unit: f64,
    counted: &'a str,
    total: u64,
}

impl Page<'_> {
    /// Below each frame what it called, as deep as [`super::stacks::DEPTH_MAX`].
    fn callees(&self, out: &mut String, frame: &Frame, mut x: f64, y: f64) {
        for (name, callee) in &frame.callees {
            let width = callee.width(self.unit);
            if width >= NARROW {
                self.draw(out, name, callee, [x, y, width]);
                self.callees(out, callee, x, y + ROW);
            }
            x += width;
        }
    }

    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share, and a number of characters"
    )]
    fn draw(&self, out: &mut String, name: &str, frame: &Frame, [x, y, width]: [f64; 3]) {
        let share = 100.0 * frame.cost as f64 / self.total as f64;
        let (title, cost, counted) = (escape(name), frame.cost, self.counted);
        let fits = ((width - 4.0).max(0.0) / CHAR) as usize;
        // Writing into a string does not fail.
        let _ = write!(
            out,
            "<g><title>{title}\n{cost} {counted}, {share:.2} %</title><rect x=\"{x:.1}\" y=\"{y:.1}\" \
             width=\"{width:.1}\" height=\"{ROW}\" fill=\"{}\"/>",
            colour(name)
        );
        if fits >= 3 {
            let short: String = match name.chars().count() > fits {
                true => name.chars().take(fits - 1).chain(['…']).collect(),
                false => name.to_owned(),
            };
            let (x, y) = (x + 2.0, y + 12.0);
            let _ = write!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(&short));
        }
        out.push_str("</g>\n");
    }
}

/// The same name has the same colour in every graph: from yellow to red.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(2_166_136_261_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(16_777_619) // FNV-1a
    });
    format!("hsl({},{}%,70%)", 8 + hash % 45, 65 + (hash >> 8) % 30)
}

fn escape(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_wide_as_their_share_and_lie_below_their_callers() {
        let stacks = Stacks::parse("main;parse<T> 30\nmain;write 10\nmain 60");
        let svg = svg(&stacks, "a & b", "samples");
        for part in [
            "a &amp; b (100 samples",
            "<title>main\n100 samples, 100.00 %</title><rect x=\"0.0\" y=\"34.0\" width=\"1200.0\"",
            "<title>parse&lt;T&gt;\n30 samples, 30.00 %</title><rect x=\"0.0\" y=\"51.0\" width=\"360.0\"",
            "<title>write\n10 samples, 10.00 %</title><rect x=\"360.0\" y=\"51.0\" width=\"120.0\"",
            ">parse&lt;T&gt;</text>",
        ] {
            assert!(svg.contains(part), "no {part:?} in {svg}");
        }
        assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
        assert_eq!(svg.matches("<g>").count(), 3);
    }

    #[test]
    fn what_cannot_be_seen_is_not_drawn() {
        let svg = svg(&Stacks::parse("main;big 1000000\nmain;small 1"), "t", "samples");
        assert!(svg.contains("big") && !svg.contains("small"));
    }
}
