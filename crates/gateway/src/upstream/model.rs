//! What the core of an upstream is made of: pools, their lanes and workers, and what a call has of
//! them. They know of each other, so they are here together; what they do is in the files that are
//! named after it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::RandomState;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use mcplane::proto::error::ErrorObject;
use mcplane::proto::id::Id;
use mcplane::proto::message::Message;
use mcplane::proto::method::Method;
use mcplane::proto::session::Peer;
use mcplane::proto::types::LogLevel;
use mcplane::server::relay::{Caller, Seal};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::asker::Asker;
use super::blame::Blame;
use super::call::{Call, Sent};
use super::cause::Notice;
use super::client::{Client, Greeting};
use super::clients::Clients;
use super::drain::Drain;
use super::keys::{Key, Keys};
use super::learned::Learned;
use super::places::Places;
use super::queue::Queue;
use super::restart::Restarts;
use super::start::Connect;
use super::status::StatusWatch;
use super::turns::Turns;
use crate::config::Server;
use crate::era::asked::Questions;
use crate::settle::Tally;

/// The workers of one upstream that are spoken to in one era.
pub(crate) struct Pool {
    pub(crate) settings: Server,
    pub(crate) shared: Shared,
    pub(super) side: Side,
    /// The pool for legacy clients, where this one is of the other era.
    pub(super) legacy: Other,
    /// The pool for calls that may ask.
    pub(super) alone: Other,
    /// One for each worker that there may be: a worker has one until its process is gone.
    pub(crate) places: Arc<Semaphore>,
    /// The lane of `shared` and `exclusive`; of the keyed modes, the spare workers.
    pub(super) common: Arc<Lane>,
    pub(super) keyed: Mutex<Keys<Key, Arc<Lane>>>,
    /// A call was given up while it waited: it takes no place in its queue.
    pub(super) given_up: AtomicBool,
    /// There is a place for a worker that speaks for the gateway, beside those for sessions.
    pub(super) has_speaker: AtomicBool,
    pub(super) hasher: RandomState,
    /// Counts what is handed out: the order of all uses.
    pub(super) clock: AtomicU64,
    /// The upstream has asked something that named no call.
    pub(crate) asks: AtomicBool,
    pub(super) learned: Learned,
    /// Its workers answer when they are asked whether they do.
    pub(super) answers_probes: AtomicBool,
    pub(crate) status: StatusWatch,
    /// Whether it closes, for the tasks of its workers.
    pub(super) closing: watch::Sender<bool>,
    /// Why calls are refused, once it closes.
    pub(super) closed: OnceLock<&'static str>,
    /// Held by every task of the pool: when the last is gone, so are its processes.
    pub(super) alive: Mutex<Option<mpsc::Sender<()>>>,
    pub(super) gone: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

/// Which of an upstream's pools this is.
pub(super) enum Side {
    /// The one that every upstream has, of the era that it prefers. All calls come to it first.
    Own,
    /// The one for legacy clients, beside this one.
    Legacy(Weak<Pool>),
    /// The one for calls that may ask, beside this one.
    Alone(Weak<Pool>, Clients),
}

/// A pool that is there while it is needed, as the one beside it has it.
#[derive(Default)]
pub(super) struct Other {
    pub(super) pool: ArcSwapOption<Pool>,
    /// Until when there is to be none. Held to make the pool and to let it go.
    pub(super) none_until: Mutex<Option<Instant>>,
}

/// What the pools of one upstream have in common.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    /// They change while it runs.
    pub(crate) times: Arc<ArcSwap<Times>>,
    /// How many processes the gateway starts at the same time.
    pub(crate) starts: Arc<Semaphore>,
    pub(crate) connect: Arc<dyn Connect>,
    /// What binds the states of a modern upstream to their clients.
    pub(crate) seal: Seal,
    pub(crate) tools: Arc<Tools>,
    pub(super) numbers: Arc<AtomicUsize>,
    pub(super) heard: mpsc::Sender<WorkerEvent>,
    pub(crate) questions: Arc<Questions>,
    pub(super) blame: Arc<Blame>,
    pub(super) asker: Arc<Asker>,
    /// A client has set a log level.
    pub(super) has_levels: Arc<AtomicBool>,
    /// Log messages and questions that could not be told whose they are.
    pub(crate) unowned: Arc<AtomicU64>,
    /// Calls that were refused because everything was full.
    pub(crate) refused: Arc<AtomicU64>,
    /// How its calls ended.
    pub(crate) tally: Arc<Tally>,
    pub(super) drain: Arc<Drain>,
    /// The upstream that has its name since its settings have changed: calls that are late go there.
    pub(super) successor: Arc<OnceLock<Arc<Pool>>>,
}

/// How long the gateway's settings let things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// A call, without an answer.
    pub(super) call: Option<Duration>,
    /// A question, where others wait for its place.
    pub(crate) question: Duration,
    /// One list.
    pub(crate) list: Duration,
    /// How old lists may get that come without a time of their own.
    pub(crate) list_age: Option<Duration>,
}

