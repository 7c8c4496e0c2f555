//! Attacks on a whole `mcplane serve`, one file for each boundary. In each, clients that behave well run
//! beside the attack and must not notice.
//!
//! - `memory`: who makes the gateway remember more than it has
//!
//! What the tests are made of is that of the target `gateway`.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
#![allow(unreachable_pub, reason = "a test has no outside")]

#[allow(dead_code, reason = "shared")]
#[path = "../gateway/client.rs"]
mod client;
#[allow(dead_code, reason = "shared")]
#[path = "../gateway/gateway.rs"]
mod gateway;
#[cfg(target_os = "linux")]
mod memory;
#[path = "../gateway/neighbour.rs"]
#[cfg(target_os = "linux")]
mod neighbour;

use std::time::Duration;

/// Longest wait for anything here: several times what the longest one takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
