//! What a handler is given and what becomes of what it returns, as a client sees it in both eras.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "handlers/failures.rs"]
mod failures;
#[path = "handlers/state.rs"]
mod state;

use mcplane::client::EraChoice;
use mcplane::proto::version::Revision;
use mcplane::transport::memory;
use mcplane::{Client, Server};

/// The last revision of each era.
const ERAS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

/// A client of `server` that speaks `revision`.
async fn client(server: Server, revision: Revision) -> Client {
    let (ours, theirs) = memory::pair();
    tokio::spawn(server.serve(theirs));
    Client::builder("handlers", "1.0.0")
        .revision(EraChoice::Only(revision))
        .connect(ours)
        .await
        .unwrap()
}
