//! How messages are told apart in a stream.

pub mod lines;
pub mod sse;
