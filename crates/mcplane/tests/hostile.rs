//! Peers that break rules, stall, vanish or flood: each gets the right status or a closed
//! connection, nothing of it is left behind, and a well-behaved client beside it sees no error.
//!
//! * `siege` — one attack at a time, what it costs, and the well-behaved client.
//! * `bytes` — requests that are no requests: smuggling, bombs, oversize.
//! * `time` — peers that are slow, silent or gone.
//! * `load` — more of everything than fits.

#![cfg(all(feature = "http", target_os = "linux"))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]
#![allow(clippy::indexing_slicing, reason = "a test may panic")]
#![allow(unreachable_pub, reason = "modules of one test")]

#[path = "hostile/bytes.rs"]
mod bytes;
#[path = "hostile/load.rs"]
mod load;
#[path = "hostile/siege.rs"]
mod siege;
#[path = "hostile/time.rs"]
mod time;
#[allow(dead_code, reason = "shared")]
#[path = "http_server/wire.rs"]
mod wire;
#[allow(dead_code, reason = "shared")]
#[path = "http_server/world.rs"]
mod world;
