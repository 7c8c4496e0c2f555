//! mcplane against programs that nobody here wrote: servers of the official SDKs and registries,
//! inspected, called and measured; and the SDKs' clients, which drive `mcplane fixture`.
//!
//! - `servers`: mcplane as the client, one module for each server
//! - `drivers`: mcplane as the server, one test for each SDK, transport and era that it speaks
//! - `foreign`: servers whose parsers read keys that ours does not, behind `mcplane serve`
//! - `behind`: `mcplane serve` between the SDKs' clients and servers
//! - `site`: a server on the network, and a tap that hears what its clients say
//! - `web`: mcplane as the client over HTTP, one test for each server and era
//! - `inspector`: the MCP Inspector as the client
//! - `histogram`: what the lab records, read by another implementation of HdrHistogram
//! - `peers`: where the peers are installed, and what happens when one is missing
//!
//! A driver runs by hand as well, against any server:
//! `node tests/interop/ts2/drive.mjs --era modern --only echo,big -- target/debug/mcplane fixture`
//! or, on the network, with the URL that `mcplane fixture --transport http` prints after the `--`.
//!
//! `cargo xtask interop` installs the peers first. `MCPLANE_INTEROP=off` leaves all of this out, and
//! `MCPLANE_BIN` names another binary to test than the one that is built here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod behind;
mod drivers;
mod foreign;
mod histogram;
mod inspector;
mod peers;
mod servers;
mod site;
mod web;

use mcplane_tests::child;
