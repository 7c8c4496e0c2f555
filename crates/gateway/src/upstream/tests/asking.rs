//! Whose question it is, on connections that do not say it.

use std::time::{Duration, Instant};

use mcplane::proto::version::Revision;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::fake::{Fake, Initialize, gateway, server, started};
use super::raw::{Raw, ask, raw};
use super::{LIMIT, one, with};
use crate::admin::ServerState;
use crate::config::{Server, Speaks};
use crate::gateway::Gateway;

const LEGACY: Revision = Revision::LATEST_LEGACY;

/// Asks in this call.
fn put(fake: &Fake, call: &Value, id: u32) {
    let schema = json!({"type": "object", "properties": {}});
    let params = json!({"message": format!("{id}?"), "requestedSchema": schema});
    fake.say_to(call, &ask(id, "elicitation/create", params));
}

fn answer(fake: &Fake, call: &Value) {
    let result = json!({"content": [{"type": "text", "text": call["params"]["arguments"]["of"]}]});
    fake.say_to(call, &json!({"jsonrpc": "2.0", "id": call["id"], "result": result}));
}

/// Calls the tool, and says who did.
async fn call(client: &mut Raw, of: &str) {
    let params = json!({"name": "echo", "arguments": {"of": of}});
    client.request(1, "tools/call", params).await;
}

/// The client is asked this, and declines.
async fn is_asked(client: &mut Raw, id: u32) {
    let asked = client.hear().await;
    assert_eq!(asked["params"]["message"], format!("{id}?"), "{asked}");
    let result = json!({"action": "decline"});
    client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await;
}

async fn hears_answer(client: &mut Raw, of: &str) {
    let heard = client.hear().await;
    assert_eq!(heard["result"]["content"][0]["text"], of, "{heard}");
}

async fn asking(mut client: Raw) -> Raw {
    client.initialize(json!({"elicitation": {}})).await;
    client
}

/// A gateway that knows that the tool asks, with so many workers for its calls.
async fn with_workers(fake: &Fake, ask_workers: u32) -> Gateway {
    let mut settings = Server { ask_workers, ..server(Speaks::Revision(LEGACY)) };
    settings.tools.asks = vec!["echo".into()];
    let gateway = started(fake, settings);
    gateway.ready().await;
    gateway
}

/// One call of the tool in which it asks.
async fn ask_once(fake: &Fake, gateway: &Gateway, n: usize) {
    let mut client = asking(raw(gateway)).await;
    call(&mut client, "first").await;
    let sent = fake.sent("tools/call", n).await;
    put(fake, &sent, 90);
    is_asked(&mut client, 90).await;
    answer(fake, &sent);
    hears_answer(&mut client, "first").await;
}

/// Two clients are asked at once, each its own.
async fn both_are_asked(fake: &Fake, gateway: &Gateway, n: usize) {
    // So long a call may still speak after its answer.
    sleep(Duration::from_millis(5)).await;
    let (mut alice, mut bob) = (asking(raw(gateway)).await, asking(raw(gateway)).await);
    call(&mut alice, "alice").await;
    let of_alice = fake.sent("tools/call", n).await;
    call(&mut bob, "bob").await;
    let of_bob = fake.sent("tools/call", n + 1).await;
    assert_ne!(fake.connection_of(&of_alice), fake.connection_of(&of_bob));
    put(fake, &of_bob, 2);
    put(fake, &of_alice, 1);
    is_asked(&mut alice, 1).await;
    is_asked(&mut bob, 2).await;
    answer(fake, &of_alice);
    answer(fake, &of_bob);
    hears_answer(&mut alice, "alice").await;
    hears_answer(&mut bob, "bob").await;
}

#[tokio::test]
async fn what_has_asked_has_a_worker_to_itself_from_then_on() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, LEGACY).await;
    ask_once(&fake, &gateway, 0).await;
    both_are_asked(&fake, &gateway, 1).await;
    let status = one(&gateway, |status| status.workers.len() == 3).await;
    assert_eq!((status.unowned_logs, status.state), (0, ServerState::Healthy), "{status:#?}");
    gateway.close().await;
}

