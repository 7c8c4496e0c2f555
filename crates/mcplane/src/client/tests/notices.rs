//! Notifications and subscriptions.

use std::collections::BTreeSet;

use mcplane_proto::types::ProgressParams;
use tokio::sync::mpsc;

use super::*;
use crate::client::{CHANGES_MAX, Change, ListenFilter};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

fn tools_and(uris: &[&str]) -> ListenFilter {
    ListenFilter {
        tools_list_changed: true,
        resource_subscriptions: uris.iter().map(|uri| (*uri).to_owned()).collect(),
        ..ListenFilter::default()
    }
}

async fn acknowledge(fake: &mut Fake) -> Value {
    let listen = fake.expect("subscriptions/listen").await;
    let params = json!({"notifications": listen["params"]["notifications"],
        "_meta": {ID: listen["id"]}});
    fake.notify("notifications/subscriptions/acknowledged", params).await;
    listen["id"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_subscription_tells_its_own_changes_and_outlives_timeouts() {
    let (client, mut fake) = modern(builder()).await;
    let (listen, id) = tokio::join!(client.listen(tools_and(&["a:b"])), acknowledge(&mut fake));
    let mut listen = listen.unwrap();
    assert_eq!(listen.filter(), &tools_and(&["a:b"]));
    tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
    let tagged = |uri: &str| json!({"uri": uri, "_meta": {ID: id}});
    fake.notify("notifications/tools/list_changed", json!({"_meta": {ID: id}})).await;
    fake.notify("notifications/tools/list_changed", json!({"_meta": {ID: "other"}})).await;
    fake.notify("notifications/resources/updated", tagged("a:b/part")).await;
    assert_eq!(listen.next().await.unwrap(), Some(Change::Tools));
    assert_eq!(listen.next().await.unwrap(), Some(Change::Resource("a:b/part".into())));
    // The server ends it in good order.
    fake.send(json!({"id": id, "result": {"resultType": "complete"}})).await;
    assert_eq!(listen.next().await.unwrap(), None);
    drop(listen);
    let (pong, _) = tokio::join!(client.ping(), fake.serve("server/discover", json!({})));
    pong.unwrap();
}

#[tokio::test]
async fn dropping_a_subscription_cancels_it() {
    let (client, mut fake) = modern(builder()).await;
    let (listen, id) = tokio::join!(client.listen(tools_and(&[])), acknowledge(&mut fake));
    drop(listen.unwrap());
    let gone = fake.expect("notifications/cancelled").await;
    assert_eq!(gone["params"]["requestId"], id);
}

#[tokio::test]
async fn lost_and_refused_subscriptions_say_so() {
    let (client, mut fake) = modern(builder()).await;
    let (listen, id) = tokio::join!(client.listen(tools_and(&[])), acknowledge(&mut fake));
    let mut listen = listen.unwrap();
    fake.notify("notifications/cancelled", json!({"requestId": id})).await;
    assert!(listen.next().await.unwrap_err().to_string().contains("took back"));
    assert_eq!(listen.next().await.unwrap(), None);

    let refuse = async {
        let asked = fake.expect("subscriptions/listen").await;
        fake.refuse(&asked, -32601).await;
    };
    let (refused, ()) = tokio::join!(client.listen(tools_and(&[])), refuse);
    assert!(refused.unwrap_err().is_rpc());

    let (listen, _) = tokio::join!(client.listen(tools_and(&[])), acknowledge(&mut fake));
    let mut listen = listen.unwrap();
    drop(fake);
    assert!(listen.next().await.unwrap_err().is_closed());
}

#[tokio::test]
async fn what_is_not_taken_in_is_merged() {
    let (client, mut fake) = modern(builder()).await;
    let (listen, id) = tokio::join!(client.listen(tools_and(&[])), acknowledge(&mut fake));
    let mut listen = listen.unwrap();
    for _ in 0..=CHANGES_MAX {
        fake.notify("notifications/tools/list_changed", json!({"_meta": {ID: id}})).await;
    }
    let (pong, _) = tokio::join!(client.ping(), fake.serve("server/discover", json!({})));
    pong.unwrap();
    assert_eq!(listen.next().await.unwrap(), Some(Change::Missed));
    fake.notify("notifications/tools/list_changed", json!({"_meta": {ID: id}})).await;
    assert_eq!(listen.next().await.unwrap(), Some(Change::Tools));
}

#[tokio::test]
async fn a_legacy_subscription_filters_what_comes() {
    let (client, mut fake) = legacy(builder()).await;
    let mut listen = client.listen(tools_and(&["a:b"])).await.unwrap();
    let (subscribed, asked) =
        tokio::join!(client.subscribe("a:b"), fake.serve("resources/subscribe", json!({})));
    subscribed.unwrap();
    assert_eq!(asked["params"]["uri"], "a:b");
    fake.notify("notifications/prompts/list_changed", json!({})).await;
    fake.notify("notifications/resources/updated", json!({"uri": "c:d"})).await;
    fake.notify("notifications/resources/updated", json!({"uri": "a:b"})).await;
    fake.send(json!({"method": "notifications/tools/list_changed"})).await;
    assert_eq!(listen.next().await.unwrap(), Some(Change::Resource("a:b".into())));
    assert_eq!(listen.next().await.unwrap(), Some(Change::Tools));
    let (gone, _) =
        tokio::join!(client.unsubscribe("a:b"), fake.serve("resources/unsubscribe", json!({})));
    gone.unwrap();
}

#[tokio::test]
async fn modern_subscriptions_to_resources_share_one_listen() {
    let (seen_in, mut seen) = mpsc::channel(10);
    let watching = builder().on_notification(move |notice| seen_in.try_send(notice).unwrap());
    let (client, mut fake) = modern(watching).await;
    let (one, first) = tokio::join!(client.subscribe("a:1"), acknowledge(&mut fake));
    one.unwrap();
    client.subscribe("a:1").await.unwrap();
    let serve = async {
        let listen = fake.expect("subscriptions/listen").await;
        let wanted: BTreeSet<String> = serde_json::from_value(
            listen["params"]["notifications"]["resourceSubscriptions"].clone(),
        )
        .unwrap();
        assert_eq!(wanted.len(), 2);
        let params = json!({"notifications": {"resourceSubscriptions": wanted},
            "_meta": {ID: listen["id"]}});
        fake.notify("notifications/subscriptions/acknowledged", params).await;
        let gone = fake.expect("notifications/cancelled").await;
        assert_eq!(gone["params"]["requestId"], first);
        listen["id"].clone()
    };
    let (two, id) = tokio::join!(client.subscribe("a:2"), serve);
    two.unwrap();
    let params = json!({"uri": "a:2", "_meta": {ID: id}});
    fake.notify("notifications/resources/updated", params).await;
    loop {
        let notice = seen.recv().await.unwrap();
        if let Some(params) = notice.parse::<mcplane_proto::types::ResourceUpdatedParams>().unwrap()
        {
            assert_eq!(params.uri, "a:2");
            assert!(notice.parse::<ProgressParams>().unwrap().is_none());
            break;
        }
    }
    // A server that does not honour it: an error, and the listen before stays.
    let serve = async {
        let listen = fake.expect("subscriptions/listen").await;
        let params = json!({"notifications": {}, "_meta": {ID: listen["id"]}});
        fake.notify("notifications/subscriptions/acknowledged", params).await;
        let gone = fake.expect("notifications/cancelled").await;
        assert_eq!(gone["params"]["requestId"], listen["id"]);
    };
    let (three, ()) = tokio::join!(client.subscribe("a:3"), serve);
    assert!(three.unwrap_err().to_string().contains("a:3"));
}

#[tokio::test]
async fn log_messages_reach_their_closure_even_after_a_panic() {
    let (seen_in, mut seen) = mpsc::channel(10);
    let watching = builder().on_log(move |log| {
        assert_ne!(log.data.get(), "1", "a panic in a closure");
        seen_in.try_send(log).unwrap();
    });
    let (_client, mut fake) = legacy(watching).await;
    fake.notify("notifications/message", json!({"level": "info", "data": 1})).await;
    fake.notify("notifications/message", json!({"level": "info", "data": {"a": 2}})).await;
    assert_eq!(seen.recv().await.unwrap().data.get(), r#"{"a":2}"#);
}

/// What waits to be sent to it is bounded, and it is given up when it takes nothing of that.
#[tokio::test(start_paused = true)]
async fn a_server_that_asks_and_never_reads_is_not_read_for_ever() {
    const PINGS_MAX: usize = 250;
    let (client, mut fake) = legacy(builder()).await;
    let id = "x".repeat(1024 * 1024);
    let ping = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"ping\"}}\n");
    let mut taken = 0;
    let began = tokio::time::Instant::now();
    while fake.writer.write_all(ping.as_bytes()).await.is_ok() {
        taken += 1;
        assert!(taken < PINGS_MAX, "{taken} MiB of answers wait to be read");
    }
    assert_eq!(began.elapsed().as_secs(), mcplane_proto::limits::STALL_MAX.as_secs());
    let error = client.ping().await.unwrap_err().to_string();
    assert!(error.contains("does not read what it is sent"), "{error}");
}
