//! What atomics decide: files of `mcplane` and `mcplane-gateway`, compiled here once more with atomics
//! and locks that go through the orders in which threads may run, and through what each may still
//! see of the others. A file that takes part imports them from its crate's `sync`.
//!
//! - `budget`: bytes that are taken, and large buffers between two uses
//! - `load`: handlers of a server
//! - `listen`: places of a listener
//! - `lane`: places at the workers of an upstream, and calls that wait for one

// The tests in those files are run in their own crates.
#![cfg(not(test))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "to panic is to find something"
)]
#![allow(unreachable_pub, reason = "files of libraries that are published")]

pub mod budget;
pub mod lane;
pub mod listen;
pub mod load;
mod sync;

/// How often a thread is stopped in the middle, at most: what goes wrong does so with a few.
const STOPS: usize = 3;

/// Does this in every order.
fn in_every_order(run: fn()) {
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(STOPS);
    orders.check(run);
}
