//! 64 clients of both eras over HTTP, in real time.

use std::sync::Arc;
use std::time::Duration;

use mcplane::proto::version::Era;
use mcplane::transport::Transport;
use mcplane::transport::http::client::Http;
use mcplane_gateway::Gateway;
use mcplane_gateway::config::{Mode, Period, Restart, Secret, Server};
use mcplane_gateway::listen::Listeners;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::client::{Expect, Planned, Script, Wire, play};
use crate::plan::{Dice, Ending};
use crate::upstream::Upstreams;
use crate::virtual_time::config;
use crate::world::World;

const CLIENTS: u64 = 64;
const CALLS: u64 = 8;
const PRINCIPALS: u64 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_shares_four_workers() {
    let server = Server { workers: 4, ..Server::default() };
    run(server, Era::Legacy, 3, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_shares_one_modern_worker() {
    // All calls find room while the one worker is started again.
    let server = Server { queue: 1_024, ..Server::default() };
    run(server, Era::Modern, 1, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_call_at_a_time() {
    let server = Server { mode: Mode::Exclusive, workers: 8, retry: true, ..Server::default() };
    run(server, Era::Legacy, 3, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_for_each_principal() {
    run(Server { mode: Mode::PerPrincipal, ..Server::default() }, Era::Legacy, 3, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_for_each_session() {
    let server = Server { mode: Mode::PerSession, workers_max: Some(80), ..Server::default() };
    run(server, Era::Legacy, 2, 5).await;
}

async fn run(server: Server, upstream: Era, kills: u64, seed: u64) {
    let world = Arc::new(World::default());
    let upstreams =
        Upstreams { world: Arc::clone(&world), era: upstream, both: false, seed, lag: 2 };
    // Calls that could each have asked are made again elsewhere, where that changes nothing.
    let asks = upstream == Era::Legacy && server.mode == Mode::Shared;
    let retry = server.retry || asks;
    // Calls while no worker runs are refused at once: with longer waits most would be.
    let restart =
        Restart { first: Period::of_ms(2), longest: Period::of_ms(20), ..Restart::default() };
    let mut config = config(Server { command: Some("none".into()), restart, ..server });
    config.gateway.listen = vec!["127.0.0.1:0".parse().unwrap()];
    config.gateway.accept_rate = 0;
    config.gateway.drain = Period::of_ms(200);
    let tokens = (0..PRINCIPALS)
        .map(|number| (format!("p{number}"), Secret::new(format!("token {number}"))));
    config.gateway.tokens = tokens.collect();
    let gateway = Gateway::start_with(config.clone(), Arc::new(upstreams)).unwrap();
    gateway.ready().await;
    let listeners = Listeners::open(&config).await.unwrap();
    let url = listeners.url().unwrap().to_owned();
    let (shut, ended) = oneshot::channel::<()>();
    let serving = {
        let gateway = gateway.clone();
        tokio::spawn(async move { listeners.serve(&gateway, async { drop(ended.await) }).await })
    };
    let mut dice = Dice::new(seed);
    let expect = Expect { retry, principals: Some(PRINCIPALS), ..Expect::default() };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (world, url, dice) = (Arc::clone(&world), url.clone(), Dice::new(dice.roll()));
            tokio::spawn(async move { client(&world, &url, number, dice, expect).await })
        })
        .collect();
    for _ in 0..kills {
        sleep(Duration::from_millis(dice.below(60))).await;
        world.kill_one(&mut dice);
    }
    for client in clients {
        client.await.unwrap();
    }
    // Calls of clients that left with a question, and may come back.
    let parked = ["walked away", "left"].map(|what| world.counts().get(what).copied().unwrap_or(0));
    let parked = parked[0] + parked[1] * CALLS;
    settle(&world, &gateway, parked).await;
    drop(shut);
    serving.await.unwrap();
    gateway.close().await;
    eprintln!("{upstream:?} upstream, seed {seed}: {:?}", world.counts());
    let wrongs = world.wrongs();
    assert!(
        wrongs.is_empty(),
        "{} went wrong\n{}",
        wrongs.len(),
        wrongs[..wrongs.len().min(9)].join("\n")
    );
    // Not one that proves nothing: of 512 planned calls most fail as planned, or with a worker.
    assert!(world.counts()["answered"] > CLIENTS / 2, "{:?}", world.counts());
}

async fn client(world: &Arc<World>, url: &str, number: u64, mut dice: Dice, expect: Expect) {
    let era = if number.is_multiple_of(2) { Era::Legacy } else { Era::Modern };
    let name = format!("client {number}/0");
    let calls = (0..CALLS).map(|call| {
        let mut planned = Planned::random(&mut dice, format!("{name}/{call}"), true);
        // How long after an answer something is said is up to the machine here: `virtual_time` has it.
        planned.plan.late = None;
        if planned.plan.ending == Ending::Never {
            planned.plan.ending = Ending::Answer;
        }
        planned.walks_away = false;
        planned
    });
    let calls = calls.collect();
    let leaves = dice.percent(10).then(|| dice.below(200));
    let token = format!("Bearer token {}", number % PRINCIPALS);
    let (reader, writer) = Http::new(url).unwrap().header("authorization", &token).open().unwrap();
    let wire = Wire { reader: Box::new(reader), writer: Box::new(writer), cut: None };
    let script = Script { era, name, calls, leaves, thinks: dice.below(20), expect };
    play(world, script, wire).await;
}

/// Nothing is left but what waits for clients that may still come back.
async fn settle(world: &World, gateway: &Gateway, parked: u64) {
    let deadline = Instant::now() + Duration::from_secs(12);
    loop {
        let status = gateway.status();
        let server = &status.servers[0];
        let busy: usize = server.workers.iter().map(|worker| worker.in_flight).sum();
        if server.queued == 0 && busy as u64 <= parked {
            return;
        }
        if Instant::now() > deadline {
            return world.wrong(format!("{busy} calls still run: {:?}", server.workers));
        }
        sleep(Duration::from_millis(20)).await;
    }
}
