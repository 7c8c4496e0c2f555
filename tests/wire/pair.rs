//! The two sessions against each other in virtual time: handshakes, deadlines, races, loss.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::limits::{PROBE_TIMEOUT, REQUEST_TIMEOUT, REQUEST_TIMEOUT_MAX};
use mcplane_proto::message::{Kind, Part};
use mcplane_proto::session::client::{Answer, Call};
use mcplane_proto::session::{ClientEvent, EraChoice, HandshakeError, ServerEvent};
use mcplane_proto::version::Era;
use mcplane_proto::{Id, Message, Method, Revision};
use mcplane_testkit::pair::Sent;
use mcplane_testkit::{Conditions, Pair, Random, Say, Setup};
use serde_json::Value;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

type Script = Vec<(Duration, Say)>;

/// A server that answers with what it was asked, after `after`.
fn echo(after: Duration) -> impl FnMut(&Message) -> Script {
    move |message| vec![(after, Say::Result(argument(message).to_string()))]
}

/// `params.n` of a request.
fn argument(message: &Message) -> Value {
    let params: Value = serde_json::from_slice(message.part(Part::Params).unwrap()).unwrap();
    serde_json::json!({"n": params["n"]})
}

fn request<'a>(params: &'a str, timeout: Option<Duration>) -> Call<'a> {
    Call {
        method: Method::ToolsCall,
        params: Some(params.as_bytes()),
        members: &[],
        meta: None,
        log_level: None,
        progress: true,
        timeout,
    }
}

fn ready(setup: Setup, script: impl FnMut(&Message) -> Script + 'static) -> Pair {
    let mut pair = Pair::new(setup, script);
    while !matches!(pair.events.last(), Some((_, ClientEvent::Ready))) {
        assert!(pair.step(), "no handshake: {pair:?}");
    }
    pair
}

fn revision(pair: &mut Pair) -> Revision {
    pair.client(|client, _, _| client.peer().unwrap().revision)
}

fn only(revision: Revision) -> Setup {
    Setup { choice: EraChoice::Only(revision), ..Setup::default() }
}

/// The ends of requests by tag: a word for each.
fn ends(pair: &Pair) -> HashMap<u32, Vec<String>> {
    let mut ends: HashMap<u32, Vec<String>> = HashMap::new();
    for (_, event) in &pair.events {
        if let ClientEvent::Answered(_, tag, answer) = event {
            let word = match answer {
                Answer::Complete(result) => String::from_utf8(result.to_vec()).unwrap(),
                Answer::Error(error) => error.code.to_string(),
                Answer::TimedOut => "timeout".into(),
                Answer::Closed => "closed".into(),
                Answer::InputRequired(_) | Answer::Malformed(_) => panic!("{answer:?}"),
            };
            ends.entry(*tag).or_default().push(word);
        }
    }
    ends
}

fn sent(pair: &Pair, method: Method) -> Vec<(Duration, Message)> {
    let messages = pair.sent.iter().map(|sent| (sent.at, scan(sent)));
    messages.filter(|(_, message)| message.method() == Some(method)).collect()
}

fn scan(sent: &Sent) -> Message {
    Message::scan(sent.bytes.clone()).expect("both sides write messages")
}