#[tokio::test]
async fn the_settings_may_say_what_asks() {
    let fake = Fake::new(&["echo"]);
    let mut settings = server(Speaks::Revision(LEGACY));
    settings.tools.asks = vec!["echo".into()];
    let gateway = started(&fake, settings);
    gateway.ready().await;
    both_are_asked(&fake, &gateway, 0).await;
    gateway.close().await;
}

/// Nobody can know whose the first question is: it is asked again, in calls that may be repeated.
#[tokio::test]
async fn a_first_question_of_two_clients_is_asked_again() {
    let fake = Fake::new(&[]);
    let tool = json!({"name": "echo", "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": true}});
    fake.state().tools = vec![tool];
    let gateway = gateway(&fake, LEGACY).await;
    let (mut alice, mut bob) = (asking(raw(&gateway)).await, asking(raw(&gateway)).await);
    call(&mut alice, "alice").await;
    let first = fake.sent("tools/call", 0).await;
    call(&mut bob, "bob").await;
    let second = fake.sent("tools/call", 1).await;
    assert_eq!(fake.connection_of(&first), fake.connection_of(&second));
    put(&fake, &first, 5);
    let refused = fake.answered(5).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("made again"), "{refused}");
    fake.sent("notifications/cancelled", 1).await;
    let again = [fake.sent("tools/call", 2).await, fake.sent("tools/call", 3).await];
    assert_ne!(fake.connection_of(&again[0]), fake.connection_of(&again[1]));
    // What the first ones say yet is nobody's.
    answer(&fake, &first);
    for sent in &again {
        match sent["params"]["arguments"]["of"].as_str() {
            Some("alice") => {
                put(&fake, sent, 1);
                is_asked(&mut alice, 1).await;
            }
            _ => {
                put(&fake, sent, 2);
                is_asked(&mut bob, 2).await;
            }
        }
        answer(&fake, sent);
    }
    hears_answer(&mut alice, "alice").await;
    hears_answer(&mut bob, "bob").await;
    gateway.close().await;
}

/// A call that must not be repeated is not: its question is refused, and the next one is known.
#[tokio::test]
async fn a_first_question_in_calls_that_change_something_is_refused() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, LEGACY).await;
    let (mut alice, mut bob) = (asking(raw(&gateway)).await, asking(raw(&gateway)).await);
    call(&mut alice, "alice").await;
    let of_alice = fake.sent("tools/call", 0).await;
    call(&mut bob, "bob").await;
    let of_bob = fake.sent("tools/call", 1).await;
    put(&fake, &of_alice, 5);
    let refused = fake.answered(5).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("several clients"), "{refused}");
    answer(&fake, &of_alice);
    answer(&fake, &of_bob);
    hears_answer(&mut alice, "alice").await;
    hears_answer(&mut bob, "bob").await;
    both_are_asked(&fake, &gateway, 2).await;
    assert_eq!(fake.count("tools/call"), 4);
    gateway.close().await;
}

/// Nobody else is there: its own process may remember what it was told.
#[tokio::test]
async fn one_client_alone_stays_where_it_is() {
    let fake = Fake::new(&["echo", "other"]);
    let gateway = gateway(&fake, LEGACY).await;
    let mut client = asking(raw(&gateway)).await;
    for n in 0..4 {
        call(&mut client, "me").await;
        let sent = fake.sent("tools/call", n).await;
        put(&fake, &sent, 90 + u32::try_from(n).unwrap());
        is_asked(&mut client, 90 + u32::try_from(n).unwrap()).await;
        assert_eq!(fake.connection_of(&sent), 0);
        answer(&fake, &sent);
        hears_answer(&mut client, "me").await;
    }
    gateway.close().await;
}

