//! Random schedules in virtual time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcplane::Service;
use mcplane::proto::version::{Era, Revision};
use mcplane::transport::Transport;
use mcplane::transport::memory::pair;
use mcplane_gateway::Gateway;
use mcplane_gateway::config::{Config, Mode, Period, Policy, Server, Speaks};
use tokio::time::sleep;

use crate::client::{Expect, Planned, Script, Wire, play};
use crate::plan::{Dice, Ending};
use crate::upstream::Upstreams;
use crate::world::World;

/// Schedules of one test, unless `CROSS_TALK_SCHEDULES` says another number. `CROSS_TALK_SKIP` leaves so
/// many out before them.
const SCHEDULES: u64 = 500;

#[test]
fn legacy_clients_before_legacy_upstreams() {
    run(Era::Legacy, (Era::Legacy, false), 0x1_0000);
}

#[test]
fn modern_clients_before_legacy_upstreams() {
    run(Era::Modern, (Era::Legacy, false), 0x2_0000);
}

#[test]
fn legacy_clients_before_modern_upstreams() {
    run(Era::Legacy, (Era::Modern, false), 0x3_0000);
}

#[test]
fn modern_clients_before_modern_upstreams() {
    run(Era::Modern, (Era::Modern, false), 0x4_0000);
}

#[test]
fn legacy_clients_before_upstreams_of_both_eras() {
    run(Era::Legacy, (Era::Modern, true), 0x5_0000);
}

/// A worker was asked for its lists while it had no connection, and said that it has none: no client
/// found a tool any more.
#[test]
fn a_schedule_that_once_went_wrong() {
    let world = Arc::new(World::default());
    let told = schedule(&world, 101_544, Era::Legacy, (Era::Legacy, false));
    assert!(world.wrongs().is_empty(), "{told}: {:?}", world.wrongs());
}

/// `CROSS_TALK_SEED` plays one schedule alone.
fn run(clients: Era, (upstream, both): (Era, bool), first: u64) {
    let number = |name| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let only = number("CROSS_TALK_SEED");
    let schedules = number("CROSS_TALK_SCHEDULES").unwrap_or(SCHEDULES);
    let first = first + number("CROSS_TALK_SKIP").unwrap_or(0);
    let range = first..first + schedules;
    let seeds = match only {
        Some(seed) if range.contains(&seed) => seed..seed + 1,
        Some(_) => return,
        None => range,
    };
    let mut counts = BTreeMap::<&str, u64>::new();
    let mut wrongs = Vec::new();
    for seed in seeds {
        let world = Arc::new(World::default());
        let told = schedule(&world, seed, clients, (upstream, both));
        world
            .counts()
            .into_iter()
            .for_each(|(what, count)| *counts.entry(what).or_default() += count);
        let found = world.wrongs();
        if !found.is_empty() {
            wrongs.push(format!("seed {seed} ({told}):\n  {}", found.join("\n  ")));
        }
    }
    eprintln!("{clients:?} clients, {upstream:?} upstreams: {counts:?}");
    let shown = wrongs.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrongs.is_empty(), "{} of {schedules} schedules went wrong\n{shown}", wrongs.len());
    if only.is_none() && schedules >= SCHEDULES {
        let all = ["answered", "cancelled", "failed", "left", "questions answered"];
        for what in all.into_iter().chain(["kills", "freezes", "poison", "reloads"]) {
            assert!(counts.get(what).is_some_and(|count| *count > 50), "too few: {what}");
        }
    }
}

