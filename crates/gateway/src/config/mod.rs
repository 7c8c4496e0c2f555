//! What to serve, and how: one file, `mcplane.toml`.
//!
//! # Layout, in reading order
//!
//! * `model` — the settings themselves, plain data; made of `units` (times, sizes, secrets),
//!   `address` (where to listen), `speaks` (revisions) and `servers` (a map that keeps its order).
//! * `load` — from text to settings that keep every rule, or to all the errors at once: the `tree`
//!   of keys with their places, `expand` for references, the `rules`, and the `error` that shows it.
//! * `watch` — when to read the file again.
//! * `import` — from the JSON of desktop clients (`jsonc` makes it plain), for `write` to write.
//! * `schema` — the JSON Schema for editors.

mod address;
mod error;
mod expand;
mod import;
mod jsonc;
mod load;
mod model;
mod rules;
mod schema;
mod servers;
mod speaks;
#[cfg(test)]
mod tests;
mod tree;
mod units;
mod watch;
mod write;

pub use address::Listen;
pub use error::{ConfigError, Fault};
pub use import::{ImportError, Note, import};
pub use model::{
    Config, Gateway, KEYED_WORKERS_MAX, Mode, Names, Policy, Probe, Restart, Server, Tools,
};
pub(crate) use rules::OWN_NAME;
pub use schema::schema;
pub use servers::Servers;
pub use speaks::Speaks;
pub(crate) use tree::written as key_path;
pub use units::{Period, Secret, Size};
pub use watch::{Watch, watch};
pub use write::to_toml;

/// Most servers behind one gateway. Each has processes, queues and lists of its own; a search by
/// name goes through all of them.
pub const SERVERS_MAX: usize = 256;
