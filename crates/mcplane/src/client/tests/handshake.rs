//! Coming to terms with servers of both eras.

use std::time::Duration;

use mcplane_proto::limits::{PROBE_TIMEOUT, REQUEST_TIMEOUT};
use mcplane_proto::version::{Era, Revision};
use tokio::time::Instant;

use super::*;
use crate::client::EraChoice;

#[tokio::test]
async fn a_modern_server_is_known_by_its_discovery() {
    let (client, _fake) = modern(builder()).await;
    let peer = client.peer();
    assert_eq!((peer.name(), peer.version(), peer.title()), (Some("fake"), Some("1"), None));
    assert_eq!((peer.revision, peer.era()), (Revision::V2026_07_28, Era::Modern));
    assert_eq!(peer.instructions.as_deref(), Some("be kind"));
    assert!(peer.capabilities.as_ref().unwrap().resources_subscribe());
}

#[tokio::test]
async fn a_legacy_server_refuses_the_probe_and_is_initialized() {
    let (client, mut fake) = legacy(builder()).await;
    assert_eq!(client.peer().era(), Era::Legacy);
    assert_eq!((client.peer().name(), client.peer().title()), (Some("old"), Some("Old")));
    let (pong, _) = tokio::join!(client.ping(), fake.serve("ping", json!({})));
    pong.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_probe_falls_back_after_its_time() {
    let start = Instant::now();
    let (transport, mut fake) = Fake::pair();
    let serve = async {
        fake.expect("server/discover").await;
        let asked = fake.greet_legacy("2024-11-05").await;
        assert_eq!(start.elapsed().as_secs(), PROBE_TIMEOUT.as_secs());
        asked
    };
    let (client, asked) = tokio::join!(builder().connect(transport), serve);
    assert_eq!(client.unwrap().peer().revision, Revision::V2024_11_05);
    assert_eq!(asked["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(asked["params"]["clientInfo"], json!({"name": "test", "version": "0.1"}));
    assert!(asked["params"].get("_meta").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up() {
    let (transport, _fake) = Fake::pair();
    let start = Instant::now();
    let error = builder().connect(transport).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(start.elapsed().as_secs(), (PROBE_TIMEOUT + REQUEST_TIMEOUT).as_secs());

    let (transport, _fake) = Fake::pair();
    let start = Instant::now();
    let impatient = builder().timeout(Duration::from_secs(2)).connect(transport);
    assert!(impatient.await.unwrap_err().is_timeout());
    assert_eq!(start.elapsed().as_secs(), 4);
}

#[tokio::test]
async fn a_pinned_revision_is_the_only_one() {
    let (transport, mut fake) = Fake::pair();
    let pinned = builder().revision(EraChoice::Only(Revision::V2025_06_18));
    let (client, asked) = tokio::join!(pinned.connect(transport), fake.greet_legacy("2025-06-18"));
    assert_eq!(client.unwrap().peer().revision, Revision::V2025_06_18);
    assert_eq!(asked["params"]["protocolVersion"], "2025-06-18");

    let (transport, mut fake) = Fake::pair();
    let pinned = builder().revision(EraChoice::Only(Revision::V2025_06_18));
    let found = json!({"protocolVersion": "2024-11-05", "capabilities": {}});
    let (client, _) = tokio::join!(pinned.connect(transport), fake.serve("initialize", found));
    let error = client.unwrap_err();
    assert!(error.is_handshake() && error.to_string().contains("2024-11-05"), "{error}");
}

#[tokio::test]
async fn what_is_no_message_is_dropped_and_noted() {
    let (transport, mut fake) = Fake::pair();
    let serve = async {
        fake.raw("Welcome to the fake server v1!").await;
        fake.raw("{\"half\": ").await;
        fake.greet_modern().await;
        fake.raw("[]").await;
        let call = fake.expect("tools/call").await;
        fake.raw("debug: called").await;
        fake.reply(&call, text("ok")).await;
    };
    let talk = async {
        let client = builder().connect(transport).await.unwrap();
        (client.call_tool("x", &()).await.unwrap(), client)
    };
    let ((result, client), ()) = tokio::join!(talk, serve);
    assert_eq!(result.content[0].as_text(), Some("ok"));
    let strays = client.strays();
    assert_eq!(strays.count, 4);
    assert_eq!(strays.first.as_deref(), Some("Welcome to the fake server v1!"));
}

#[tokio::test]
async fn batches_of_2025_03_26_are_taken_apart() {
    let (transport, mut fake) = Fake::pair();
    let pinned = builder().revision(EraChoice::Only(Revision::V2025_03_26));
    let (client, _) = tokio::join!(pinned.connect(transport), fake.greet_legacy("2025-03-26"));
    let client = client.unwrap();
    let serve = async {
        let (a, b) = (fake.expect("tools/call").await, fake.expect("tools/call").await);
        fake.raw(
            &json!([{"jsonrpc": "2.0", "id": b["id"], "result": text("b")},
                {"jsonrpc": "2.0", "id": a["id"], "result": text("a")}])
            .to_string(),
        )
        .await;
    };
    let (a, b, ()) = tokio::join!(client.call_tool("a", &()), client.call_tool("b", &()), serve);
    assert_eq!(a.unwrap().content[0].as_text(), Some("a"));
    assert_eq!(b.unwrap().content[0].as_text(), Some("b"));
}

#[tokio::test]
async fn closing_ends_the_stream_and_everything_after_it() {
    let (client, mut fake) = modern(builder()).await;
    let other = client.clone();
    let waiting = tokio::spawn(async move { other.call_tool("slow", &()).await });
    fake.expect("tools/call").await;
    client.close().await;
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_closed() && error.to_string().contains("this side closed it"), "{error}");
    assert!(fake.next().await.is_none());
    assert!(client.ping().await.unwrap_err().is_closed());
    client.close().await;
}

#[tokio::test]
async fn the_last_handle_ends_the_connection() {
    let (client, mut fake) = modern(builder()).await;
    drop(client);
    assert!(fake.next().await.is_none());
}
