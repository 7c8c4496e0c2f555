//! Nobody hears what is meant for somebody else.
//!
//! - `virtual_time`: thousands of random schedules: clients of both eras with the same ids and
//!   tokens, upstreams of both eras that are slow, that die, that answer twice, late or never
//! - `live`: 64 clients over real HTTP at the same time
//! - `pool`: which worker gets a call, one property at a time
//! - `outcomes`: how calls end, as it is counted and told
//! - `shares`: what one client can take from the others
//! - `states`: the states of modern servers
//! - `watch`: which worker hears what clients want to hear of
//! - `late`: whose it is what a server says after a call has ended
//!
//! - `plan`: what a call is to do, told to the upstream in the call's own arguments
//! - `world`: what upstreams saw, and what went wrong
//! - `upstream`: the servers; `client`: the clients. Both speak raw lines.
//!
//! Everything that is said carries the tag of its call, `client/connection/call`, so that whoever
//! hears it can tell whether it is for him.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod client;
mod late;
mod live;
mod outcomes;
mod plan;
mod pool;
mod shares;
mod states;
mod upstream;
mod virtual_time;
mod watch;
mod world;
