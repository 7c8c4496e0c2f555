//! The Model Context Protocol and nothing else: bytes in, actions out, `now` is an argument.
//!
//! No sockets, no clock, no runtime. Everything that MCP says on the wire, in all five revisions
//! (2024-11-05 … 2026-07-28) and both eras, is here, so every rule has a test in virtual time.
//!
//! # Layout, in reading order
//!
//! * [`version`] — the five revisions and the two eras.
//! * [`id`], [`method`], [`error`] — the small words of the protocol.
//! * [`message`] — one message: its bytes, and where its parts are in them.
//! * [`frame`] — how messages are told apart in a stream: lines and server-sent events; the buffer
//!   that they leave from.
//! * [`meta`], [`headers`] — the per-request envelope of 2026-07-28 and its mirror in HTTP headers.
//! * [`types`] — what each method's parameters and results say.
//! * [`session`] — the conversation: handshakes, pending requests, cancellation, progress,
//!   multi-round trips, subscriptions, timeouts.
//! * [`translate`] — what one side said, as the other side's revision says it: the era bridge.
//! * [`uri_template`] — which template a resource's URI fits, and its variables.
//! * [`text`] — what peers say, for people: safe on a terminal and in a log.
//! * [`limits`] — every bound, with its unit and its reason.

pub mod error;
pub mod frame;
pub mod headers;
pub mod id;
pub mod limits;
pub mod message;
pub mod meta;
pub mod method;
pub mod session;
pub mod text;
pub mod translate;
pub mod types;
pub mod uri_template;
pub mod version;

pub use error::{Code, ErrorObject, Fault, Retry};
pub use id::Id;
pub use message::Message;
pub use method::Method;
pub use version::{Era, Revision};
