//! How messages are told apart in a stream, and what holds them on their way out.

pub mod lines;
pub mod output;
pub mod sse;

pub use output::Output;
