//! How calls end is counted, each once, and told to whoever listens. In virtual time.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcplane_gateway::config::{Mode, Server};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

use crate::late::Client;
use crate::plan::{Ending, Step};
use crate::pool::{Bed, ms};

/// What was told: the fields of each event, with its target.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

impl Told {
    fn take(&self, target: &str) -> Vec<BTreeMap<String, String>> {
        let all = std::mem::take(&mut *self.0.lock().unwrap());
        all.into_iter().filter(|event| event["target"] == target).collect()
    }
}

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().into(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl Subscriber for Told {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("mcplane::")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::from([("target".into(), event.metadata().target().into())]);
        event.record(&mut Fields(&mut fields));
        self.0.lock().unwrap().push(fields);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Listens. Whether anybody does is remembered for each event from when it is first told, which other
/// tests may do at the same time: so all are told once before.
async fn listen() -> (Told, DefaultGuard) {
    let told = Told::default();
    let first = tracing::subscriber::set_default(told.clone());
    let bed = Bed::of(Server::default()).await;
    let mut client = Client::of(&bed, "first").await;
    client.call(&[], Ending::Answer, None).await;
    client.hears(1_000).await;
    bed.gateway.close().await;
    drop(first);
    let listens = tracing::subscriber::set_default(told.clone());
    told.take("");
    (told, listens)
}

fn us(event: &BTreeMap<String, String>, key: &str) -> u64 {
    event[key].parse().unwrap()
}

fn calls(bed: &Bed) -> Value {
    serde_json::to_value(bed.gateway.status().servers[0].calls).unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_call_is_counted_once_by_how_it_ended() {
    let (told, _listens) = listen().await;
    let bed = Bed::of(Server { mode: Mode::Exclusive, queue: 1, ..Server::default() }).await;
    let mut client = Client::of(&bed, "a").await;
    told.take("");

    let wait = [Step::Wait(1_000)];
    client.call(&wait, Ending::Answer, None).await;
    ms(500).await;
    // This one waits, and the next finds no room.
    client.call(&[], Ending::Error, None).await;
    client.call(&[], Ending::Answer, None).await;
    client.hears(2_000).await;
    let first = told.take("mcplane::call");
    let outcomes: Vec<_> = first.iter().map(|event| event["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["refused", "answered", "error"], "{first:#?}");
    let [refused, answered, error] = &first[..] else { unreachable!() };
    assert_eq!((refused["why"].as_str(), refused.get("ran_us")), ("full", None));
    assert_eq!((answered["upstream"].as_str(), answered["name"].as_str()), ("it", "work"));
    assert_eq!((answered["method"].as_str(), answered.get("waited_us")), ("tools/call", None));
    assert!((1_000_000..1_100_000).contains(&us(answered, "ran_us")), "{answered:?}");
    assert!((400_000..600_000).contains(&us(error, "waited_us")), "{error:?}");
    assert_eq!((error["code"].as_str(), error["fault"].as_str()), ("-32050", "Caller"));

    client.call(&[], Ending::Never, None).await;
    client.hears(31_000).await;
    client.call(&[Step::Wait(60_000)], Ending::Answer, None).await;
    client.hears(10).await;
    client.cancel().await;
    client.hears(70_000).await;
    client.call(&[], Ending::Dies, None).await;
    client.hears(1_000).await;
    assert_eq!(
        calls(&bed),
        json!({"answered": 1, "tool_errors": 0, "errors": 1, "refused": 1, "timed_out": 1,
               "cancelled": 1, "lost": 1})
    );
    let rest = told.take("mcplane::call");
    let outcomes: Vec<_> = rest.iter().map(|event| event["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["timed_out", "cancelled", "lost"], "{rest:#?}");
    bed.gateway.close().await;
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_workers_is_told() {
    let (told, _listens) = listen().await;
    let bed = Bed::of(Server::default()).await;
    let mut client = Client::of(&bed, "a").await;
    client.call(&[], Ending::Dies, None).await;
    client.hears(1_000).await;
    bed.gateway.close().await;
    let told = told.take("mcplane::worker");
    assert!(told.iter().all(|event| event["upstream"] == "it" && event["worker"] == "0"));
    let states: Vec<_> = told.iter().map(|event| event["state"].as_str()).collect();
    let life = ["Handshaking", "Healthy"];
    let expected = [&life[..], &["Starting"], &life, &["Leaving", "Down"]].concat();
    assert_eq!(states, expected, "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_no_server_is_asked_for_counts_for_the_gateway() {
    let (told, _listens) = listen().await;
    let bed = Bed::of(Server::default()).await;
    let mut client = Client::of(&bed, "a").await;
    told.take("");
    for (method, params) in [
        ("tools/list", json!({})),
        ("tools/list", json!({"cursor": "1"})),
        ("tools/call", json!({"name": "nobody"})),
        ("tools/call", json!({})),
    ] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        client.write(&request).await;
        client.hears(10).await;
    }
    client.call(&[], Ending::Answer, None).await;
    client.hears(1_000).await;

    let own = serde_json::to_value(bed.gateway.status().own_calls).unwrap();
    let count = |answered: u32, refused: u32| {
        json!({"answered": answered, "tool_errors": 0, "errors": 0, "refused": refused,
               "timed_out": 0, "cancelled": 0, "lost": 0})
    };
    let told = told.take("mcplane::call");
    assert_eq!((own, calls(&bed)), (count(1, 3), count(1, 0)), "{told:#?}");
    let upstreams: Vec<_> = told.iter().map(|event| event.get("upstream").is_some()).collect();
    assert_eq!(upstreams, [[false; 4].as_slice(), &[true]].concat(), "{told:#?}");
    bed.gateway.close().await;
}

#[tokio::test(start_paused = true)]
async fn the_first_byte_of_what_a_server_says_in_a_call_has_a_time() {
    let (told, _listens) = listen().await;
    let bed = Bed::of(Server::default()).await;
    let mut client = Client::of(&bed, "a").await;
    told.take("");
    let pause = Duration::from_millis(400);
    for (pause, steps, first_ms, ran_ms) in [
        // The answer comes in one piece.
        (None, &[Step::Wait(200)][..], 200, 200),
        // Its end comes later than its beginning.
        (Some(pause), &[Step::Wait(100)], 100, 500),
        // A log message comes first.
        (None, &[Step::Wait(300), Step::Log, Step::Wait(700)], 300, 1_000),
    ] {
        bed.world.pauses(pause);
        client.call(steps, Ending::Answer, None).await;
        client.hears(3_000).await;
        let told = told.take("mcplane::call");
        let [event] = &told[..] else { panic!("{told:#?}") };
        for (key, ms) in [("first_byte_us", first_ms), ("ran_us", ran_ms)] {
            let within = ms * 1_000..(ms + 50) * 1_000;
            assert!(within.contains(&us(event, key)), "{steps:?}: {event:#?}");
        }
    }
    // Nothing is heard of this one.
    client.call(&[Step::Wait(60_000)], Ending::Answer, None).await;
    client.hears(10).await;
    client.cancel().await;
    client.hears(10).await;
    let told = told.take("mcplane::call");
    assert!(told.len() == 1 && !told[0].contains_key("first_byte_us"), "{told:#?}");
    bed.gateway.close().await;
}
