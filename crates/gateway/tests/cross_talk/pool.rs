//! Which worker gets a call, one property at a time. In virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mcplane::proto::version::Era;
use mcplane_gateway::Gateway;
use mcplane_gateway::admin::ServerState;
use mcplane_gateway::config::{Config, Mode, Period, Policy, Restart, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::plan::{Dice, Ending, Plan, Step};
use crate::upstream::Upstreams;
use crate::virtual_time::{config, wire};
use crate::world::World;

/// What a caller hears when no worker answers.
const UNAVAILABLE: i64 = -31_997;

/// What a caller hears when everything is full.
const OVERLOADED: i64 = -31_999;

pub(crate) struct Bed {
    pub(crate) world: Arc<World>,
    pub(crate) gateway: Gateway,
}

impl Bed {
    pub(crate) async fn of(server: Server) -> Self {
        Self::with(config(Server { command: Some("none".into()), ..server })).await
    }

    async fn with(config: Config) -> Self {
        let world = Arc::new(World::default());
        let upstreams =
            Upstreams { world: Arc::clone(&world), era: Era::Legacy, both: false, seed: 1, lag: 0 };
        let gateway = Gateway::start_with(config, Arc::new(upstreams)).unwrap();
        gateway.ready().await;
        // The other workers follow the first.
        ms(100).await;
        Self { world, gateway }
    }

    pub(crate) fn caller(&self, name: &str) -> Caller {
        let wire = wire(&self.gateway.service());
        let lines = BufReader::new(wire.reader).lines();
        Caller { name: name.into(), sent: 0, lines, writer: wire.writer, cut: wire.cut.unwrap() }
    }

    /// The worker connections that calls went to, in order.
    fn path(&self) -> Vec<u64> {
        self.world.path().into_iter().map(|(life, _)| life).collect()
    }

    /// The callers whose calls were sent, in order.
    fn callers(&self) -> Vec<String> {
        let path = self.world.path().into_iter();
        path.map(|(_, tag)| tag.split('/').next().unwrap().to_owned()).collect()
    }

    fn in_flight(&self) -> Vec<usize> {
        let status = self.gateway.status();
        status.servers[0].workers.iter().map(|worker| worker.in_flight).collect()
    }

    fn state(&self) -> ServerState {
        self.gateway.status().servers[0].state
    }
}

/// A client of 2026-07-28 on a connection that lasts.
pub(crate) struct Caller {
    name: String,
    sent: usize,
    lines: Lines<BufReader<Box<dyn AsyncRead + Send + Unpin>>>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    cut: AbortHandle,
}

impl Caller {
    pub(crate) async fn send(&mut self, tool: &str, wait_ms: u64, ending: Ending) -> String {
        self.sent += 1;
        let tag = format!("{}/0/{}", self.name, self.sent);
        let steps = vec![Step::Wait(wait_ms)];
        let plan = Plan { tag: tag.clone(), steps, ending, is_stubborn: false, late: None };
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": plan.to_json(), "_meta": meta});
        let line =
            json!({"jsonrpc": "2.0", "id": self.sent, "method": "tools/call", "params": params});
        let line = format!("{line}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
        tag
    }

    /// The next answer: the id and the code of its error, 0 for none.
    async fn answer(&mut self) -> (usize, i64) {
        let line: Value = loop {
            let line = self.lines.next_line().await.unwrap().unwrap();
            let line: Value = serde_json::from_str(&line).unwrap();
            if line.get("id").is_some() {
                break line;
            }
        };
        let id = usize::try_from(line["id"].as_u64().unwrap()).unwrap();
        (id, line["error"]["code"].as_i64().unwrap_or(0))
    }

    pub(crate) async fn call(&mut self, wait_ms: u64) -> i64 {
        self.send("work", wait_ms, Ending::Answer).await;
        self.answer().await.1
    }
}

pub(crate) async fn ms(ms: u64) {
    sleep(Duration::from_millis(ms)).await;
}

fn workers(policy: Policy, workers: u32) -> Server {
    Server { policy, workers, ..Server::default() }
}

#[tokio::test(start_paused = true)]
async fn recent_idle_prefers_the_worker_that_was_used_last() {
    let bed = Bed::of(workers(Policy::RecentIdle, 3)).await;
    let mut caller = bed.caller("a");
    for _ in 0..5 {
        assert_eq!(caller.call(1).await, 0);
    }
    assert_eq!(bed.path().into_iter().collect::<BTreeSet<_>>().len(), 1);
    // Three at once: each has a worker of its own, and the last one used is the warmest.
    for _ in 0..3 {
        caller.send("work", 5, Ending::Answer).await;
    }
    ms(10).await;
    let path = bed.path();
    assert_eq!(path[5..].iter().collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(caller.call(1).await, 0);
    ms(10).await;
    assert_eq!(bed.path()[8], path[7]);
}

#[tokio::test(start_paused = true)]
async fn round_robin_rotates() {
    let bed = Bed::of(workers(Policy::RoundRobin, 3)).await;
    let mut caller = bed.caller("a");
    for _ in 0..9 {
        assert_eq!(caller.call(1).await, 0);
    }
    let path = bed.path();
    assert_eq!(path[..3].iter().collect::<BTreeSet<_>>().len(), 3, "{path:?}");
    assert!(path.windows(4).all(|four| four[0] == four[3]), "{path:?}");
}

#[tokio::test(start_paused = true)]
async fn least_busy_balances_exactly_and_two_choices_nearly() {
    for (policy, slack) in [(Policy::LeastBusy, 0), (Policy::TwoChoices, 7)] {
        let bed = Bed::of(workers(policy, 4)).await;
        let mut caller = bed.caller("a");
        for _ in 0..64 {
            caller.send("work", 50, Ending::Answer).await;
        }
        ms(10).await;
        let loads = bed.in_flight();
        assert_eq!(loads.iter().sum::<usize>(), 64);
        assert!(loads.iter().all(|load| load.abs_diff(16) <= slack), "{policy:?}: {loads:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sticky_keeps_a_session_on_its_worker() {
    let bed = Bed::of(workers(Policy::Sticky, 4)).await;
    let mut callers: Vec<_> = (0..12).map(|number| bed.caller(&number.to_string())).collect();
    for _ in 0..4 {
        for caller in &mut callers {
            assert_eq!(caller.call(1).await, 0);
        }
    }
    let mut of = BTreeMap::<String, BTreeSet<u64>>::new();
    for (life, tag) in bed.world.path() {
        of.entry(tag.split('/').next().unwrap().into()).or_default().insert(life);
    }
    assert!(of.values().all(|lives| lives.len() == 1), "{of:?}");
    assert!(of.values().flatten().collect::<BTreeSet<_>>().len() > 1, "{of:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_floods_does_not_starve_another() {
    let bed = Bed::of(Server { mode: Mode::Exclusive, ..Server::default() }).await;
    let (mut flood, mut other) = (bed.caller("flood"), bed.caller("other"));
    for _ in 0..100 {
        flood.send("work", 10, Ending::Answer).await;
    }
    ms(5).await;
    for _ in 0..3 {
        other.send("work", 10, Ending::Answer).await;
    }
    ms(100).await;
    let served = bed.callers();
    let places: Vec<_> = (0..served.len()).filter(|place| served[*place] == "other").collect();
    assert_eq!(places, [2, 4, 6], "{served:?}");
}

#[tokio::test(start_paused = true)]
async fn one_call_more_than_the_queue_holds_is_refused_at_once() {
    let server = Server { mode: Mode::Exclusive, queue: 2, ..Server::default() };
    let bed = Bed::of(server).await;
    let mut caller = bed.caller("a");
    let began = Instant::now();
    for _ in 0..4 {
        caller.send("work", 1000, Ending::Answer).await;
    }
    assert_eq!(caller.answer().await, (4, OVERLOADED));
    assert_eq!(began.elapsed(), Duration::ZERO);
    for id in 1..=3 {
        assert_eq!(caller.answer().await, (id, 0));
    }
    assert_eq!(bed.gateway.status().servers[0].refused, 1);
}

#[tokio::test(start_paused = true)]
async fn a_tool_has_no_more_calls_than_it_may() {
    let mut server = workers(Policy::LeastBusy, 2);
    server.tools.concurrency.insert("work".into(), 2);
    let bed = Bed::of(server).await;
    let mut caller = bed.caller("a");
    for _ in 0..10 {
        caller.send("work", 100, Ending::Answer).await;
    }
    caller.send("read", 100, Ending::Answer).await;
    for turn in 0..5 {
        ms(50).await;
        let expected = if turn == 0 { 3 } else { 2 };
        assert_eq!(bed.in_flight().iter().sum::<usize>(), expected, "turn {turn}");
        ms(50).await;
    }
    for _ in 0..11 {
        assert_eq!(caller.answer().await.1, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_sent_again_keeps_its_turn() {
    let mut server = workers(Policy::LeastBusy, 2);
    server.tools.concurrency.insert("read".into(), 1);
    server.retry = true;
    let bed = Bed::of(server).await;
    let mut caller = bed.caller("a");
    for _ in 0..3 {
        caller.send("read", 2_000, Ending::Answer).await;
    }
    ms(1_000).await;
    bed.world.kill(bed.path()[0]);
    ms(10).await;
    for _ in 0..5 {
        assert_eq!(bed.in_flight().iter().sum::<usize>(), 1);
        ms(1_000).await;
    }
    for _ in 0..3 {
        assert_eq!(caller.answer().await.1, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_its_turn_for_ever() {
    let mut server = workers(Policy::LeastBusy, 1);
    server.tools.concurrency.insert("work".into(), 1);
    server.queue = 1;
    let mut config = config(Server { command: Some("none".into()), ..server });
    config.gateway.call_timeout = Period::of_s(300);
    let bed = Bed::with(config).await;
    let (mut first, mut gone, mut other) = (bed.caller("a"), bed.caller("b"), bed.caller("c"));
    first.send("work", 0, Ending::Never).await;
    ms(10).await;
    gone.send("work", 0, Ending::Answer).await;
    ms(10).await;
    gone.cut.abort();
    ms(1_000).await;
    // What is cancelled leaves its place to others, and those wait for so long only.
    other.send("work", 0, Ending::Answer).await;
    let began = Instant::now();
    assert_eq!(other.answer().await.1, UNAVAILABLE);
    assert!((59..63).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

/// The first worker goes ahead, unless it is let go before it is ready.
#[tokio::test(start_paused = true)]
async fn the_next_worker_goes_ahead_when_the_first_was_let_go() {
    let server = Server { mode: Mode::PerSession, workers_max: Some(4), ..Server::default() };
    let mut config = config(Server { command: Some("none".into()), ..server });
    let folder = std::env::temp_dir().join(format!("mcplane-first-{}", std::process::id()));
    config.gateway.state_dir = Some(folder.clone());
    // Its lists are known from last time: a client may call before a worker is ready.
    let before = Bed::with(config.clone()).await;
    while std::fs::read_dir(folder.join("lists")).map_or(0, Iterator::count) == 0 {
        ms(10).await;
    }
    before.gateway.close().await;
    let world = Arc::new(World::default());
    world.hold_next();
    let upstreams =
        Upstreams { world: Arc::clone(&world), era: Era::Legacy, both: false, seed: 1, lag: 0 };
    let gateway = Gateway::start_with(config, Arc::new(upstreams)).unwrap();
    let bed = Bed { world, gateway };
    ms(50).await;
    let mut first = bed.caller("first");
    first.send("work", 1, Ending::Answer).await;
    ms(50).await;
    first.cut.abort();
    ms(50).await;
    assert_eq!(bed.caller("second").call(1).await, 0);
    bed.gateway.close().await;
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_a_call_that_changes_nothing_is_sent_again_and_only_if_wanted() {
    for (retry, tool, times) in [(true, "read", 2), (true, "work", 1), (false, "read", 1)] {
        let bed = Bed::of(Server { retry, ..Server::default() }).await;
        let mut caller = bed.caller("a");
        let tag = caller.send(tool, 100, Ending::Answer).await;
        ms(50).await;
        bed.world.kill_one(&mut Dice::new(0));
        let (_, code) = caller.answer().await;
        assert_eq!(code == 0, times == 2, "{retry} {tool}: {code}");
        assert_eq!(bed.world.trace(&tag).began.len(), times, "{retry} {tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_comes_back_at_once_then_later_then_after_the_window() {
    let restart = Restart {
        first: Period::of_ms(200),
        longest: Period::of_s(30),
        budget: 3,
        window: Period::of_s(600),
    };
    let bed = Bed::of(Server { restart, ..Server::default() }).await;
    // It has lived for a while.
    ms(2000).await;
    let mut waits = Vec::new();
    for _ in 0..4 {
        let (before, began) = (bed.world.opened(), Instant::now());
        bed.world.kill_one(&mut Dice::new(0));
        while bed.world.opened() == before {
            ms(if began.elapsed() < Duration::from_secs(2) { 5 } else { 1000 }).await;
        }
        waits.push(began.elapsed().as_millis());
        ms(2000).await;
    }
    assert!(waits[0] < 20, "{waits:?}");
    assert!((390..420).contains(&waits[1]), "{waits:?}");
    assert!((790..820).contains(&waits[2]), "{waits:?}");
    assert!(waits[3] > 500_000, "the budget is spent: {waits:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_budget_nothing_is_started_again() {
    let restart = Restart { budget: 0, ..Restart::default() };
    let bed = Bed::of(Server { restart, ..Server::default() }).await;
    ms(2000).await;
    bed.world.kill_one(&mut Dice::new(0));
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bed.world.opened(), 1);
    assert_eq!(bed.state(), ServerState::Down);
    assert_ne!(bed.caller("a").call(1).await, 0);
    bed.gateway.close().await;
}

#[tokio::test(start_paused = true)]
async fn three_timeouts_quarantine_and_a_probe_brings_back() {
    let mut config = config(Server { command: Some("none".into()), ..Server::default() });
    config.gateway.call_timeout = Period::of_s(1);
    let bed = Bed::with(config).await;
    let mut caller = bed.caller("a");
    let states = [ServerState::Degraded, ServerState::Degraded, ServerState::Quarantined];
    for state in states {
        caller.send("work", 0, Ending::Never).await;
        assert_ne!(caller.answer().await.1, 0);
        assert_eq!(bed.state(), state);
    }
    let began = Instant::now();
    // Nobody waits for longer than for an answer.
    assert_eq!(caller.call(1).await, UNAVAILABLE);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    ms(16_000).await;
    assert_eq!(caller.call(1).await, 0);
    assert_eq!(bed.state(), ServerState::Healthy);
    assert_eq!(bed.world.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn idle_stop_ends_idle_workers_and_no_busy_one() {
    let server = Server {
        mode: Mode::PerSession,
        idle_stop: Period::of_s(2),
        workers_max: Some(4),
        ..Server::default()
    };
    let bed = Bed::of(server).await;
    let (mut busy, mut idle) = (bed.caller("busy"), bed.caller("idle"));
    assert_eq!(idle.call(1).await, 0);
    busy.send("work", 20_000, Ending::Answer).await;
    ms(100).await;
    assert_eq!(bed.world.lives(), 4, "two sessions, a spare, and one for the lists");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(bed.world.lives(), 3, "the busy one");
    assert_eq!(busy.answer().await.1, 0);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(bed.world.lives(), 2);
    // Its session goes on with another one.
    assert_eq!(idle.call(1).await, 0);
}

#[tokio::test(start_paused = true)]
async fn sessions_take_spare_workers_and_leave_no_more_than_may_be() {
    let server =
        Server { mode: Mode::PerSession, workers: 2, workers_max: Some(4), ..Server::default() };
    let bed = Bed::of(server).await;
    assert_eq!(bed.world.lives(), 3, "one is for the lists");
    let began = Instant::now();
    let mut first = bed.caller("first");
    assert_eq!(first.call(0).await, 0);
    assert_eq!(began.elapsed(), Duration::ZERO, "the worker was warm");
    ms(100).await;
    assert_eq!(bed.world.lives(), 4, "another spare has taken its place");
    // A storm: sessions come, work and vanish, some in the middle of a call.
    let mut refused = 0;
    for round in 0..20 {
        let mut storm: Vec<_> =
            (0..6).map(|number| bed.caller(&format!("{round}-{number}"))).collect();
        for caller in &mut storm {
            caller.send("work", 30, Ending::Answer).await;
        }
        for caller in storm.iter_mut().skip(3) {
            refused += usize::from(caller.answer().await.1 == OVERLOADED);
        }
        storm.iter().for_each(|caller| caller.cut.abort());
        ms(20).await;
    }
    assert!(refused > 20, "{refused}");
    assert!(bed.world.lives_most() <= 5, "{}", bed.world.lives_most());
    sleep(Duration::from_secs(10)).await;
    assert_eq!(first.call(0).await, 0);
    assert!((3..=4).contains(&bed.world.lives()), "the first session, and spare workers");
    assert_eq!(bed.in_flight().iter().sum::<usize>(), 0);
}

#[tokio::test(start_paused = true)]
async fn closing_lets_calls_in_flight_finish_and_nothing_else() {
    let bed = Bed::of(Server { mode: Mode::Exclusive, ..Server::default() }).await;
    let mut caller = bed.caller("a");
    caller.send("work", 3000, Ending::Answer).await;
    caller.send("work", 10, Ending::Answer).await;
    ms(10).await;
    let gateway = bed.gateway.clone();
    let closing = tokio::spawn(async move { gateway.close().await });
    ms(10).await;
    caller.send("work", 10, Ending::Answer).await;
    let began = Instant::now();
    let (queued, late) = (caller.answer().await, caller.answer().await);
    assert!(queued.0 == 2 && queued.1 != 0, "{queued:?}");
    assert!(late.0 == 3 && late.1 != 0, "{late:?}");
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(caller.answer().await, (1, 0));
    closing.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    ms(10).await;
    assert_eq!(bed.world.lives(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_ends_does_not_hold_up_the_end() {
    let bed = Bed::of(Server::default()).await;
    let mut caller = bed.caller("a");
    caller.send("work", 0, Ending::Never).await;
    ms(10).await;
    let began = Instant::now();
    bed.gateway.close().await;
    assert!(began.elapsed() <= Duration::from_secs(10), "{:?}", began.elapsed());
    assert_ne!(caller.answer().await.1, 0);
}