/// Workers with one queue.
pub(crate) struct Lane {
    pub(super) pool: Weak<Pool>,
    pub(super) drain: Arc<Drain>,
    pub(crate) workers: ArcSwap<Vec<Arc<Worker>>>,
    /// Whose workers they are, in the keyed modes; spare ones are nobody's.
    pub(super) key: Option<Key>,
    /// Whom its workers speak for.
    pub(super) client: Option<Arc<Client>>,
    /// The calls that wait, and since when.
    pub(crate) queued: Queue<Caller, (Instant, Arc<Call>)>,
}

/// The lane that a worker works for; a spare has none yet.
pub(crate) type LaneOf = OnceLock<Arc<Lane>>;

/// A worker, as those see it who use it.
pub(crate) struct Worker {
    pub(super) upstream: Arc<str>,
    pub(crate) number: usize,
    pub(super) inbox: mpsc::UnboundedSender<Command>,
    pub(crate) in_flight: Places,
    /// When it was last used, as a place in the order of all uses of its pool.
    pub(crate) used: AtomicU64,
    /// As `status` has it, for those who must be fast.
    pub(super) state: AtomicU8,
    pub(super) status: StatusWatch,
    pub(crate) timeouts: AtomicU32,
    pub(crate) pid: AtomicU32,
    pub(crate) restarts: AtomicU32,
    /// When it was started again, within the window of the budget.
    pub(super) starts: Mutex<Restarts>,
    /// Answers that came after their call had ended, or to no call at all.
    pub(crate) late: AtomicU64,
    /// Lines on its stdout that were not messages.
    pub(crate) strays: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) peer: ArcSwapOption<Peer>,
    /// A modern upstream has agreed to tell of changes, and still does.
    pub(crate) is_told: AtomicBool,
    pub(crate) lane: LaneOf,
    pub(crate) greeting: Greeting,
    /// 1 while a probe is under way.
    pub(crate) probing: AtomicU8,
    /// When it was probed, or made.
    pub(super) probed: Mutex<Instant>,
    pub(super) life: AtomicU32,
    /// What it was told that its clients want to hear of.
    pub(super) told: Mutex<Told>,
}

/// What a worker was told on its connection.
#[derive(Default)]
pub(crate) struct Told {
    /// The number of the connection.
    pub(super) life: u32,
    pub(super) uris: BTreeSet<String>,
    pub(super) level: Option<LogLevel>,
}

/// What is wanted of a worker's connection.
pub(crate) enum Command {
    /// A call is to be sent, and has this place for it.
    Call(Arc<Call>, Place),
    /// Nobody waits any more for the call that holds this.
    Cancel(Box<Sent>),
    /// A request of the gateway itself: method, parameters, patience, who waits.
    Ask(Method, Vec<u8>, Duration, Waiting),
    /// A question of the upstream that was put to this caller and not answered, on the connection
    /// on which it was asked.
    Asked(u32, Caller, Method, Box<Message>),
    /// The answer to a question of the upstream, on the connection on which it was asked.
    Reply(u32, Id, Result<Bytes, ErrorObject>),
    /// The parameters of the one `subscriptions/listen` of a modern upstream.
    Listen(Vec<u8>),
    /// A whole notification of its client's, on the connection that it is for.
    Note(u32, Vec<u8>),
    /// Take no more calls, and end when idle or when the time has come.
    Leave(Instant),
}

pub(crate) type Waiting = oneshot::Sender<Result<Bytes, ErrorObject>>;

/// What the upstream's task must know of.
pub(crate) enum WorkerEvent {
    Ready(Arc<Worker>),
    /// A spare worker has got a client.
    Taken(Arc<Worker>),
    ListsChanged(Arc<Worker>, Method),
    /// A client asks for lists that are too old.
    Stale,
    /// A modern upstream tells this worker of changes.
    Listening(Arc<Worker>),
    /// It does not any more, or would not. Whether it never will.
    ListenEnded(Arc<Worker>, bool),
    /// It was learned which calls ask.
    Asks,
    /// A resource has changed, as this worker says.
    Updated(Arc<Worker>, String),
    Notice(Notice),
}

/// One of the places of a worker, taken. Dropped, it is free, and who waits for one goes on: so it
/// is never dropped while a lock is held.
pub(crate) struct Place {
    pub(crate) worker: Arc<Worker>,
    /// Whoever drops it looks who waits.
    pub(super) is_quiet: bool,
}

/// The tools of one upstream that have a limit of their own: mostly none.
pub(crate) struct Tools {
    pub(super) limits: BTreeMap<String, u32>,
    /// The numbers of the tools, by the names that the upstream gives them.
    pub(super) numbers: HashMap<String, usize>,
    pub(super) turns: Mutex<Turns<Arc<Call>>>,
    /// A call was given up while it waited: it takes no place among those that wait.
    pub(super) given_up: AtomicBool,
}

/// The right to be sent, as far as the limit of a tool is concerned. Dropped, it goes to the next:
/// so it is never dropped while a lock is held.
pub(crate) struct Turn(pub(super) Option<(Arc<Tools>, usize)>);

/// How long a worker that is told to leave may still work on its calls.
pub(super) const LEAVE_TIME: Duration = Duration::from_secs(5);
