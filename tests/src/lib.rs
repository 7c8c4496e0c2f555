//! What the whole-process tests share; the tests are in `cli/`, `interop/` and `wire/`.
//!
//! - [`browser`]: a browser, where this machine has one
//! - [`child`]: one program run to its end within a time limit
//! - [`skip`]: what a machine lacks
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

pub mod browser;
pub mod child;
mod skip;

pub use skip::skip;
