//! WebSocket: one message per text frame, subprotocol `mcp`.
//!
//! MCP has no standard binding to WebSocket; this is what the first SDKs agreed on, written down:
//!
//! * *Establishing*: the handshake of RFC 6455 over HTTP/1.1. A client that offers subprotocols
//!   must offer [`mcp`](Protocol::Json) (or `mcp.msgpack`); one that offers none speaks `mcp`.
//! * *Framing*: each JSON-RPC message (or batch of 2025-03-26) is one text message, in as many
//!   fragments as its sender likes. With `mcp.msgpack` (feature `msgpack`) the same message, as
//!   MessagePack, is one binary message; maps have strings as keys and there are no `bin` and `ext`
//!   values.
//! * *Lifetime and cancellation*: as on stdio. The connection is the session of the legacy
//!   revisions; when it ends, everything in flight is cancelled.
//! * *Close codes*: 1000 and 1001 (a server that shuts down) are regular; 1002 is a violation of
//!   the protocol, 1003 the wrong kind of frame, 1007 invalid UTF-8 (or MessagePack), 1009 a
//!   message beyond [`Config::message_bytes_max`], 1011 our own failure, 1013 a message for which a
//!   server has no memory at the moment.
//!
//! [`server`] and [`connect`] are the two ends. A page of any origin may open a WebSocket: a server
//! must check `Origin` before it upgrades.

#[cfg(feature = "client")]
mod client;
mod frame;
mod handshake;
#[cfg(feature = "msgpack")]
mod msgpack;
#[cfg(feature = "server")]
pub mod server;
mod socket;

use std::time::Duration;

use mcplane_proto::limits::MESSAGE_BYTES_MAX;

use crate::budget::Budget;
#[cfg(all(feature = "client", feature = "tls"))]
use crate::transport::tls::ClientTls;
#[cfg(feature = "client")]
pub use client::{HANDSHAKE_TIMEOUT, connect, connect_with};
pub use handshake::Protocol;
pub use socket::WebSocket;

/// The bounds of a connection, and the subprotocols that a client offers.
#[derive(Clone, Debug)]
#[must_use]
pub struct Config {
    message_bytes_max: usize,
    keep_alive: Duration,
    protocols: Vec<Protocol>,
    #[cfg(all(feature = "client", feature = "tls"))]
    tls: Option<ClientTls>,
    budget: Option<Budget>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            message_bytes_max: MESSAGE_BYTES_MAX,
            keep_alive: Duration::from_secs(30),
            protocols: vec![Protocol::Json],
            #[cfg(all(feature = "client", feature = "tls"))]
            tls: None,
            budget: None,
        }
    }
}

impl Config {
    /// The longest message that is accepted, in bytes, over all its fragments;
    /// [`MESSAGE_BYTES_MAX`] unless set, and never more.
    pub fn message_bytes_max(mut self, bytes: usize) -> Self {
        self.message_bytes_max = bytes.min(MESSAGE_BYTES_MAX);
        self
    }

    /// What a message is charged to while it comes.
    pub(crate) fn charged_to(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// How long a peer may be silent before it is sent a ping; 30 s unless set. If it says nothing
    /// for as long again, the connection is given up.
    pub const fn keep_alive(mut self, every: Duration) -> Self {
        self.keep_alive = every;
        self
    }

    /// The authorities that a client of `wss` trusts; the system's unless set.
    #[cfg(all(feature = "client", feature = "tls"))]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The subprotocols that a client offers, the preferred one first; `mcp` unless set. A server
    /// takes the first one that it knows, whatever its own setting.
    pub fn protocols(mut self, protocols: impl IntoIterator<Item = Protocol>) -> Self {
        self.protocols = protocols.into_iter().collect();
        self
    }
}
