//! The official conformance suite, both of its lines, against mcplane in both roles.
//!
//! - `server`: the suite as a client of `mcplane fixture`, alone and behind `mcplane serve`
//! - `reference`: servers on the TypeScript and the Python SDK, alone and behind `mcplane serve`
//! - `client`: the suite as the server of `driver`, one scenario after the other
//! - `driver`: the client under test, on the library's client; the suite starts this program again
//! - `verdict`: what the suite's checks say
//! - `table`: what comes of the runs through the gateway, and of the same in its guide
//! - `suite`: where the suite is, what is in it, how it is run
//!
//! What a revision requires is the suite's own set where there is one (`--requirements`), and
//! everything that it has for a revision otherwise. Extensions are run and reported, not required.
//! Warnings count as failures. Nothing is expected to fail (`expected-failures-*.yml`) but what no
//! gateway can carry across the eras, and what a gateway that is told nothing does not reach yet
//! (`expected-failures-gateway-*.yml`).
//!
//! `cargo xtask conformance` installs the suite first. `MCPLANE_INTEROP=off` leaves all of this out,
//! and `MCPLANE_BIN` names another binary to test than the one that is built here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod client;
mod driver;
mod reference;
mod server;
mod suite;
mod table;
mod verdict;

use mcplane_tests::child;

use crate::{
    reference::{Kind, Sdk},
    server::Upstream,
    suite::{Line, Set},
};

/// The suite starts this program with the name of this test, the revision and its address.
/// Otherwise there is nobody to speak to.
#[test]
fn client_under_test() {
    match std::env::var("MCP_CONFORMANCE_SCENARIO") {
        Ok(scenario) => driver::main(&scenario),
        Err(_) => {
            let refused = driver::play("of no suite", "2025-11-25", "http://localhost:1");
            assert!(refused.unwrap_err().to_string().contains("not known here"));
        }
    }
}

macro_rules! conformance {
    ($($role:ident $name:ident: $line:ident $set:ident $revision:literal;)+) => {
        $(#[test]
        fn $name() {
            $role::conforms(stringify!($name), Line::$line, Set::$set($revision));
        })+
    };
}

conformance! {
    server server_0_1: V0_1 All "2025-11-25";
    server server_0_2_2025_03_26: V0_2 All "2025-03-26";
    server server_0_2_2025_06_18: V0_2 All "2025-06-18";
    server server_0_2_2025_11_25: V0_2 Required "2025-11-25";
    server server_0_2_2026_07_28: V0_2 Required "2026-07-28";
    client client_0_1_2025_03_26: V0_1 All "2025-03-26";
    client client_0_1_2025_06_18: V0_1 All "2025-06-18";
    client client_0_1_2025_11_25: V0_1 All "2025-11-25";
    client client_0_2_2025_03_26: V0_2 All "2025-03-26";
    client client_0_2_2025_06_18: V0_2 All "2025-06-18";
    client client_0_2_2025_11_25: V0_2 Required "2025-11-25";
    client client_0_2_2026_07_28: V0_2 Required "2026-07-28";
}

macro_rules! behind {
    ($($name:ident: $upstream:ident $line:ident $set:ident $revision:literal;)+) => {
        $(#[test]
        fn $name() {
            let (upstream, set) = (Upstream::$upstream, Set::$set($revision));
            server::conforms_behind(stringify!($name), upstream, Line::$line, set);
        })+
    };
}

// Every set that is run directly: about a minute for all three.
behind! {
    gateway_legacy_0_1: Legacy V0_1 All "2025-11-25";
    gateway_legacy_0_2_2025_03_26: Legacy V0_2 All "2025-03-26";
    gateway_legacy_0_2_2025_06_18: Legacy V0_2 All "2025-06-18";
    gateway_legacy_0_2_2025_11_25: Legacy V0_2 Required "2025-11-25";
    gateway_legacy_0_2_2026_07_28: Legacy V0_2 Required "2026-07-28";
    gateway_modern_0_1: Modern V0_1 All "2025-11-25";
    gateway_modern_0_2_2025_03_26: Modern V0_2 All "2025-03-26";
    gateway_modern_0_2_2025_06_18: Modern V0_2 All "2025-06-18";
    gateway_modern_0_2_2025_11_25: Modern V0_2 Required "2025-11-25";
    gateway_modern_0_2_2026_07_28: Modern V0_2 Required "2026-07-28";
    gateway_stdio_0_1: Stdio V0_1 All "2025-11-25";
    gateway_stdio_0_2_2025_03_26: Stdio V0_2 All "2025-03-26";
    gateway_stdio_0_2_2025_06_18: Stdio V0_2 All "2025-06-18";
    gateway_stdio_0_2_2025_11_25: Stdio V0_2 Required "2025-11-25";
    gateway_stdio_0_2_2026_07_28: Stdio V0_2 Required "2026-07-28";
    gateway_http_0_1: Http V0_1 All "2025-11-25";
    gateway_http_0_2_2025_03_26: Http V0_2 All "2025-03-26";
    gateway_http_0_2_2025_06_18: Http V0_2 All "2025-06-18";
    gateway_http_0_2_2025_11_25: Http V0_2 Required "2025-11-25";
    gateway_http_0_2_2026_07_28: Http V0_2 Required "2026-07-28";
}

macro_rules! references {
    ($($name:ident: $server:ident $kind:ident $revision:literal;)+) => {
        $(#[test]
        fn $name() {
            let server = (Sdk::$server, Kind::$kind);
            reference::conforms(stringify!($name), server, Set::Required($revision));
        })+
    };
}

// Alone, then behind a gateway that knows no more of it than its URL, or its command. Where clients of
// the newer era meet an older server, older ones come after them.
references! {
    gateway_ts1_2025_11_25: Ts1 Legacy "2025-11-25";
    gateway_ts1_2026_07_28: Ts1 Legacy "2026-07-28";
    gateway_ts2_legacy_2025_11_25: Ts2 Legacy "2025-11-25";
    gateway_ts2_legacy_2026_07_28: Ts2 Legacy "2026-07-28";
    gateway_ts2_2025_11_25: Ts2 Auto "2025-11-25";
    gateway_ts2_2026_07_28: Ts2 Auto "2026-07-28";
    gateway_ts2_modern_2025_11_25: Ts2 Modern "2025-11-25";
    gateway_ts2_modern_2026_07_28: Ts2 Modern "2026-07-28";
    gateway_python_legacy_2025_11_25: Python Legacy "2025-11-25";
    gateway_python_legacy_2026_07_28: Python Legacy "2026-07-28";
    gateway_python_2025_11_25: Python Auto "2025-11-25";
    gateway_python_2026_07_28: Python Auto "2026-07-28";
    gateway_python_modern_2025_11_25: Python Modern "2025-11-25";
    gateway_python_modern_2026_07_28: Python Modern "2026-07-28";
}