/// What may ask runs beside no other client's call; what does not, beside any.
#[tokio::test]
async fn what_does_not_ask_shares_its_worker() {
    let fake = Fake::new(&["echo", "other"]);
    let gateway = gateway(&fake, LEGACY).await;
    ask_once(&fake, &gateway, 0).await;
    let (mut alice, mut bob) = (asking(raw(&gateway)).await, asking(raw(&gateway)).await);
    let params = json!({"name": "other", "arguments": {"of": "me"}});
    for round in 0..3 {
        sleep(Duration::from_millis(5)).await;
        let mut sent = Vec::new();
        for (n, client) in [&mut alice, &mut bob].into_iter().enumerate() {
            client.request(1, "tools/call", params.clone()).await;
            sent.push(fake.sent("tools/call", 1 + 2 * round + n).await);
        }
        let on = sent.iter().map(|sent| fake.connection_of(sent)).collect::<Vec<_>>();
        // Two calls that were quiet are enough.
        assert_eq!(on, if round == 0 { [0, 1] } else { [0, 0] }, "{round}");
        for (sent, client) in sent.iter().zip([&mut alice, &mut bob]) {
            answer(&fake, sent);
            hears_answer(client, "me").await;
        }
    }
    gateway.close().await;
}

/// What does not ask stays away from another client's call that is about to, and no longer.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_about_to_ask_is_given_the_time() {
    let fake = Fake::new(&["echo", "other"]);
    let gateway = gateway(&fake, LEGACY).await;
    ask_once(&fake, &gateway, 0).await;
    let (mut alice, mut bob) = (asking(raw(&gateway)).await, asking(raw(&gateway)).await);
    sleep(Duration::from_millis(5)).await;
    let params = json!({"name": "other", "arguments": {"of": "bob"}});
    let mut others = Vec::new();
    for n in 1..6 {
        // By then `other` is known not to ask, and nobody is left from before.
        if n == 3 {
            sleep(Duration::from_secs(61)).await;
            call(&mut alice, "alice").await;
            others.push(fake.sent("tools/call", n).await);
            continue;
        }
        if n == 5 {
            put(&fake, &others[2], 1);
            is_asked(&mut alice, 1).await;
        }
        bob.request(1, "tools/call", params.clone()).await;
        others.push(fake.sent("tools/call", n).await);
        answer(&fake, &others[n - 1]);
        hears_answer(&mut bob, "bob").await;
    }
    let on = others.iter().map(|sent| fake.connection_of(sent)).collect::<Vec<_>>();
    assert_eq!(on, [0, 0, 0, 1, 0]);
    answer(&fake, &others[2]);
    hears_answer(&mut alice, "alice").await;
    // It was close: the next one has a worker to itself, whoever was here last.
    sleep(Duration::from_secs(30)).await;
    call(&mut alice, "alice").await;
    let sent = fake.sent("tools/call", 6).await;
    assert_eq!(fake.connection_of(&sent), 1);
    put(&fake, &sent, 2);
    is_asked(&mut alice, 2).await;
    answer(&fake, &sent);
    hears_answer(&mut alice, "alice").await;
    gateway.close().await;
}

/// A server that can run only once is shared as before.
#[tokio::test]
async fn what_cannot_be_started_a_second_time_is_shared() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, LEGACY).await;
    let mut troubles = gateway.troubles();
    ask_once(&fake, &gateway, 0).await;
    sleep(Duration::from_millis(5)).await;
    fake.state().initialize = Initialize::Breaks;
    let (mut alice, mut bob) = (asking(raw(&gateway)).await, asking(raw(&gateway)).await);
    let mut calls = Vec::new();
    for (n, client) in [&mut alice, &mut bob].into_iter().enumerate() {
        call(client, "me").await;
        let sent = fake.sent("tools/call", 1 + n).await;
        assert_eq!(fake.connection_of(&sent), 0);
        calls.push(sent);
    }
    calls.iter().for_each(|sent| answer(&fake, sent));
    let told = troubles.next().await.unwrap();
    assert!(told.contains("calls that may ask share a worker with others"), "{told}");
    let status = one(&gateway, |status| status.workers.len() == 1).await;
    assert_eq!(status.state, ServerState::Healthy, "{status:#?}");
    gateway.close().await;
}