#[test]
fn every_revision_shakes_hands() {
    for revision in Revision::ALL {
        let mut pinned = ready(only(revision), echo(MS));
        assert_eq!(self::revision(&mut pinned), revision);
        let old = Setup { revisions: vec![revision], ..Setup::default() };
        let mut found = ready(old, echo(MS));
        assert_eq!(self::revision(&mut found), revision);
        let handshakes = [Method::Discover, Method::Initialize, Method::Initialized]
            .map(|method| sent(&found, method).len());
        let legacy = usize::from(revision.era() == Era::Legacy);
        assert_eq!(handshakes, [1, legacy, legacy]);
        for pair in [&mut pinned, &mut found] {
            pair.call(&request(r#"{"n":7}"#, None), 7).unwrap();
            pair.run();
            assert_eq!(ends(pair)[&7], [r#"{"n":7}"#]);
        }
    }
    let mut both = ready(Setup::default(), echo(MS));
    assert_eq!(revision(&mut both), Revision::LATEST);
}

#[test]
fn sides_without_a_common_revision_part() {
    let setup = Setup { revisions: vec![Revision::V2024_11_05], ..only(Revision::V2025_06_18) };
    let mut pair = Pair::new(setup, echo(MS));
    pair.run();
    let [(_, ClientEvent::Failed(HandshakeError::NoCommonRevision { offered }))] = &pair.events[..]
    else {
        panic!("{pair:?}")
    };
    assert_eq!(offered[..], ["2024-11-05"]);
    assert!(pair.call(&request("{}", None), 1).is_err());
}

#[test]
fn a_probe_without_an_answer_ends_in_initialize() {
    let mut pair = ready(Setup { ignores: Some(Method::Discover), ..Setup::default() }, echo(MS));
    assert_eq!(revision(&mut pair), Revision::LATEST_LEGACY);
    assert_eq!(sent(&pair, Method::Initialize)[0].0, PROBE_TIMEOUT);
    assert_eq!(pair.elapsed(), PROBE_TIMEOUT + 2 * MS);

    let mut silent = Pair::new(
        Setup { ignores: Some(Method::Initialize), ..only(Revision::V2025_06_18) },
        echo(MS),
    );
    silent.run();
    let [(at, ClientEvent::Failed(HandshakeError::TimedOut { .. }))] = silent.events[..] else {
        panic!("{silent:?}")
    };
    assert_eq!(at, REQUEST_TIMEOUT);
    assert!(sent(&silent, Method::Cancelled).is_empty(), "`initialize` is never cancelled");
}

/// The answer to the probe comes when `initialize` is already on its way.
#[test]
fn a_late_answer_to_the_probe_is_no_second_handshake() {
    let slow = Conditions { delay: 6 * SECOND, ..Conditions::default() };
    let both = Setup { up: slow, down: slow, ..Setup::default() };
    let mut pair = ready(both.clone(), echo(MS));
    assert_eq!(revision(&mut pair), Revision::LATEST_LEGACY);
    pair.run();
    let readies = pair.events.iter().filter(|(_, event)| matches!(event, ClientEvent::Ready));
    assert_eq!(readies.count(), 1);

    // A server of the modern era alone refuses `initialize`, which tells what it is.
    let mut modern = Pair::new(Setup { revisions: vec![Revision::LATEST], ..both }, echo(MS));
    modern.run_until(20 * SECOND);
    modern.setup.up = Conditions::default();
    modern.setup.down = Conditions::default();
    modern.run();
    assert_eq!(revision(&mut modern), Revision::LATEST);
    assert_eq!(sent(&modern, Method::Discover).len(), 2);
}

#[test]
fn a_server_that_dies_of_the_probe_is_started_again() {
    let mut pair = ready(Setup { dies_on: Some(Method::Discover), ..Setup::default() }, echo(MS));
    assert!(matches!(pair.events[0].1, ClientEvent::Respawn));
    assert_eq!(revision(&mut pair), Revision::LATEST_LEGACY);
    pair.call(&request(r#"{"n":1}"#, None), 1).unwrap();
    pair.run();
    assert_eq!(ends(&pair)[&1], [r#"{"n":1}"#]);

    let mut dead = Pair::new(
        Setup { dies_on: Some(Method::Initialize), ..only(Revision::V2025_03_26) },
        echo(MS),
    );
    dead.run();
    let [(_, ClientEvent::Failed(HandshakeError::Closed { method }))] = dead.events[..] else {
        panic!("{dead:?}")
    };
    assert_eq!(method, Method::Initialize);
}

#[test]
fn a_request_that_takes_too_long_is_cancelled_and_its_answer_dropped() {
    // The second answer leaves the server just before the cancellation arrives.
    for (after, answers) in [(5 * SECOND, 0), (SECOND - Duration::from_micros(500), 1)] {
        for revision in Revision::ALL {
            let mut pair = ready(only(revision), echo(after));
            let start = pair.elapsed();
            let id = pair.call(&request(r#"{"n":1}"#, Some(SECOND)), 1).unwrap();
            pair.run();
            assert_eq!(ends(&pair)[&1], ["timeout"]);
            let cancelled = sent(&pair, Method::Cancelled);
            assert_eq!(cancelled.len(), 1);
            assert_eq!(cancelled[0].0, start + SECOND);
            let named = cancelled[0].1.part(Part::RequestId).unwrap();
            assert_eq!(named, id.to_string().as_bytes());
            let replies =
                pair.sent.iter().filter(|sent| !sent.up && scan(sent).id() == Some(Id::from(id)));
            assert_eq!(replies.count(), answers, "{revision}, {after:?}");
        }
    }
}

#[test]
fn progress_extends_the_wait_up_to_the_cap() {
    let minutes = |count: u32| count * 60 * SECOND;
    for (answer, expected) in [(minutes(9), r#"{"done":true}"#), (minutes(15), "timeout")] {
        let script = move |_: &Message| {
            let mut script: Script = (1..28).map(|n| (n * 30 * SECOND, Say::Progress(n))).collect();
            script.push((answer, Say::Result(r#"{"done":true}"#.into())));
            script
        };
        let mut pair = ready(Setup::default(), script);
        let start = pair.elapsed();
        pair.call(&request("{}", Some(minutes(1))), 1).unwrap();
        pair.run();
        assert_eq!(ends(&pair)[&1], [expected]);
        let (at, _) = pair.events.last().unwrap();
        assert_eq!(*at - start, (answer + 2 * MS).min(REQUEST_TIMEOUT_MAX));
    }
    let mut quiet = ready(Setup::default(), |_| vec![(30 * SECOND, Say::Progress(1))]);
    let start = quiet.elapsed();
    quiet.call(&request("{}", Some(minutes(1))), 1).unwrap();
    quiet.run();
    assert_eq!(ends(&quiet)[&1], ["timeout"]);
    assert_eq!(quiet.events.last().unwrap().0 - start, 90 * SECOND + 2 * MS);
}

/// The cancellation meets the answer at every point of its way.
#[test]
fn a_cancellation_races_with_the_answer() {
    let (mut won, mut lost, mut crossed) = (0, 0, 0);
    for quarter in 0..60 {
        let mut pair = ready(Setup::default(), echo(10 * MS));
        let id = pair.call(&request(r#"{"n":1}"#, None), 1).unwrap();
        let at = pair.elapsed() + quarter * MS / 4;
        pair.run_until(at);
        let given_up = pair.client(|client, _, out| client.cancel(id, "changed my mind", out));
        pair.run();
        let answered = ends(&pair).get(&1).map_or(0, Vec::len);
        assert_eq!(answered + usize::from(given_up.is_some()), 1, "one end at {at:?}");
        let replied = pair.sent.iter().any(|sent| !sent.up && scan(sent).id() == Some(id.into()));
        match (given_up, replied) {
            (Some(_), false) => won += 1,
            (Some(_), true) => crossed += 1,
            (None, _) => lost += 1,
        }
        nothing_is_sent_after_a_cancellation(&pair);
        assert!(pair.client(|client, _, out| client.cancel(id, "again", out)).is_none());
    }
    assert!(won > 0 && lost > 0 && crossed > 0, "{won} {lost} {crossed}");
}

fn nothing_is_sent_after_a_cancellation(pair: &Pair) {
    // The last time at which the server sent anything for each request.
    let mut last: HashMap<Id, Duration> = HashMap::new();
    for sent in pair.sent.iter().filter(|sent| !sent.up) {
        let message = scan(sent);
        let of = message.id().or_else(|| Id::from_json(message.part(Part::ProgressOf)?));
        last.extend(of.map(|id| (id, sent.at)));
    }
    for (cancelled, event) in &pair.server_events {
        let ServerEvent::Cancelled(id) = event else { continue };
        let late = last.get(id).is_some_and(|at| at > cancelled);
        assert!(!late, "{id} was answered after {cancelled:?}, when it was cancelled");
    }
}

#[test]
fn a_listen_is_acknowledged_first_and_ends_with_its_result() {
    let mut pair = ready(Setup::default(), echo(MS));
    let listen = |filter| Call { method: Method::Listen, ..request(filter, Some(SECOND)) };
    let tools = r#"{"notifications":{"toolsListChanged":true}}"#;
    let resource = r#"{"notifications":{"resourceSubscriptions":["a:b"],"toolsListChanged":true}}"#;
    let first = pair.call(&listen(tools), 1).unwrap();
    let second = pair.call(&listen(resource), 2).unwrap();
    let wanted = |method: Method, uri: Option<&'static str>, pair: &mut Pair| {
        pair.server(|server, _, out| server.notify(method, uri, out));
    };
    wanted(Method::ToolsListChanged, None, &mut pair); // nobody listens yet
    pair.run_until(pair.elapsed() + 2 * MS);
    for id in [first, second] {
        pair.client(|client, _, _| client.hold(id));
    }
    pair.run_until(pair.elapsed() + 3600 * SECOND);
    wanted(Method::ToolsListChanged, None, &mut pair);
    wanted(Method::PromptsListChanged, None, &mut pair);
    wanted(Method::ResourcesUpdated, Some("a:b"), &mut pair);
    wanted(Method::ResourcesUpdated, Some("a:c"), &mut pair);
    pair.run_until(pair.elapsed() + SECOND);

    let mut told: HashMap<i64, Vec<Method>> = HashMap::new();
    for (_, event) in &pair.events {
        if let ClientEvent::Notification(method, Some(Id::Integer(id))) = event {
            told.entry(*id).or_default().push(*method);
        }
    }
    let (ack, tools) = (Method::ListenAcknowledged, Method::ToolsListChanged);
    assert_eq!(told[&first], [ack, tools]);
    assert_eq!(told[&second], [ack, tools, Method::ResourcesUpdated]);

    // One is cancelled, the other ends with the server.
    assert_eq!(pair.client(|client, _, out| client.cancel(first, "enough", out)), Some(1));
    pair.run_until(pair.elapsed() + SECOND);
    pair.server(|server, _, out| server.end_listens(out));
    pair.run();
    let ends = ends(&pair);
    assert!(!ends.contains_key(&1));
    let result: Value = serde_json::from_str(&ends[&2][0]).unwrap();
    assert_eq!(result["_meta"]["io.modelcontextprotocol/subscriptionId"], second);
    assert_eq!(ends[&2].len(), 1);
}

#[test]
fn a_server_asks_in_the_legacy_eras_and_may_take_it_back() {
    for revision in Revision::ALL {
        let mut pair = ready(only(revision), echo(MS));
        pair.run(); // `initialized` arrives
        let ask = |pair: &mut Pair, tag| {
            pair.server(|server, now, out| {
                server.ask(now, Method::RootsList, None, SECOND, tag, out)
            })
        };
        let asked = ask(&mut pair, 5);
        if revision.era() == Era::Modern {
            assert_eq!(asked, Err(5));
            continue;
        }
        pair.run_until(pair.elapsed() + MS);
        assert!(matches!(pair.events.last(), Some((_, ClientEvent::Asked(Method::RootsList)))));
        let id = asked.unwrap().to_string();
        pair.client(|_, _, out| out.result(id.as_bytes(), br#"{"roots":[]}"#));
        pair.run();
        let id = ask(&mut pair, 6).unwrap();
        assert_eq!(pair.server(|server, _, out| server.withdraw(id, "late", out)), Some(6));
        ask(&mut pair, 7).unwrap();
        pair.run();
        let answered: Vec<_> = pair
            .server_events
            .iter()
            .filter_map(|(_, event)| match event {
                ServerEvent::Answered(tag, outcome) => Some((*tag, outcome.is_ok())),
                _ => None,
            })
            .collect();
        assert_eq!(answered, [(5, true), (7, false)], "{revision}");
        let withdrawn = |event: &ClientEvent<u32>| matches!(event, ClientEvent::Withdrawn(Id::Integer(taken)) if *taken == id);
        assert!(pair.events.iter().any(|(_, event)| withdrawn(event)));
    }
}

#[test]
fn a_closed_pipe_ends_every_request_once() {
    let script = |message: &Message| {
        let n = argument(message)["n"].as_u64().unwrap();
        vec![(u32::try_from(n).unwrap() * MS, Say::Result("{}".into()))]
    };
    let mut pair = ready(Setup { closes_after: Some(50 * MS), ..Setup::default() }, script);
    for tag in 0..100 {
        let params = format!(r#"{{"n":{tag}}}"#);
        let timeout = (tag % 3 == 0).then_some(20 * MS);
        pair.call(&request(&params, timeout), tag).unwrap();
    }
    pair.run();
    let ends = ends(&pair);
    assert_eq!(ends.len(), 100);
    assert!(ends.values().all(|ends| ends.len() == 1), "{ends:?}");
    for word in ["{}", "timeout", "closed"] {
        assert!(ends.values().any(|ends| ends == &[word]), "{word}: {ends:?}");
    }
    assert!(pair.client(|client, _, _| client.closed()).is_empty());
}

#[test]
fn a_thousand_schedules_keep_the_invariants() {
    let mut ready = 0;
    let mut words: HashSet<String> = HashSet::new();
    for seed in 0..1000 {
        let mut random = Random::new(seed);
        let mut pair = Pair::new(any_setup(seed, &mut random), any_script(seed));
        pair.run_until(150 * MS);
        let Some(peer) = pair.client(|client, _, _| client.peer().cloned()) else { continue };
        ready += 1;
        let (mut ids, mut given_up) = (HashSet::new(), HashSet::new());
        for tag in 0..30 {
            let params = format!(r#"{{"n":{tag}}}"#);
            let timeout = Duration::from_millis(20 + random.below(200));
            let Ok(id) = pair.call(&request(&params, Some(timeout)), tag) else { panic!("{tag}") };
            assert!(ids.insert(id), "id {id} twice, seed {seed}");
            pair.run_until(pair.elapsed() + Duration::from_micros(random.below(15_000)));
            if random.chance(20) {
                let id = 1 + i64::try_from(random.below(id.unsigned_abs())).unwrap();
                let tag = pair.client(|client, _, out| client.cancel(id, "random", out));
                assert!(tag.is_none_or(|tag| given_up.insert(tag)));
            }
        }
        pair.run();
        let ends = ends(&pair);
        for tag in 0..30 {
            let words_of_tag = ends.get(&tag).cloned().unwrap_or_default();
            let ended = words_of_tag.len() + usize::from(given_up.contains(&tag));
            assert_eq!(ended, 1, "request {tag}, seed {seed}, {}: {words_of_tag:?}", peer.revision);
            for word in words_of_tag {
                let own = word == format!(r#"{{"n":{tag}}}"#);
                let known = ["timeout", "closed", "-32603"].contains(&word.as_str());
                assert!(own || known, "request {tag} got {word}, seed {seed}");
                words.insert(if own { "result".into() } else { word });
            }
        }
        if pair.setup.up.streams == 1 {
            nothing_is_sent_after_a_cancellation(&pair);
        }
        let requests = pair.sent.iter().filter(|sent| sent.up).map(scan);
        let ids: Vec<_> = requests.filter(|m| m.kind() == Kind::Request).map(|m| m.id()).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "seed {seed}");
        assert!(pair.client(|client, _, _| client.closed()).is_empty(), "seed {seed}");
    }
    assert!(ready > 500, "{ready} handshakes");
    for word in ["result", "timeout", "closed", "-32603"] {
        assert!(words.contains(word), "{word} never happened");
    }
}

/// Any revisions, any weather.
fn any_setup(seed: u64, random: &mut Random) -> Setup {
    let mut revisions = Revision::ALL.to_vec();
    revisions.retain(|_| random.chance(60));
    revisions.push(Revision::ALL[random.below(5) as usize]);
    let mut conditions = || Conditions {
        delay: Duration::from_micros(random.below(5_000)),
        jitter: Duration::from_micros(random.below(20_000)),
        loss_percent: random.below(12) as u32,
        copy_percent: 0,
        streams: 1 + random.below(3) as u32,
    };
    let (up, mut down) = (conditions(), conditions());
    down.copy_percent = random.below(20) as u32;
    let closes_after = random.chance(30).then(|| Duration::from_millis(200 + random.below(400)));
    Setup { seed, revisions, up, down, closes_after, timeout: 60 * MS, ..Setup::default() }
}

/// Answers soon, late, with an error or never, with progress in between.
fn any_script(seed: u64) -> impl FnMut(&Message) -> Script {
    let mut random = Random::new(!seed);
    move |message| {
        let mut script: Script = (0..random.below(4) as u32)
            .map(|n| (Duration::from_millis(random.below(60)), Say::Progress(n)))
            .collect();
        let after = Duration::from_millis(random.below(120));
        match random.below(10) {
            0 => {}
            1 => script.push((after, Say::Error(Code::INTERNAL_ERROR))),
            _ => script.push((after, Say::Result(argument(message).to_string()))),
        }
        script
    }
}

#[test]
fn an_error_is_an_answer_too() {
    let mut pair = ready(Setup::default(), |_| vec![(MS, Say::Error(Code::INVALID_PARAMS))]);
    pair.call(&request("{}", None), 1).unwrap();
    pair.run();
    let Some((_, ClientEvent::Answered(_, 1, Answer::Error(ErrorObject { code, .. })))) =
        pair.events.last()
    else {
        panic!("{pair:?}")
    };
    assert_eq!(*code, Code::INVALID_PARAMS);
}
