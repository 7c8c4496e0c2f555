//! Tables in Markdown, and Mermaid charts to paste into it.

use std::fmt::Write;

use super::document::Document;
use super::found::Cell;
use super::markup::is_unfit;
use super::open;
use super::words::Mood;
use crate::results::{Ratio, Run};
use crate::text::{bytes, count, digits, ns, rate, short, time};

/// Most runs of a chart.
const BARS_MAX: usize = 24;

impl Document {
    /// The summary and the tables, in GitHub's Markdown.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut out = format!("## {}\n\n", plain(&self.title()));
        for said in self.words() {
            let sign = match said.mood {
                Mood::Fact => "",
                Mood::Good => "✓ ",
                Mood::Doubt => "**!** ",
                Mood::Bad => "**✗** ",
            };
            let _ = writeln!(out, "- {sign}{}", plain(&said.text));
        }
        out.push('\n');
        let opened = self.open_titles();
        let ratio = |of: Option<Ratio>| of.map_or_else(String::new, |ratio| digits(ratio.value()));
        let row = |(name, _, run): (String, _, &Run)| {
            let (of, latency) = (&run.results, &run.results.latency);
            let throughput = run.ratios.and_then(|ratios| ratios.throughput);
            let mut row = vec![name, rate(of.throughput_per_s), ratio(throughput)];
            let times = [latency.p50_ns, latency.p95_ns, latency.p99_ns, latency.p99_9_ns];
            row.extend(times.map(|value| time(ns(value))));
            row.push(time(of.resources.cpu_ns_per_call));
            row.push(bytes(of.resources.rss_bytes_max));
            row.push(count(of.errors.total()));
            row.extend(open::cells(of).into_iter().map(|(text, _)| text).take(opened.len()));
            row
        };
        let mut head = vec![
            "run", "calls/s", "÷ floor", "p50", "p95", "p99", "p99.9", "CPU/call", "memory",
            "failed",
        ];
        head.extend(opened);
        if self.runs().next().is_some() {
            table(&mut out, &head, self.runs().map(row));
        }
        for of in self.tables() {
            let _ = writeln!(out, "### {}\n\n{}\n", plain(&of.title), of.caption);
            let texts = |row: Vec<Cell>| row.into_iter().map(|(text, _)| text).collect();
            table(&mut out, of.head, of.rows.into_iter().map(texts));
        }
        let compared = self.files.iter().flat_map(|file| file.report.sides()).flat_map(|side| {
            side.comparisons.iter().map(|comparison| {
                let ratio = comparison.ratio;
                let [value, low, high] = [ratio.value, ratio.low, ratio.high].map(digits);
                let said = comparison.verdict.to_string();
                vec![
                    side.name.clone(),
                    comparison.metric.to_string(),
                    value,
                    format!("{low} to {high}"),
                    said,
                ]
            })
        });
        let compared: Vec<_> = compared.collect();
        if !compared.is_empty() {
            table(
                &mut out,
                &["side", "figure", "÷ A", "95 % interval", "verdict"],
                compared.into_iter(),
            );
        }
        for file in &self.files {
            let of = &file.report.environment;
            let cpu = of.cpu.as_deref().unwrap_or("CPU unknown");
            let line = format!("{} · mcplane {} · {cpu} · {} cores", of.time, of.mcplane, of.cores);
            let _ = writeln!(out, "{}\n", plain(&line));
        }
        out
    }

    /// Throughput and median latency of the runs without errors, as Mermaid charts. Others have no
    /// bar: a server that refuses quickly is not fast.
    #[must_use]
    pub fn to_mermaid(&self) -> String {
        let clean = || self.runs().filter(|(_, _, run)| run.is_clean()).take(BARS_MAX);
        let names: Vec<_> = clean().map(|(name, ..)| quoted(&name)).collect();
        if names.is_empty() {
            return "%% no run went without errors\n".to_owned();
        }
        let throughput: Vec<_> = clean().map(|(.., run)| run.results.throughput_per_s).collect();
        let p50 = clean().map(|(.., run)| run.results.latency.p50_ns.unwrap_or(0));
        #[allow(clippy::cast_precision_loss, reason = "a picture")]
        let p50: Vec<_> = p50.map(|ns| ns as f64 / 1e3).collect();
        let mut out = String::new();
        for (title, unit, values) in [
            ("Throughput", "calls per second", throughput),
            ("Median latency", "microseconds", p50),
        ] {
            let most = values.iter().copied().filter(|v| v.is_finite()).fold(1.0, f64::max);
            let values: Vec<_> = values.iter().map(|value| format!("{value:.1}")).collect();
            let _ = write!(
                out,
                "```mermaid\n%%{{init: {{\"themeVariables\": {{\"xyChart\": {{\"plotColorPalette\": \
                 \"#0a62b5\"}}}}}}}}%%\nxychart-beta\n    title \"{title}\"\n    x-axis [{}]\n    y-axis \
                 \"{unit}\" 0 --> {:.1}\n    bar [{}]\n```\n\n",
                names.join(", "),
                1.1 * most,
                values.join(", ")
            );
        }
        out
    }
}

fn table(out: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let _ = writeln!(out, "| {} |", head.join(" | "));
    let _ = writeln!(out, "|---{}|", "|---:".repeat(head.len().saturating_sub(1)));
    for row in rows {
        let cells: Vec<_> = row.iter().map(|cell| plain(&short(cell, 160))).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
}

/// Text in which Markdown sees no markup.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars() {
        match char {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '!' | '~' | '@' => {
                out.extend(['\\', char])
            }
            char if char.is_whitespace() => out.push(' '),
            char if is_unfit(char) => out.push(char::REPLACEMENT_CHARACTER),
            char => out.push(char),
        }
    }
    out
}

/// A label in Mermaid, which knows no escapes.
fn quoted(text: &str) -> String {
    let fit = |c: char| if is_unfit(c) || "\"`;#<>&".contains(c) { '\'' } else { c };
    format!("\"{}\"", short(text, 40).chars().map(fit).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::hostile;

    #[test]
    fn every_row_has_the_cells_of_its_head() {
        let document = hostile();
        let text = document.to_markdown();
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        let mut rows = 0;
        for block in text.split("\n\n").filter(|block| block.starts_with('|')) {
            let lines: Vec<_> = block.lines().collect();
            assert!(lines.iter().all(|line| cells(line) == cells(lines[0])), "{block}");
            rows += lines.len() - 2;
        }
        assert_eq!(rows, document.runs().count());
        assert!(!text.contains("<script") && text.contains("&lt;script&gt;"), "{text}");
    }

    #[test]
    fn a_chart_has_a_bar_for_each_clean_run() {
        let document = hostile();
        let text = document.to_mermaid();
        let clean = document.runs().filter(|(.., run)| run.is_clean()).count();
        assert!(clean > 0 && clean < document.runs().count());
        assert_eq!(text.matches("```mermaid").count(), 2);
        for bars in text.lines().filter(|line| line.trim().starts_with("bar [")) {
            assert_eq!(bars.matches(',').count() + 1, clean, "{bars}");
        }
        assert_eq!(quoted("a\"b`<c"), "\"a'b''c\"");
    }
}