#[tokio::test(start_paused = true)]
async fn workers_for_questions_end_when_nothing_asks() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, LEGACY).await;
    ask_once(&fake, &gateway, 0).await;
    both_are_asked(&fake, &gateway, 1).await;
    sleep(Duration::from_secs(290)).await;
    assert_eq!(gateway.status().servers[0].workers.len(), 3);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(gateway.status().servers[0].workers.len(), 1);
    gateway.close().await;
}

/// No more workers than that: a call waits until one is free.
#[tokio::test]
async fn so_many_calls_may_ask_at_once() {
    let fake = Fake::new(&["echo"]);
    let gateway = with_workers(&fake, 1).await;
    let (mut alice, mut bob) = (asking(raw(&gateway)).await, asking(raw(&gateway)).await);
    let mut carol = asking(raw(&gateway)).await;
    call(&mut alice, "alice").await;
    let of_alice = fake.sent("tools/call", 0).await;
    call(&mut bob, "bob").await;
    let of_bob = fake.sent("tools/call", 1).await;
    call(&mut carol, "carol").await;
    one(&gateway, |status| status.queued == 1).await;
    assert_eq!(gateway.status().servers[0].workers.len(), 2);
    answer(&fake, &of_bob);
    hears_answer(&mut bob, "bob").await;
    let of_carol = fake.sent("tools/call", 2).await;
    assert_eq!(fake.connection_of(&of_carol), fake.connection_of(&of_bob));
    answer(&fake, &of_alice);
    answer(&fake, &of_carol);
    hears_answer(&mut carol, "carol").await;
    gateway.close().await;
}

/// One client has all workers but one. What it has more of waits, and nobody behind it.
#[tokio::test]
async fn one_client_has_its_share_of_the_workers() {
    let fake = Fake::new(&["echo"]);
    let gateway = with_workers(&fake, 3).await;
    let (mut alice, mut bob) = (asking(raw(&gateway)).await, asking(raw(&gateway)).await);
    let mut calls = Vec::new();
    call(&mut bob, "bob").await;
    calls.push(fake.sent("tools/call", 0).await);
    for id in 1..=4 {
        let params = json!({"name": "echo", "arguments": {"of": id.to_string()}});
        alice.request(id, "tools/call", params).await;
        if id < 3 {
            calls.push(fake.sent("tools/call", calls.len()).await);
        }
    }
    one(&gateway, |status| status.queued == 2).await;
    let mut carol = asking(raw(&gateway)).await;
    call(&mut carol, "carol").await;
    calls.push(fake.sent("tools/call", 3).await);
    assert_eq!(calls[3]["params"]["arguments"]["of"], "carol");
    // Each asks, and the next one as soon as it is its turn.
    for n in 1..5 {
        let question = u32::try_from(n).unwrap();
        put(&fake, &calls[if n < 3 { n } else { n + 1 }], question);
        is_asked(&mut alice, question).await;
        if n > 2 {
            continue;
        }
        answer(&fake, &calls[n]);
        hears_answer(&mut alice, &n.to_string()).await;
        let next = fake.sent("tools/call", 3 + n).await;
        assert_eq!(next["params"]["arguments"]["of"], (2 + n).to_string());
        calls.push(next);
    }
    for n in [0, 3, 4, 5] {
        answer(&fake, &calls[n]);
    }
    hears_answer(&mut bob, "bob").await;
    hears_answer(&mut carol, "carol").await;
    gateway.close().await;
}

