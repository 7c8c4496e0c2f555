//! The gateway: many MCP clients, any revision, over a warm pool of any MCP servers.
//!
//! # Layout, in reading order
//!
//! * `pipeline` — the path of a request, from top to bottom; `settle` — the way back.
//! * `outcome` — how a request ended; `failure` — why without a result.
//! * [`config`] — what to serve: the model, reading it, importing it, watching it.
//! * `gateway` — the whole: starting, changing while it runs, ending.
//! * [`listen`] — where clients come in, and how they find the way.
//! * `frontend` — what clients see of one server, or of all of them.
//! * `desired` — what clients want to hear of.
//! * `catalog` — what the upstreams offer, merged; which server answers to which name.
//! * `upstream` — one server: its workers, which of them gets a call, what keeps them alive.
//! * `era` — between clients and servers of different eras.
//! * [`admin`] — questions of administrators.

pub mod admin;
/// Not part of the API: for fuzzing.
#[doc(hidden)]
pub mod catalog;
mod clock;
pub mod config;
mod desired;
mod era;
mod failure;
mod frontend;
mod gateway;
pub mod listen;
mod outcome;
mod pipeline;
mod private;
mod settle;
mod sync;
mod upstream;

/// Not part of the API: what the suite drives by itself.
#[doc(hidden)]
pub use upstream::seams;

pub use catalog::Need;
pub use catalog::names::SEPARATOR;
pub use gateway::{Gateway, Troubles};
pub use upstream::start::{Connect, Connected, Connecting, Programs};
