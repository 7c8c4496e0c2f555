//! Which worker hears what clients want to hear of. In virtual time.

use mcplane_gateway::config::{Mode, Server};
use serde_json::json;

use crate::late::Client;
use crate::plan::{Dice, Ending, Step};
use crate::pool::{Bed, ms};

async fn subscribe(client: &mut Client, method: &str, uri: &str) {
    let method = format!("resources/{method}");
    client
        .write(&json!({"jsonrpc": "2.0", "id": uri, "method": method, "params": {"uri": uri}}))
        .await;
    client.hears(10).await;
}

/// The worker connection that the last call went to.
async fn life_of(bed: &Bed, client: &mut Client) -> u64 {
    client.call(&[Step::Wait(1)], Ending::Answer, None).await;
    client.hears(50).await;
    bed.world.path().last().unwrap().0
}

#[tokio::test(start_paused = true)]
async fn a_worker_hears_only_of_its_own_client() {
    let server = Server { mode: Mode::PerSession, workers_max: Some(4), ..Server::default() };
    let bed = Bed::of(server).await;
    // One watches before it has a worker, the other one after.
    let mut alice = Client::of(&bed, "alice").await;
    subscribe(&mut alice, "subscribe", "x:1").await;
    let of_alice = life_of(&bed, &mut alice).await;
    let mut bob = Client::of(&bed, "bob").await;
    let of_bob = life_of(&bed, &mut bob).await;
    subscribe(&mut bob, "subscribe", "x:2").await;
    ms(100).await;
    assert_eq!(bed.world.wants(of_alice), ["debug", "x:1"]);
    assert_eq!(bed.world.wants(of_bob), ["debug", "x:2"]);
    for spare in (1..=bed.world.opened()).filter(|life| ![of_alice, of_bob].contains(life)) {
        assert!(bed.world.wants(spare).is_empty(), "{:?}", bed.world.wants(spare));
    }
    // So does the one that takes its place.
    for _ in 0..4 {
        bed.world.kill_one(&mut Dice::new(0));
        ms(5_000).await;
    }
    let again = [life_of(&bed, &mut alice).await, life_of(&bed, &mut bob).await];
    ms(100).await;
    assert!(again[0] > of_alice || again[1] > of_bob);
    assert_eq!(again.map(|life| bed.world.wants(life).pop().unwrap()), ["x:1", "x:2"]);
    assert_eq!(again.map(|life| bed.world.wants(life).len()), [2, 2]);
}

#[tokio::test(start_paused = true)]
async fn what_clients_watch_outlives_a_reload_of_the_server() {
    let bed = Bed::of(Server::default()).await;
    let mut alice = Client::of(&bed, "alice").await;
    subscribe(&mut alice, "subscribe", "x:1").await;
    let before = bed.world.opened();
    let mut config = bed.gateway.config();
    config.servers.insert("it", Server { command: Some("other".into()), ..Server::default() });
    bed.gateway.reload(config).await.unwrap();
    ms(1_000).await;
    assert!(bed.world.opened() > before);
    assert_eq!(bed.world.wants(bed.world.opened()), ["debug", "x:1"]);
    subscribe(&mut alice, "unsubscribe", "x:1").await;
    assert_eq!(bed.world.wants(bed.world.opened()), ["debug", "x:1", "x:1"]);
}
