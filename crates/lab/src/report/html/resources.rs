//! What the target's processes took, over time.

use super::charts::{chart, short_count};
use crate::report::document::Load;
use crate::report::svg::{Axis, Line, Lines};
use crate::results::ResourceSecond;
use crate::text::short;

/// Most points of a line; neighbours are joined where there are more.
const POINTS_MAX: usize = 120;

/// Memory and CPU over time; `None` where nobody looked, or only once.
pub(super) fn charts(loads: &[&Load<'_>]) -> Option<[Lines; 2]> {
    let (mut memory, mut cpu, mut end) = (Vec::new(), Vec::new(), 0.0_f64);
    for (colour, load) in loads.iter().enumerate() {
        let Some(run) = load.runs.first() else { continue };
        let seconds = &run.results.resources_seconds;
        if seconds.len() < 2 {
            continue;
        }
        let name = short(&load.name, 60);
        let line = |points: Vec<(f64, f64)>| Line {
            name: name.clone(),
            colour,
            dash: "",
            points,
            marks: Vec::new(),
        };
        let step = seconds.len().div_ceil(POINTS_MAX);
        let chunks: Vec<_> = seconds.chunks(step).filter_map(joined).collect();
        end = chunks.last().map_or(end, |(at, ..)| end.max(*at));
        memory.push(line(chunks.iter().map(|(at, rss, _)| (*at, *rss)).collect()));
        cpu.push(line(chunks.iter().map(|(at, _, cores)| (*at, *cores)).collect()));
    }
    let x = || Axis::linear("measured time, seconds", [end], short_count).ending(end);
    let text = |of: &str| format!("{of} of the target's whole process tree.");
    let memory_text = text("Resident memory");
    let cpu_text = text("CPU time by time");
    (!memory.is_empty()).then(|| {
        [
            chart("Memory over time", &memory_text, x(), "resident MiB", memory, false),
            chart("CPU over time", &cpu_text, x(), "cores at work", cpu, false),
        ]
    })
}

/// The middle in seconds, the most memory in MiB, the cores at work.
#[allow(clippy::cast_precision_loss, reason = "a chart needs three digits")]
fn joined(rows: &[ResourceSecond]) -> Option<(f64, f64, f64)> {
    let start_ns = rows.first()?.start_ns;
    let length_ns: u64 = rows.iter().map(|row| row.length_ns).fold(0, u64::saturating_add);
    let rss = rows.iter().map(|row| row.rss_bytes).max()? as f64 / f64::from(1 << 20);
    let busy: f64 = rows.iter().map(|row| row.cores() * row.length_ns as f64).sum();
    Some(((start_ns as f64 + length_ns as f64 / 2.0) / 1e9, rss, busy / length_ns.max(1) as f64))
}
