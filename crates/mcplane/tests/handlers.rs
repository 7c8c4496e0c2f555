//! What a handler is given and what becomes of what it returns, as a client sees it in both eras.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "handlers/elicitation.rs"]
mod elicitation;
#[path = "handlers/failures.rs"]
mod failures;
#[path = "handlers/results.rs"]
mod results;
#[path = "handlers/state.rs"]
mod state;

use mcplane::client::{ClientBuilder, EraChoice};
use mcplane::proto::version::Revision;
use mcplane::transport::memory;
use mcplane::{Client, Server};

/// The last revision of each era.
const ERAS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

/// A client of `server` that speaks `revision`.
async fn client(server: Server, revision: Revision) -> Client {
    connect(Client::builder("handlers", "1.0.0"), server, revision).await
}

async fn connect(client: ClientBuilder, server: Server, revision: Revision) -> Client {
    let (ours, theirs) = memory::pair();
    tokio::spawn(server.serve(theirs));
    client.revision(EraChoice::Only(revision)).connect(ours).await.unwrap()
}
