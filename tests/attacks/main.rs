//! Attacks, as `docs/gateway/threat-model.md` has them. Most of them go to the gateway, to a server
//! written with the library and to the fixture alike, over every listener that each has.
//!
//! - `messages`: what means one thing here and another elsewhere, or takes for ever
//! - `strangers`: what speaks something else at a line listener
//! - `frames`: what no WebSocket may say
//! - `heads`: what a browser sends for a page, and guesses
//! - `browser`: such a page, in a real browser
//! - `memory`: who makes the gateway remember more than it has
//! - `machine`: what a server gets of the gateway's
//! - `threat_model`: whether that document names tests that there are
//! - `target`, `door`, `tap`: what is attacked, the ways in, and who listens there
//!
//! What else the tests are made of is that of the target `gateway`.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
#![allow(unreachable_pub, reason = "a test has no outside")]

mod browser;
#[allow(dead_code, reason = "shared")]
#[path = "../gateway/client.rs"]
mod client;
mod door;
mod frames;
#[allow(dead_code, reason = "shared")]
#[path = "../gateway/gateway.rs"]
mod gateway;
mod heads;
mod machine;
#[cfg(target_os = "linux")]
mod memory;
mod messages;
#[path = "../gateway/neighbour.rs"]
#[cfg(target_os = "linux")]
mod neighbour;
mod strangers;
mod tap;
mod target;
mod threat_model;

use std::time::Duration;

/// Longest wait for anything here: several times what the longest one takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
