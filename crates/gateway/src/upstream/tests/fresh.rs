//! How what clients see follows what servers have.

use std::sync::Arc;

use mcplane::proto::version::Revision;
use serde_json::json;

use super::fake::Fake;
use super::{client, one, with};
use crate::config::{Server, Speaks};
use crate::gateway::Gateway;

/// A gateway with the server `one`, which is this.
async fn gateway(fake: &Fake, revision: Revision) -> Gateway {
    let revision = Speaks::Revision(revision);
    let server = Server { command: Some("none".into()), revision, ..Server::default() };
    let gateway = Gateway::start_with(with(server), Arc::new(fake.clone())).unwrap();
    gateway.ready().await;
    gateway
}

#[tokio::test]
async fn a_stream_of_changes_that_ends_is_opened_again_and_the_lists_are_read() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, Revision::LATEST).await;
    one(&gateway, |status| status.workers[0].listening == Some(true)).await;
    for round in 0..3 {
        let listen = fake.sent("subscriptions/listen", round).await;
        // It has changed while nobody listened.
        let names: Vec<String> = (0..round + 2).map(|n| format!("tool{n}")).collect();
        fake.offer(&names.iter().map(String::as_str).collect::<Vec<_>>());
        fake.state().acknowledges = false;
        let error = json!({"code": -32603, "message": "the stream ended"});
        fake.say(json!({"jsonrpc": "2.0", "id": listen["id"], "error": error}));
        one(&gateway, |status| status.workers[0].listening == Some(false)).await;
        let again = fake.sent("subscriptions/listen", round + 1).await;
        fake.acknowledge(&again);
        let status = one(&gateway, |status| status.offers.unwrap().tools == round + 2).await;
        assert_eq!(status.workers[0].listening, Some(true));
    }
    gateway.close().await;
}

#[tokio::test]
async fn the_old_stream_goes_on_until_the_new_one_is_acknowledged() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, Revision::LATEST).await;
    let first = fake.sent("subscriptions/listen", 0).await;
    one(&gateway, |status| status.workers[0].listening == Some(true)).await;
    fake.state().acknowledges = false;
    let client = client(&gateway).await;
    client.subscribe("x:1").await.unwrap();
    let second = fake.sent("subscriptions/listen", 1).await;
    assert_eq!(second["params"]["notifications"]["resourceSubscriptions"], json!(["x:1"]));
    // More is wanted before that is open: it comes after it, and nothing is given up.
    client.subscribe("x:2").await.unwrap();
    fake.offer(&["echo", "more"]);
    let meta = json!({"io.modelcontextprotocol/subscriptionId": first["id"]});
    fake.notify("notifications/tools/list_changed", json!({"_meta": meta}));
    one(&gateway, |status| status.offers.unwrap().tools == 2).await;
    assert_eq!((fake.count("notifications/cancelled"), fake.count("subscriptions/listen")), (0, 2));
    fake.acknowledge(&second);
    let cancelled = fake.sent("notifications/cancelled", 0).await;
    assert_eq!(cancelled["params"]["requestId"], first["id"]);
    let third = fake.sent("subscriptions/listen", 2).await;
    let wanted = &third["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*wanted, json!(["x:1", "x:2"]));
    gateway.close().await;
}
