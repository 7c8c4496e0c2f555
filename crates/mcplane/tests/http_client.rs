//! The HTTP client against a server that is scripted request by request.

#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "http_client/server.rs"]
mod server;

#[path = "http_client/eras.rs"]
mod eras;
#[path = "http_client/faults.rs"]
mod faults;
#[path = "http_client/legacy.rs"]
mod legacy;
#[path = "http_client/modern.rs"]
mod modern;
#[path = "http_client/own.rs"]
mod own;
#[path = "http_client/pool.rs"]
mod pool;