/// Plays one schedule; what comes back is how it was set up.
fn schedule(world: &Arc<World>, seed: u64, clients: Era, (upstream, both): (Era, bool)) -> String {
    let mut dice = Dice::new(seed);
    let odd = dice.percent(60);
    let server = server(&mut dice, upstream);
    let kills = if odd { dice.below(4) } else { 0 };
    let freezes = if odd && dice.percent(30) { 1 + dice.below(3) } else { 0 };
    let patient = dice.percent(40);
    let reloads = if dice.percent(25) { 1 + dice.below(2) } else { 0 };
    let told = format!(
        "{} {:?}, {} workers of {} calls, queue {}, retry {}, {kills} kills, {freezes} freezes, \
         {reloads} reloads, patient {patient}, {} ask",
        server.mode.as_str(),
        server.policy,
        server.workers,
        server.calls_limit(),
        server.queue,
        server.retry,
        server.ask_workers
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let upstreams =
            Upstreams { world: Arc::clone(world), era: upstream, both, seed, lag: dice.below(3) };
        let asks = sets_apart(&server, upstream, both);
        // The workers of before a reload end when their calls have.
        let limit = workers_most(&server, clients, (upstream, both)) * (1 + reloads as usize);
        let expect = Expect {
            all: !odd
                && patient
                && server.mode == Mode::PerSession
                && server.calls_limit() == 1
                && is_roomy(&server),
            // What was asked for a call that is cancelled then is asked again after a while, which a
            // worker of before a reload may not have.
            calm: kills == 0 && !odd && is_roomy(&server) && (reloads == 0 || patient),
            instant: freezes == 0,
            // A first question that may be several clients' has their calls sent again.
            retry: server.retry || asks,
            principals: None,
        };
        let gateway = Gateway::start_with(config(server), Arc::new(upstreams)).unwrap();
        gateway.ready().await;
        let killer = tokio::spawn(kill(Arc::clone(world), dice.roll(), kills));
        let freezer = tokio::spawn(freeze(Arc::clone(world), dice.roll(), freezes));
        let reload = reload(world, &gateway, dice.roll(), reloads);
        let all: Vec<_> = (0..2 + dice.below(4))
            .map(|number| {
                let (world, service) = (Arc::clone(world), gateway.service());
                let seed = dice.roll();
                tokio::spawn(async move {
                    client(
                        &world,
                        &service,
                        number,
                        Dice::new(seed),
                        (clients, odd, patient, expect),
                    )
                    .await;
                })
            })
            .collect();
        reload.await;
        for one in all.into_iter().chain([killer, freezer]) {
            one.await.unwrap();
        }
        // Longer than a call may take, or than one stays parked.
        let parks = (clients, upstream) == (Era::Modern, Era::Legacy);
        let patience = Duration::from_secs(if parks { 11 * 60 } else { 50 });
        settle(world, &gateway, limit, patience).await;
    });
    told
}

/// Whether calls that may ask can have workers of their own.
fn sets_apart(server: &Server, upstream: Era, both: bool) -> bool {
    let is_legacy = upstream == Era::Legacy || both;
    let has_some = server.calls_per_worker > 1 && server.ask_workers > 0;
    server.mode == Mode::Shared && has_some && is_legacy
}

/// How many workers there may be at once.
fn workers_most(server: &Server, clients: Era, (upstream, both): (Era, bool)) -> usize {
    let limit = server.workers_limit() as usize;
    let tries = clients == Era::Legacy && upstream == Era::Modern;
    let limit = match server.revision {
        Speaks::Auto if tries && both => 2 * limit,
        // One is started to see whether it takes `initialize`.
        Speaks::Auto if tries => limit + 1,
        _ => limit,
    };
    // One reads the lists for everybody, and speaks for nobody.
    let reads = usize::from(server.mode == Mode::PerSession && upstream == Era::Legacy);
    let alone = if sets_apart(server, upstream, both) { server.ask_workers as usize } else { 0 };
    limit + reads + alone
}

pub(crate) fn config(server: Server) -> Config {
    let mut config = Config::default();
    // Nothing is kept on the disk.
    config.gateway.state_dir = Some("/dev/null/nowhere".into());
    config.gateway.call_timeout = Period::of_s(30);
    config.servers.insert("it", server);
    config
}

fn server(dice: &mut Dice, era: Era) -> Server {
    let modes = [Mode::Shared, Mode::PerSession, Mode::PerPrincipal, Mode::Exclusive];
    let policies = [
        Policy::RecentIdle,
        Policy::LeastBusy,
        Policy::TwoChoices,
        Policy::RoundRobin,
        Policy::Sticky,
    ];
    let exact = match era {
        Era::Modern => Revision::LATEST,
        Era::Legacy => Revision::LATEST_LEGACY,
    };
    let mut server = Server {
        command: Some("none".into()),
        mode: dice.one_of(&modes),
        policy: dice.one_of(&policies),
        workers: u32::try_from(1 + dice.below(4)).unwrap(),
        calls_per_worker: dice.one_of(&[1, 2, 8, 64]),
        ask_workers: dice.one_of(&[0, 1, 4, 16]),
        queue: dice.one_of(&[2, 256, 256, 256]),
        retry: dice.percent(50),
        revision: dice.one_of(&[Speaks::Auto, Speaks::Revision(exact)]),
        ..Server::default()
    };
    if server.mode.is_keyed() {
        server.workers_max = Some(server.workers.max(dice.one_of(&[2, 16])));
    }
    if dice.percent(15) {
        server.tools.concurrency.insert("work".into(), 2);
    }
    server
}

