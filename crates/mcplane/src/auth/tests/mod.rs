//! The whole way, from a refusal to a token.

mod browser;
mod discovery;
mod refusals;
mod registration;
mod renewal;
mod world;
