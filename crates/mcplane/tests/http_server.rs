//! The contract of the HTTP endpoint, byte for byte: both eras, sessions, streams, refusals.
//!
//! * `crowd` — more connections than fit.
//! * `ladder` — which era a request is of, and the status of every refusal.
//! * `mirror` — the headers that repeat the body (2026-07-28).
//! * `modern` — requests of 2026-07-28: streams, cancellation, subscriptions.
//! * `relayed` — answers that somebody else wrote.
//! * `session` — sessions of 2025-03-26 … 2025-11-25, their streams and resumption.
//! * `legacy_sse` — HTTP+SSE of 2024-11-05.
//! * `memory` — what waits for clients that do not read, and for those that went away.
//! * `site` — names, pages, guests, mounting, HTTP/2, TLS, shutdown.
//! * `unread` — bodies that nobody wants.
//! * `wire`, `world` — HTTP by hand, and a server whose handlers do as they are told.

#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]
#![allow(clippy::indexing_slicing, reason = "a test may panic")]
#![allow(unreachable_pub, reason = "modules of one test")]

#[path = "http_server/crowd.rs"]
mod crowd;
#[path = "http_server/ladder.rs"]
mod ladder;
#[path = "http_server/legacy_sse.rs"]
mod legacy_sse;
#[path = "http_server/memory.rs"]
mod memory;
#[path = "http_server/mirror.rs"]
mod mirror;
#[path = "http_server/modern.rs"]
mod modern;
#[path = "http_server/relayed.rs"]
mod relayed;
#[path = "http_server/session.rs"]
mod session;
#[path = "http_server/site.rs"]
mod site;
#[path = "http_server/unread.rs"]
mod unread;
#[allow(dead_code, reason = "shared")]
#[path = "http_server/wire.rs"]
mod wire;
#[path = "http_server/world.rs"]
mod world;
