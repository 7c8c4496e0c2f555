//! What the fuzz targets do: a function for each decoder, that takes any bytes and panics where they
//! lead to what must not be. `fuzz/` gives each of them to a fuzzer; `tests/seeds.rs` runs each over
//! the seeds that are kept there and over what is near them, on every toolchain.
//!
//! - `lines`, `sse`, `websocket`: frames
//! - `message`: the scan and the splice; `splice`: against parsers that are not ours
//! - `headers`: what mirrors a body
//! - `session`: both machines; `translate`: between the revisions
//! - `seal`: states that travel through clients
//! - `catalog`, `templates`: what servers offer; `store`: the same, kept on the disk
//! - `settings`: `mcplane.toml`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "to panic is to find something"
)]

pub mod catalog;
pub mod headers;
pub mod lines;
pub mod message;
pub mod seal;
pub mod session;
pub mod settings;
pub mod splice;
pub mod sse;
pub mod store;
pub mod templates;
pub mod translate;
pub mod websocket;

/// A name, and what is done with any bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 13] = [
    ("catalog", catalog::run),
    ("headers", headers::run),
    ("lines", lines::run),
    ("message", message::run),
    ("seal", seal::run),
    ("session", session::run),
    ("settings", settings::run),
    ("splice", splice::run),
    ("sse", sse::run),
    ("store", store::run),
    ("templates", templates::run),
    ("translate", translate::run),
    ("websocket", websocket::run),
];
