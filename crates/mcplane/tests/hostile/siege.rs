//! One attack at a time: what the process held before it, and what it holds after.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mcplane::Service;
use mcplane::transport::http::server::{Builder, ConnectionLimits};
use mcplane::transport::listen::Limits;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::wire::{LATEST_LEGACY, Request, Wire, wait};
use crate::world::{World, limits, until};

/// Descriptors and memory belong to the whole process.
static TURN: Mutex<()> = Mutex::new(());

/// How much more memory the process may hold after an attack than before it, in bytes.
const GROWN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Attacks until the process must have stopped growing.
const ROUNDS_MAX: usize = 4;

/// What an attack is made on.
pub struct Target {
    pub configure: fn(Builder) -> Builder,
    pub limits: Limits,
    pub connection: ConnectionLimits,
    /// Whether the attack may take so much that there is no room for others.
    pub fills: bool,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            configure: |builder| builder,
            limits: limits(),
            connection: ConnectionLimits::default(),
            fills: false,
        }
    }
}

/// Makes the attack more than once beside a well-behaved client: the first time warms everything
/// up, a later one must leave nothing behind.
pub fn siege<F: AsyncFn(&mut World)>(target: Target, attack: F) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::within(target.configure, target.limits, target.connection).await;
        let neighbour = match target.fills {
            true => None,
            false => Some(Neighbour::start(&world).await),
        };
        let fresh = Held::now(&world);
        attack(&mut world).await;
        fresh.comes_back(&world).await;
        // What an allocator keeps is kept once; what leaks grows with every round.
        let mut before = resident_bytes();
        let mut grown = usize::MAX;
        for _ in 0..ROUNDS_MAX {
            attack(&mut world).await;
            fresh.comes_back(&world).await;
            let now = resident_bytes();
            grown = now.saturating_sub(before);
            before = now;
            if grown <= GROWN_BYTES_MAX {
                break;
            }
        }
        assert!(grown <= GROWN_BYTES_MAX, "every round leaves {grown} bytes behind");
        if let Some(neighbour) = neighbour {
            neighbour.stop().await;
        }
        world.stop().await;
    });
}

/// What attacks must not leave behind.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    descriptors: usize,
    tasks: usize,
    sessions: usize,
}

impl Held {
    fn now(world: &World) -> Self {
        Self {
            descriptors: descriptors(),
            tasks: Handle::current().metrics().num_alive_tasks(),
            sessions: world.endpoint.sessions(),
        }
    }

    async fn comes_back(self, world: &World) {
        let is_back = || {
            let now = Self::now(world);
            now.descriptors <= self.descriptors
                && now.tasks <= self.tasks
                && now.sessions <= self.sessions
        };
        let back = tokio::time::timeout(Duration::from_secs(10), until(is_back)).await;
        assert!(back.is_ok(), "before {self:?}, after {:?}", Self::now(world));
    }
}

pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Resident memory of this process.
pub fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

/// A client that does nothing wrong: calls of both eras on connections that it keeps, and a
/// subscription.
pub struct Neighbour {
    ends: Arc<AtomicBool>,
    task: JoinHandle<u32>,
}

impl Neighbour {
    pub async fn start(world: &World) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let modern = world.wire().await;
        let legacy = world.wire().await;
        let session = world.session(LATEST_LEGACY).await;
        let listens = Arc::clone(&ends);
        let work = live(modern, legacy, session, listening(world).await, world.service.clone());
        // A connection counts as new until its client speaks: both have before the attack begins.
        let mut work = round(work, 0).await;
        let task = tokio::spawn(async move {
            let mut rounds = 1;
            while !listens.load(Ordering::Relaxed) {
                work = round(work, rounds).await;
                rounds += 1;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            rounds
        });
        Self { ends, task }
    }

    pub async fn stop(self) {
        self.ends.store(true, Ordering::Relaxed);
        let rounds = wait(self.task).await.expect("the well-behaved client saw an error");
        assert!(rounds > 1);
    }
}

struct Life {
    modern: Wire,
    legacy: Wire,
    session: String,
    events: crate::wire::Events,
    service: Service,
}

const fn live(
    modern: Wire,
    legacy: Wire,
    session: String,
    events: crate::wire::Events,
    service: Service,
) -> Life {
    Life { modern, legacy, session, events, service }
}

async fn listening(world: &World) -> crate::wire::Events {
    let filter = json!({"notifications": {"resourceSubscriptions": ["mem:neighbour"]}});
    let mut events = world.stream(&Request::modern("n", "subscriptions/listen", filter)).await;
    events.json().await;
    events
}

async fn round(mut life: Life, n: u32) -> Life {
    let said = json!({"text": format!("hello {n}"), "ms": 1});
    let tool = if n.is_multiple_of(4) { "later" } else { "echo" };
    let answer = life.modern.send(&Request::call(n, tool, said.clone())).await;
    assert_eq!((answer.status(), answer.answer()["id"].clone()), (200, json!(n)));
    assert_eq!(answer.text(), said["text"]);
    let answer =
        life.legacy.send(&Request::legacy_call(&life.session, n, tool, said.clone())).await;
    assert_eq!((answer.status(), answer.text()), (200, said["text"].as_str().unwrap().into()));
    life.service.resource_updated("mem:neighbour");
    let event: Value = life.events.json().await;
    assert_eq!(event["params"]["uri"], "mem:neighbour");
    life
}
