//! What goes over the wire, against what the specification says.
//!
//! - `transcript`: golden transcripts, `<revision>/<topic>.txt`, played against a server
//! - `server`: the server that they talk to
//! - `pair`: the two sessions of the protocol crate against each other in virtual time
//!
//! A transcript is lines of text. `> …` is sent as it stands; `>! …` is sent with its escapes
//! decoded, `\xNN` for a byte and `\{N:text}` for text N times over; `>` alone closes the client's
//! side. `< …` is the next line from the server: equal as JSON, the order of keys aside. In it
//! `"$any"` stands for any value and `"$capture:name"` for one that `"$echo:name"`, anywhere below,
//! stands for again. At its end the client's side is closed, and the server says nothing more.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod pair;
mod server;
mod transcript;

use mcplane::proto::Revision;

#[test]
fn of_2024_11_05() {
    transcript::play_all(Revision::V2024_11_05);
}

#[test]
fn of_2025_03_26() {
    transcript::play_all(Revision::V2025_03_26);
}

#[test]
fn of_2025_06_18() {
    transcript::play_all(Revision::V2025_06_18);
}

#[test]
fn of_2025_11_25() {
    transcript::play_all(Revision::V2025_11_25);
}

#[test]
fn of_2026_07_28() {
    transcript::play_all(Revision::V2026_07_28);
}
