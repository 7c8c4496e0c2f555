//! What one client can take from the others. In virtual time.

use std::time::Duration;

use mcplane_gateway::config::{Mode, Server};
use serde_json::json;
use tokio::time::Instant;

use crate::late::Client;
use crate::plan::{Ending, Plan, Step};
use crate::pool::{Bed, ms};

/// A call of 2026-07-28 that asks and waits for the answer.
async fn ask_as_modern(client: &mut Client, number: usize) {
    let plan = Plan {
        tag: format!("alice/0/m{number}"),
        steps: vec![Step::Elicit],
        ending: Ending::Answer,
        is_stubborn: false,
        late: None,
    };
    let params = json!({"name": "work", "arguments": plan.to_json(), "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    }});
    let id = format!("m{number}");
    client
        .write(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_question_holds_others_up_for_a_moment_only() {
    for modern in [false, true] {
        let bed = Bed::of(Server { mode: Mode::Exclusive, ..Server::default() }).await;
        let (mut alice, mut bob) = (Client::of(&bed, "alice").await, Client::of(&bed, "bob").await);
        match modern {
            true => ask_as_modern(&mut alice, 1).await,
            false => alice.call(&[Step::Elicit], Ending::Answer, None).await,
        }
        // While nobody waits there is time.
        ms(20_000).await;
        assert_eq!(bed.world.trace("alice/0/1").ended.len(), 0);
        let began = Instant::now();
        bob.call(&[], Ending::Answer, None).await;
        assert_eq!(bob.hears(20_000).await, ["bob/0/1|0"], "modern {modern}");
        assert!(began.elapsed() <= Duration::from_secs(20), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn questions_of_one_client_leave_places_for_others() {
    for modern in [false, true] {
        let bed = Bed::of(Server::default()).await;
        let (mut alice, mut bob) = (Client::of(&bed, "alice").await, Client::of(&bed, "bob").await);
        for number in 0..64 {
            match modern {
                true => ask_as_modern(&mut alice, number).await,
                false => alice.call(&[Step::Elicit], Ending::Answer, None).await,
            }
            ms(2).await;
        }
        bob.call(&[], Ending::Answer, None).await;
        assert_eq!(bob.hears(1_000).await, ["bob/0/1|0"], "modern {modern}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_client_does_not_fill_the_queue() {
    let server = Server { mode: Mode::Exclusive, queue: 8, ..Server::default() };
    let bed = Bed::of(server).await;
    let (mut flood, mut other) = (bed.caller("flood"), bed.caller("other"));
    for _ in 0..20 {
        flood.send("work", 100, Ending::Answer).await;
    }
    ms(5).await;
    assert_eq!(bed.gateway.status().servers[0].queued, 6);
    assert_eq!(other.call(1).await, 0);
}