/// Whether nobody can be refused for lack of room.
fn is_roomy(server: &Server) -> bool {
    server.queue == 256 && (server.mode != Mode::PerSession || server.workers_limit() >= 16)
}

async fn kill(world: Arc<World>, seed: u64, kills: u64) {
    let mut dice = Dice::new(seed);
    for _ in 0..kills {
        sleep(Duration::from_millis(dice.below(40))).await;
        world.kill_one(&mut dice);
    }
}

/// Some of them for longer than a call may take.
async fn freeze(world: Arc<World>, seed: u64, freezes: u64) {
    let mut dice = Dice::new(seed);
    for _ in 0..freezes {
        sleep(Duration::from_millis(dice.below(40))).await;
        let longest = dice.one_of(&[20, 2_000, 40_000]);
        let time = Duration::from_millis(dice.below(longest));
        world.freeze_one(&mut dice, time);
    }
}

/// Each time the server in the settings is another one.
async fn reload(world: &World, gateway: &Gateway, seed: u64, reloads: u64) {
    let mut dice = Dice::new(seed);
    for number in 0..reloads {
        sleep(Duration::from_millis(dice.below(40))).await;
        let mut config = gateway.config();
        let mut server = config.servers.get("it").unwrap().clone();
        server.command = Some(format!("none-{number}").as_str().into());
        config.servers.insert("it", server);
        gateway.reload(config).await.unwrap();
        world.count("reloads");
    }
}

async fn client(
    world: &Arc<World>,
    service: &Service,
    number: u64,
    mut dice: Dice,
    (era, odd, patient, expect): (Era, bool, bool, Expect),
) {
    for connection in 0..1 + dice.below(2) {
        let name = format!("client {number}/{connection}");
        let calls = 1 + dice.below(8);
        let calls =
            (0..calls).map(|call| Planned::random(&mut dice, format!("{name}/{call}"), odd));
        let mut calls: Vec<_> = calls.collect();
        if !expect.instant {
            // What a stopped process had to say comes together with what it says later.
            calls.iter_mut().for_each(|call| call.plan.late = None);
        }
        if patient {
            calls.iter_mut().for_each(|call| call.cancel = None);
        }
        let leaves = (dice.percent(25) && !patient).then(|| dice.below(60));
        let never = calls.iter().any(|call| call.plan.ending == Ending::Never);
        let expect = Expect { calm: expect.calm && !never, ..expect };
        let script = Script { era, name, calls, leaves, thinks: dice.below(20), expect };
        play(world, script, wire(service)).await;
    }
}

/// A connection to a service in memory.
pub(crate) fn wire(service: &Service) -> Wire {
    let (ours, theirs) = pair();
    let service = service.clone();
    let serving = tokio::spawn(async move { drop(service.serve(theirs).await) });
    let (reader, writer) = ours.open().unwrap();
    Wire { reader: Box::new(reader), writer: Box::new(writer), cut: Some(serving.abort_handle()) }
}

/// Once everybody has gone nothing is left behind.
async fn settle(world: &Arc<World>, gateway: &Gateway, limit: usize, patience: Duration) {
    sleep(patience).await;
    let status = gateway.status();
    for server in &status.servers {
        if server.queued > 0 {
            world.wrong(format!("{} calls are still in the queue", server.queued));
        }
        for worker in server.workers.iter().filter(|worker| worker.in_flight > 0) {
            world.wrong(format!("{worker:?} is still busy"));
        }
    }
    if world.lives_most() > limit {
        world.wrong(format!("{} workers of {limit} at most ran at once", world.lives_most()));
    }
    gateway.close().await;
    // The pipes are closed; the upstreams see it in their next turn.
    sleep(Duration::from_millis(10)).await;
    if world.lives() > 0 {
        world.wrong(format!("{} workers outlive the gateway", world.lives()));
    }
}
