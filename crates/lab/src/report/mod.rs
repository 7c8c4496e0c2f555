//! Results for people and for other systems.
//!
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
pub use crate::text::Style;
pub use document::{Document, FILES_MAX, ReadError};
pub use schema::schema;
#[cfg(test)]
pub(crate) use schema::tests::assert_published;

#[cfg(test)]
pub(crate) mod tests;
