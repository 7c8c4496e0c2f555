//! Results for people and for other systems.
//!
//! * [`FORMS`]  — the forms that files are written in: each is a row here and a file beside (this file).
//! * `terminal` — the text for people.
//! * `lines`    — runs on one line each; `open` — what only open loops have.
//! * `rungs`    — the same of a ladder, of a search for a limit, of assertions.
//! * `found`    — what these come to in sentences and tables, for every form.
//! * `table`    — the same of several targets that were measured in turns.
//! * `document` — result files, read back, as they are shown; `words` — what they say in sentences.
//! * `html`, `svg`, `markup` — one page with charts.
//! * `schema`   — the JSON Schema of results.
//! * `csv`, `erlmcp`, `junit`, `markdown`, `prometheus` — records for others to read.

mod csv;
mod document;
mod erlmcp;
mod found;
mod html;
mod junit;
mod lines;
mod markdown;
mod markup;
mod open;
mod prometheus;
mod rungs;
mod schema;
mod svg;
mod table;
mod terminal;
mod words;

pub use crate::results::{Missing, Run};
pub use crate::text::{Style, figure};
pub use csv::{CMCP_COLUMNS, cmcp_row};
pub use document::{Document, FILES_MAX, ReadError};
pub use html::page;
pub use markup::{Escaped, e};
pub use schema::schema;
#[cfg(test)]
pub(crate) use schema::tests::assert_published;

use std::collections::BTreeMap;

use serde_json::Value;

/// A form that results are written in.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Form {
    /// Its name, which is that of its option and of its key in a scenario.
    pub name: &'static str,
    /// What its option does.
    pub about: &'static str,
    /// Who writes it.
    pub writer: Writer,
}

/// How a form is written.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_enums, reason = "whoever writes files has to know each")]
pub enum Writer {
    /// As one text.
    Text(fn(&Document) -> String),
    /// As files in a folder, each with its name; where there is no folder, as one text.
    Folder {
        /// The files.
        files: fn(&Document) -> BTreeMap<String, Value>,
        /// The text.
        text: fn(&Document) -> String,
    },
}

/// Every form, in the order of the help.
pub const FORMS: [Form; 6] = [
    Form {
        name: "html",
        about: "Write one page with charts that needs nothing else",
        writer: Writer::Text(Document::to_html),
    },
    Form {
        name: "csv",
        about: "Write CSV in cMCP's columns",
        writer: Writer::Text(Document::to_csv),
    },
    Form {
        name: "markdown",
        about: "Write the summary and the tables as Markdown",
        writer: Writer::Text(Document::to_markdown),
    },
    Form {
        name: "junit",
        about: "Write JUnit XML: each run is a test case",
        writer: Writer::Text(Document::to_junit),
    },
    Form {
        name: "prometheus",
        about: "Write Prometheus' text format",
        writer: Writer::Text(Document::to_prometheus),
    },
    Form {
        name: "erlmcp",
        about: "Write erlmcp's results and index into this folder; to stdout the results as one array",
        writer: Writer::Folder {
            files: Document::to_erlmcp_files,
            text: |document| format!("{:#}\n", Value::from(document.to_erlmcp())),
        },
    },
];

#[cfg(test)]
pub(crate) mod tests;
