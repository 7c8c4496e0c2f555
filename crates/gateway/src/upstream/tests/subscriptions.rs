//! What servers are told of what clients want to hear of, whatever becomes of them meanwhile.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mcplane::proto::version::Revision;
use serde_json::json;
use tokio::time::sleep;

use super::LIMIT;
use super::fake::{Fake, config, server, started};
use super::raw::{Raw, raw};
use crate::config::{Config, Server, Speaks};
use crate::gateway::Gateway;

/// How long a connection takes to be open that a test does something before.
const SLOW: Duration = Duration::from_millis(300);

fn legacy() -> Server {
    server(Speaks::Revision(Revision::LATEST_LEGACY))
}

/// Settings under which the server is another one.
fn other() -> Config {
    config(Server { args: vec!["again".into()], ..legacy() })
}

/// A server that can be subscribed to and has log levels, a gateway where it is ready, and a client.
async fn ready() -> (Fake, Gateway, Raw) {
    let fake = Fake::new(&["echo"]);
    fake.state().capabilities =
        json!({"tools": {}, "resources": {"subscribe": true}, "logging": {}});
    let gateway = started(&fake, legacy());
    gateway.ready().await;
    let client = client(&gateway).await;
    (fake, gateway, client)
}

async fn client(gateway: &Gateway) -> Raw {
    let mut client = raw(gateway);
    client.initialize(json!({})).await;
    client
}

impl Raw {
    /// Asks for something that the gateway answers itself.
    async fn asks(&mut self, method: &str, key: &str, value: &str) {
        self.request(9, method, json!({key: value})).await;
        let answer = self.hear().await;
        assert_eq!(answer["result"], json!({}), "{answer}");
    }

    async fn subscribe(&mut self, uri: &str) {
        self.asks("resources/subscribe", "uri", uri).await;
    }

    async fn unsubscribe(&mut self, uri: &str) {
        self.asks("resources/unsubscribe", "uri", uri).await;
    }

    async fn set_level(&mut self, level: &str) {
        self.asks("logging/setLevel", "level", level).await;
    }
}

/// Waits until the server has these subscriptions and this level on one of its connections.
async fn wants(fake: &Fake, connection: usize, uris: &[&str], level: Option<&str>) {
    let uris: BTreeSet<_> = uris.iter().map(|uri| (*uri).to_owned()).collect();
    let wanted = (uris, level.map(str::to_owned));
    let began = Instant::now();
    while fake.told(connection) != wanted {
        let told = fake.told(connection);
        assert!(began.elapsed() < LIMIT, "on connection {connection}: {told:?}, not {wanted:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_server_that_is_taken_out_and_put_back_is_told_again() {
    let (fake, gateway, mut client) = ready().await;
    client.subscribe("x:1").await;
    client.set_level("info").await;
    wants(&fake, 0, &["x:1"], Some("info")).await;
    let mut without = other();
    without.servers = Default::default();
    gateway.reload(without).await.unwrap();
    gateway.reload(other()).await.unwrap();
    wants(&fake, 1, &["x:1"], Some("info")).await;
    client.unsubscribe("x:1").await;
    wants(&fake, 1, &[], Some("info")).await;
    gateway.close().await;
}

#[tokio::test]
async fn what_changes_while_a_server_is_replaced_is_told_to_its_successor() {
    let (fake, gateway, mut client) = ready().await;
    client.subscribe("x:1").await;
    client.set_level("info").await;
    wants(&fake, 0, &["x:1"], Some("info")).await;
    fake.state().opens_after = SLOW;
    gateway.reload(other()).await.unwrap();
    client.unsubscribe("x:1").await;
    client.subscribe("x:2").await;
    client.set_level("error").await;
    wants(&fake, 1, &["x:2"], Some("error")).await;
    assert_eq!(fake.count_on(1, "resources/unsubscribe"), 0);
    assert_eq!(fake.count_on(1, "resources/subscribe"), 1);
    gateway.close().await;
}

#[tokio::test]
async fn of_two_clients_of_one_resource_one_may_end_while_it_is_replaced() {
    let (fake, gateway, mut alice) = ready().await;
    let mut bob = client(&gateway).await;
    alice.subscribe("x:1").await;
    bob.subscribe("x:1").await;
    wants(&fake, 0, &["x:1"], None).await;
    assert_eq!(fake.count_on(0, "resources/subscribe"), 1);
    fake.state().opens_after = SLOW;
    gateway.reload(other()).await.unwrap();
    drop(alice);
    wants(&fake, 1, &["x:1"], None).await;
    bob.unsubscribe("x:1").await;
    wants(&fake, 1, &[], None).await;
    gateway.close().await;
}

#[tokio::test]
async fn what_is_wanted_before_a_server_is_ready_is_told_as_soon_as_it_is() {
    let (fake, gateway, mut client) = ready().await;
    fake.state().opens_after = SLOW;
    // What it offered before stands in until it is ready.
    gateway.reload(other()).await.unwrap();
    client.set_level("warning").await;
    client.subscribe("x:1").await;
    assert_eq!(fake.count("initialize"), 1, "it is not ready");
    wants(&fake, 1, &["x:1"], Some("warning")).await;
    gateway.close().await;
}

#[tokio::test]
async fn a_server_that_comes_later_is_told_the_level_that_clients_want() {
    let (fake, gateway, mut client) = ready().await;
    client.set_level("notice").await;
    wants(&fake, 0, &[], Some("notice")).await;
    let mut both = config(legacy());
    both.servers.insert("two", legacy());
    gateway.reload(both).await.unwrap();
    wants(&fake, 1, &[], Some("notice")).await;
    gateway.close().await;
}

#[tokio::test]
async fn a_level_that_nobody_wants_any_more_is_taken_back() {
    let (fake, gateway, mut alice) = ready().await;
    let mut bob = client(&gateway).await;
    alice.set_level("debug").await;
    bob.set_level("error").await;
    wants(&fake, 0, &[], Some("debug")).await;
    alice.set_level("info").await;
    wants(&fake, 0, &[], Some("info")).await;
    drop(alice);
    wants(&fake, 0, &[], Some("error")).await;
    gateway.close().await;
}
