//! How what clients see follows what servers have.

use std::time::Duration;

use mcplane::Client;
use mcplane::client::Change;
use mcplane::proto::session::listen::ListenFilter;
use mcplane::proto::version::Revision;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::fake::{Fake, gateway};
use super::{LIMIT, client, one};

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

/// Lists again and again for so long, and tells how many tools there were at last.
async fn list_for(client: &Client, time: Duration) -> usize {
    let until = tokio::time::Instant::now() + time;
    loop {
        let count = client.list_tools().await.unwrap().len();
        if tokio::time::Instant::now() >= until {
            return count;
        }
        sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn lists_whose_time_is_over_are_read_again_when_somebody_asks() {
    for ttl_ms in [0, 20_000] {
        let fake = Fake::new(&["echo"]);
        fake.state().ttl_ms = Some(ttl_ms);
        let gateway = gateway(&fake, Revision::LATEST).await;
        let client = client(&gateway).await;
        // Added without a word.
        fake.offer(&["echo", "more"]);
        let time = Duration::from_millis(ttl_ms.max(10_000));
        assert_eq!(list_for(&client, time - Duration::from_secs(2)).await, 1);
        assert_eq!(fake.count("tools/list"), 1);
        assert_eq!(list_for(&client, time / 2 + Duration::from_secs(3)).await, 2);
        assert_eq!(fake.count("tools/list"), 2);
        // Nobody asks: nothing is read.
        sleep(time * 10).await;
        assert_eq!(fake.count("tools/list"), 2);
        gateway.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn lists_of_a_server_that_tells_nothing_do_not_get_old() {
    for (capabilities, expected) in
        [(json!({"tools": {}}), 2), (json!({"tools": {"listChanged": true}}), 1)]
    {
        let fake = Fake::new(&["echo"]);
        fake.state().capabilities = capabilities;
        let gateway = gateway(&fake, Revision::LATEST_LEGACY).await;
        let client = client(&gateway).await;
        fake.offer(&["echo", "more"]);
        assert_eq!(list_for(&client, Duration::from_secs(55)).await, 1);
        assert_eq!(list_for(&client, Duration::from_secs(30)).await, expected);
        assert_eq!(fake.count("tools/list"), expected);
        gateway.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_announced_change_is_passed_on_though_there_is_none() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, Revision::LATEST_LEGACY).await;
    let client = client(&gateway).await;
    let filter = ListenFilter { tools_list_changed: true, ..ListenFilter::default() };
    let mut listen = client.listen(filter).await.unwrap();
    fake.notify("notifications/tools/list_changed", json!({}));
    let change = timeout(LIMIT, listen.next()).await.unwrap().unwrap();
    assert!(matches!(change, Some(Change::Tools)), "{change:?}");
    assert_eq!(fake.count("tools/list"), 2);
    // A server that says so whenever it is asked is not asked all the time.
    for _ in 0..600 {
        fake.notify("notifications/tools/list_changed", json!({}));
        sleep(Duration::from_millis(100)).await;
    }
    let readings = fake.count("tools/list");
    assert!((4..20).contains(&readings), "{readings} readings in a minute");
    gateway.close().await;
}
