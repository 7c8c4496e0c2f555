//! mcplane against programs that nobody here wrote: servers of the official SDKs and registries,
//! inspected, called and measured; and the SDKs' clients, which drive `mcplane fixture`.
//!
//! - `servers`: mcplane as the client, one module for each server
//! - `drivers`: mcplane as the server, one test for each SDK and era that it speaks
//! - `peers`: where the peers are installed, and what happens when one is missing
//!
//! A driver runs by hand as well, against any server:
//! `node tests/interop/ts2/drive.mjs --era modern --only echo,big -- target/debug/mcplane fixture`
//!
//! `cargo xtask interop` installs the peers first. `MCPLANE_INTEROP=off` leaves all of this out, and
//! `MCPLANE_BIN` names another binary to test than the one that is built here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod drivers;
mod peers;
mod servers;

use mcplane_tests::child;
