//! `mcplane serve` as a whole: its processes, its clients, and what happens to both when somebody
//! misbehaves. In each test of a misdeed, clients that behave well run beside it and must not notice.
//!
//! - `start`: ways to start it, and what cannot be started
//! - `listeners`: every kind of listener, and which clients it admits
//! - `upstreams`: servers that misbehave
//! - `clients`: clients that misbehave
//! - `commands`: commands that look for a gateway that runs
//! - `reload`: settings that change while it runs
//! - `processes`: how many there are, and how they end
//! - `transparency`: what the endpoint of one server changes
//! - `gateway`, `client`, `neighbour`: what the tests are made of; `bad_server` is a program

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
#![allow(unreachable_pub, reason = "a test has no outside")]

mod client;
mod clients;
mod commands;
mod gateway;
mod listeners;
mod neighbour;
mod processes;
mod questions;
mod reload;
mod start;
mod transparency;
mod upstreams;

use std::time::Duration;

/// Longest wait for anything here: several times what the longest one takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

/// Too much is waiting: to be tried later.
const OVERLOADED: i64 = -31999;

/// The server did not answer in time.
const TIMED_OUT: i64 = -31998;

/// The server is not there, or not any more.
const UNAVAILABLE: i64 = -31997;
