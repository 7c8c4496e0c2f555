//! Fast Model Context Protocol servers and clients, for every revision from 2024-11-05 to
//! 2026-07-28.
//!
//! A complete server:
//!
//! ```no_run
//! use mcplane::{Server, tool};
//!
//! /// Adds two numbers.
//! #[tool]
//! fn add(a: i64, b: i64) -> i64 {
//!     a + b
//! }
//!
//! # async fn run() -> mcplane::Result<()> {
//! Server::new("demo", "1.0.0").tool(add).serve(mcplane::stdio()).await
//! # }
//! ```
//!
//! # Layout, in reading order
//!
//! * `server` — tools, resources, prompts, and the loop that serves them (feature `server`).
//! * `client` — calls, answers, subscriptions (feature `client`).
//! * [`transport`] — memory, stdio, child processes, sockets, WebSocket, HTTP.
//! * `auth` — the client side of OAuth (feature `auth`).
//! * `budget` — how much memory messages may take.
//! * `schema` — JSON Schema validation on the hot path (feature `schema`).
//! * `stages` — how a server spends its time (feature `stages`).
//! * [`error`] — what went wrong, whose fault it is, whether to try again.
//!
//! The protocol itself, without I/O, is [`mcplane_proto`], re-exported as [`proto`].

#[cfg(feature = "auth")]
pub mod auth;
#[cfg(any(feature = "server", feature = "websocket"))]
#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "most of it is for servers"))]
pub mod budget;
#[cfg(feature = "client")]
pub mod client;
#[cfg(any(feature = "client", feature = "server"))]
mod clock;
#[cfg_attr(
    not(all(feature = "client", feature = "server", feature = "http")),
    allow(dead_code, reason = "some errors are of one side")
)]
pub mod error;
#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "clients draw few names"))]
mod random;
#[cfg(feature = "schema")]
pub mod schema;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "stages")]
pub mod stages;
#[cfg(not(feature = "stages"))]
mod stages;
#[cfg(any(feature = "server", feature = "websocket"))]
#[cfg_attr(not(feature = "server"), allow(unused_imports, reason = "most of it is for servers"))]
mod sync;
pub mod transport;

#[cfg(feature = "macros")]
pub use mcplane_macros::{prompt, resource, tool};
pub use mcplane_proto as proto;
pub use mcplane_proto::types;

#[cfg(feature = "client")]
pub use client::Client;
pub use error::{Error, Result};
#[cfg(feature = "server")]
pub use server::{
    Arguments, Context, Elicited, Failure, IntoPrompt, IntoResource, IntoResourceTemplate,
    IntoTool, Json, NoArguments, Prompt, PromptArguments, Resource, ResourceRequest,
    ResourceTemplate, Server, Service, State, Tool,
};
pub use transport::stdio::stdio;

/// What the expansions of the macros refer to. Not part of the API.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private {
    pub use crate::server::misfit::flattened;
    pub use crate::server::returned::{self, Returned};
    pub use {schemars, serde, serde_json};
}
