//! One page that needs nothing else: no script, no network, every figure in a table beside its chart.
//!
//! * the page and its order — this file.
//! * `charts` — which charts are drawn, of which runs.
//! * `time`   — the course of a run, and `resources`: what it took.
//! * `tables` — the figures.
//! * `style.css` — light, dark and on paper.

mod charts;
mod resources;
mod tables;
mod time;

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::document::{Document, File};
use super::markup::e;
use super::words::Mood;
use crate::results::Environment;
use crate::text::short;

/// Most bytes of a page. A section that does not fit is left out and said to be.
const PAGE_MAX: usize = 395_000;

/// Bytes that are kept for what comes after the sections: the data or why it is not here.
const REST: usize = 20_000;

/// The end of every page.
const FOOT: &str = "</main>\n</body>\n</html>\n";

/// A page of its own that looks like those of results: a title, the machine below it, and a body of
/// markup.
#[must_use]
pub fn page(title: &str, environment: &Environment, body: &str) -> String {
    [&head(title, Some(environment)), body, FOOT].concat()
}

/// A page up to where its body begins.
fn head(title: &str, environment: Option<&Environment>) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<header><h1>{}</h1>",
        e(title),
        include_str!("style.css"),
        e(title)
    );
    if let Some(of) = environment {
        let cpu = of.cpu.as_deref().unwrap_or("CPU unknown");
        let line = format!("{} · mcplane {} · {cpu} · {} cores", of.time, of.mcplane, of.cores);
        let _ = write!(out, "<p>{}</p>", e(&short(&line, 200)));
    }
    out.push_str("</header>\n<main>\n");
    out
}

impl Document {
    /// The page: less than 400 KB, without scripts, to be opened from a file or a server.
    #[must_use]
    pub fn to_html(&self) -> String {
        let environment = self.files.first().map(|file| &file.report.environment);
        let mut out = head(&self.title(), environment);
        self.summary(&mut out);
        self.comparisons(&mut out);
        let has_runs = self.runs().next().is_some();
        if has_runs {
            self.at_a_glance(&mut out);
        }
        self.found(&mut out);
        if has_runs {
            self.groups_drawn(&mut out);
            self.evidence(&mut out);
            self.resources(&mut out);
            self.failures(&mut out);
        }
        self.environments(&mut out);
        self.data(&mut out);
        out.push_str(FOOT);
        out
    }

    /// What the document is about.
    pub(super) fn title(&self) -> String {
        let cold = self.files.iter().filter_map(|file| file.report.cold_start());
        let cold = cold.map(|cold| cold.target.as_str());
        let mut targets: Vec<_> =
            self.runs().map(|(_, _, run)| run.target.target.as_str()).chain(cold).collect();
        targets.dedup();
        let what = targets.first().map_or_else(|| "nothing".to_owned(), |name| short(name, 80));
        match targets.len() {
            0 | 1 => format!("{what}: measured by mcplane"),
            more => format!("{what} and {} more: measured by mcplane", more - 1),
        }
    }

    fn summary(&self, out: &mut String) {
        section(out, "Summary", |out| {
            out.push_str("<ul class=\"said\">");
            for said in self.words() {
                let (class, sign, name) = match said.mood {
                    Mood::Fact => ("fact", "·", "fact"),
                    Mood::Good => ("good", "✓", "good"),
                    Mood::Doubt => ("doubt", "!", "doubt"),
                    Mood::Bad => ("bad", "✗", "bad"),
                };
                let _ = write!(
                    out,
                    "<li class=\"{class}\"><span class=\"sign\" role=\"img\" aria-label=\"{name}\">{sign}</span>\
                     <span>{}</span></li>",
                    e(&said.text)
                );
            }
            out.push_str("</ul>");
        });
    }

    fn data(&self, out: &mut String) {
        if self.runs().next().is_some() {
            section(out, "Charts for Markdown", |out| {
                let _ = write!(
                    out,
                    "<details><summary>Mermaid, to paste</summary><pre tabindex=\"0\">{}</pre></details>",
                    e(&self.to_mermaid())
                );
            });
        }
        out.push_str("<section class=\"data\"><h2>Data</h2>\n<ul>");
        for file in &self.files {
            raw(out, file);
        }
        out.push_str("</ul></section>\n");
    }
}

/// A file to save, or why it is not here.
fn raw(out: &mut String, file: &File) {
    // Base64 takes four characters for three bytes.
    let bytes_max = PAGE_MAX.saturating_sub(out.len() + REST / 2) / 4 * 3;
    let name = file.name.rsplit(['/', '\\']).next().unwrap_or("result.json");
    let mut value = file.raw.clone();
    let mut text = value.to_string();
    let mut note = "";
    if text.len() > bytes_max {
        without_histograms(&mut value);
        text = value.to_string();
        note = " (without the histograms of single seconds: the page would be too large)";
    }
    let bytes = text.len();
    if bytes > bytes_max {
        let _ = write!(
            out,
            "<li>{}: {} KB, too large for this page; keep the file beside it</li>",
            e(&short(name, 80)),
            bytes / 1000
        );
        return;
    }
    let data = STANDARD.encode(text);
    let name = short(name, 80);
    let _ = write!(
        out,
        "<li><a download=\"{}\" href=\"data:application/json;base64,{data}\">{}</a>, {} KB{note}</li>",
        e(&name),
        e(&name),
        bytes.div_ceil(1000)
    );
}

/// Drops what is most of a long result.
fn without_histograms(value: &mut Value) {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(object) => {
                if let Some(Value::Array(seconds)) = object.get_mut("seconds") {
                    for second in seconds.iter_mut().filter_map(Value::as_object_mut) {
                        second.retain(|key, _| !key.contains("histogram"));
                    }
                }
                left.extend(object.values_mut());
            }
            Value::Array(array) => left.extend(array),
            _ => {}
        }
    }
}

fn section(out: &mut String, title: &str, fill: impl FnOnce(&mut String)) {
    let mut inner = String::new();
    fill(&mut inner);
    if out.len() + inner.len() > PAGE_MAX - REST {
        "<p class=\"note\">Too large for this page; the data has it.</p>".clone_into(&mut inner);
    }
    let _ = writeln!(out, "<section><h2>{}</h2>\n{inner}</section>", e(title));
}

#[cfg(test)]
mod tests;
