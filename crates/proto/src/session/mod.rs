//! The conversation, without I/O: messages in, messages and events out, `now` is an argument.
//!
//! * [`handshake`] — which era and revision the two sides speak, seen from the client.
//! * [`client`] — what a client remembers of its conversation.
//! * [`server`] — what a server remembers of its conversation.
//! * [`pending`] — requests that wait for an answer, and their deadlines.
//! * [`rounds`] — multi-round trips of 2026-07-28: the parameters of a retry.
//! * [`listen`] — what a `subscriptions/listen` asked for.
//!
//! What a session says goes into an [`Output`](crate::frame::Output), each message as one line.

pub mod client;
pub mod handshake;
pub mod listen;
pub mod pending;
pub mod rounds;
pub mod server;

pub use client::{ClientConfig, ClientEvent, ClientSession};
pub use handshake::{EraChoice, HandshakeError, Peer};
pub use listen::ListenFilter;
pub use pending::{Ids, Pending};
pub use server::{ServerConfig, ServerEvent, ServerSession};