/// What asks nothing waits for a worker to itself while another client's call is about to ask, and for
/// no person that another worker waits for.
#[tokio::test(start_paused = true)]
async fn what_asks_nothing_waits_for_no_person() {
    let fake = Fake::new(&["echo", "other"]);
    let gateway = with_workers(&fake, 1).await;
    let (mut alice, mut bob) = (asking(raw(&gateway)).await, asking(raw(&gateway)).await);
    let mut carol = asking(raw(&gateway)).await;
    let other = json!({"name": "other", "arguments": {"of": "bob"}});
    for n in 0..2 {
        bob.request(1, "tools/call", other.clone()).await;
        answer(&fake, &fake.sent("tools/call", n).await);
        hears_answer(&mut bob, "bob").await;
    }
    sleep(Duration::from_secs(61)).await;
    call(&mut alice, "alice").await;
    let of_alice = fake.sent("tools/call", 2).await;
    for (n, is_answered, connection) in [(3, true, 1), (5, false, 0)] {
        call(&mut carol, "carol").await;
        let of_carol = fake.sent("tools/call", n).await;
        assert_eq!(fake.connection_of(&of_carol), 1);
        let since = tokio::time::Instant::now();
        bob.request(1, "tools/call", other.clone()).await;
        one(&gateway, |status| status.queued == 1).await;
        if is_answered {
            answer(&fake, &of_carol);
            hears_answer(&mut carol, "carol").await;
        }
        let of_bob = fake.sent("tools/call", n + 1).await;
        assert_eq!(fake.connection_of(&of_bob), connection);
        assert_eq!(since.elapsed() < Duration::from_secs(1), is_answered);
        answer(&fake, &of_bob);
        hears_answer(&mut bob, "bob").await;
    }
    assert_eq!(fake.connection_of(&of_alice), 0);
    gateway.close().await;
}

#[tokio::test]
async fn what_asks_is_known_in_the_next_run() {
    let kept = std::env::temp_dir().join(format!("mcplane-asking-{}", std::process::id()));
    std::fs::create_dir_all(&kept).unwrap();
    let begin = |fake: &Fake| {
        let mut config = with(server(Speaks::Revision(LEGACY)));
        config.gateway.state_dir = Some(kept.clone());
        Gateway::start_with(config, std::sync::Arc::new(fake.clone())).unwrap()
    };
    let fake = Fake::new(&["echo"]);
    let gateway = begin(&fake);
    gateway.ready().await;
    ask_once(&fake, &gateway, 0).await;
    // A file that is being written has another name.
    let is_kept = || {
        let files = std::fs::read_dir(kept.join("lists")).into_iter().flatten().flatten();
        let done = files.filter(|file| file.path().extension().is_some_and(|end| end == "json"));
        let mut texts = done.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        texts.any(|text| text.contains(r#""asks":["tools/call echo"]"#))
    };
    let began = Instant::now();
    while !is_kept() {
        assert!(began.elapsed() < LIMIT);
        sleep(Duration::from_millis(5)).await;
    }
    gateway.close().await;
    let fake = Fake::new(&["echo"]);
    let gateway = begin(&fake);
    gateway.ready().await;
    both_are_asked(&fake, &gateway, 0).await;
    gateway.close().await;
    std::fs::remove_dir_all(kept).unwrap();
}

/// A client of 2026-07-28 goes away with a question while it waits for another call: the next question
/// is of the one that it waits for.
#[tokio::test]
async fn two_calls_of_one_modern_client_are_one_clients() {
    let fake = Fake::new(&["echo"]);
    let gateway = gateway(&fake, LEGACY).await;
    let mut client = raw(&gateway);
    let mut calls = Vec::new();
    for (id, n) in [(1, 0), (2, 1)] {
        client.modern_call(id, json!({"elicitation": {}})).await;
        calls.push(fake.sent("tools/call", n).await);
    }
    assert_eq!(fake.connection_of(&calls[0]), fake.connection_of(&calls[1]));
    // Of two, it is the one that was made last; with that one away it can only be the other.
    for (question, id) in [(7, 2), (8, 1)] {
        put(&fake, &calls[0], question);
        let parked = client.hear().await;
        assert_eq!(parked["id"], id, "{parked}");
        assert_eq!(parked["result"]["resultType"], "input_required", "{parked}");
        let asked = parked["result"]["inputRequests"].as_object().unwrap();
        let asked: Vec<_> = asked.values().map(|one| &one["params"]["message"]).collect();
        assert_eq!(asked, [&json!(format!("{question}?"))]);
    }
    gateway.close().await;
}
