//! What to serve, and how: one file, `mcplane.toml`.
//!
//! # Layout, in reading order
//!
//! * `model` — the settings themselves, plain data; made of `units` (times, sizes, secrets),
//!   `address` (where to listen), `speaks` (revisions) and `servers` (a map that keeps its order).
//! * `load` — from text to settings that keep every rule, or to all the errors at once.
//! * `schema` — the JSON Schema for editors.

mod address;
mod load;
mod model;
mod schema;
mod servers;
mod speaks;
mod units;

pub use address::Listen;
pub use model::{Config, Gateway, KEYED_WORKERS_MAX, Mode, Names, Policy, Restart, Server, Tools};
pub use schema::schema;
pub use servers::Servers;
pub use speaks::Speaks;
pub use units::{Period, Secret, Size};

/// Most servers behind one gateway. Each has processes, queues and lists of its own; a search by
/// name goes through all of them.
pub const SERVERS_MAX: usize = 256;
