//! What each method's parameters and results say, in every revision and both directions.
//!
//! Owned views and builders. What passes through a program unread (arguments, schemas, structured
//! content, `_meta`, capabilities) stays JSON text, so that numbers and the order of keys survive;
//! unknown values of open sets are kept; unknown members of known objects are ignored here, since
//! whoever forwards a message forwards its bytes.
//!
//! # Layout, in reading order
//!
//! * [`wire`] — [`Wire`], [`Params`], [`Request`], [`WireResult`]: from value to text.
//! * [`lifecycle`], [`capabilities`] — `initialize`, `server/discover`, `ping`.
//! * [`content`] — content blocks, annotations, icons.
//! * [`tools`], [`resources`], [`prompts`], [`completion`], [`logging`] — what servers offer.
//! * [`elicitation`], [`sampling`], [`roots`] — what clients offer.
//! * [`input`], [`result`] — rounds of `input_required`, and telling results apart.
//! * [`subscriptions`], [`tasks`], [`progress`], [`list`] — around the calls.
#![allow(
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "plain data of published revisions, built with literals by the caller"
)]

pub mod capabilities;
pub mod completion;
pub mod content;
pub mod elicitation;
pub mod input;
pub mod json;
pub mod lifecycle;
pub mod list;
pub mod logging;
pub mod progress;
pub mod prompts;
pub mod resources;
pub mod result;
pub mod roots;
pub mod sampling;
mod schema;
pub mod subscriptions;
pub mod tasks;
#[cfg(test)]
mod tests;
pub mod tools;
pub mod wire;

pub use capabilities::*;
pub use completion::*;
pub use content::*;
pub use elicitation::*;
pub use input::*;
pub use json::Entries;
pub use lifecycle::*;
pub use list::*;
pub use logging::*;
pub use progress::*;
pub use prompts::*;
pub use resources::*;
pub use result::*;
pub use roots::*;
pub use sampling::*;
pub use subscriptions::*;
pub use tasks::*;
pub use tools::*;
pub use wire::*;
