//! One request on its way: who waits for it, and where it is.
//!
//! A call is answered exactly once because its [`Relayed`] can be taken out of it only once.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcplane::budget::Charge;
use mcplane::proto::error::ErrorObject;
use mcplane::proto::method::Method;
use mcplane::proto::version::Revision;
use mcplane::server::relay::{Caller, Cancel, Relayed};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::blame::Kind;
use super::pool::Pool;
use super::worker::Worker;

/// One request of a client, from the pipeline to its answer.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// The client's revision.
    pub(crate) revision: Revision,
    pub(crate) caller: Caller,
    /// What the upstream calls it, if that is not what the client calls it.
    pub(crate) name: Option<Arc<str>>,
    /// It may be sent a second time: reading it twice does no harm.
    pub(crate) repeatable: bool,
    /// The client sees the tool's structured result as `{"result": …}`.
    pub(crate) wraps: bool,
    pub(crate) pool: Arc<Pool>,
    /// Its id on the connection of its worker; 0 before it is sent.
    pub(crate) id: AtomicI64,
    /// How often it was sent.
    pub(crate) sent: AtomicU8,
    /// When a worker was given it, as a place in the order of all uses of its pool.
    pub(crate) given: AtomicU64,
    /// Its upstream has asked something in it.
    pub(crate) has_asked: AtomicBool,
    /// Its upstream is expected to.
    pub(super) will_ask: AtomicBool,
    /// It is to have a worker to itself, as long as there are such.
    pub(super) is_alone: AtomicBool,
    seat: Mutex<Seat>,
}

/// What changes while a call is on its way.
#[derive(Default)]
pub(crate) struct Seat {
    /// Who waits; `None` once it is answered or cancelled, and while it is parked.
    pub(crate) request: Option<Relayed>,
    /// Where it is, once a worker has it: on which of its connections.
    pub(crate) worker: Option<(Arc<Worker>, u32)>,
    /// Members of a retry: the answers to what a modern upstream asked.
    pub(crate) retry: Vec<u8>,
    /// What its upstream asked while nobody was there to hear of it.
    pub(crate) parked: Option<Box<crate::era::park::Parked>>,
    /// What its upstream wanted to ask for and could not, since the client does not declare it.
    pub(crate) lacks: Option<serde_json::Value>,
    /// Held while the tool's own limit counts it.
    pub(crate) turn: Option<OwnedSemaphorePermit>,
    /// What a turn is taken from each time that it is sent, if its tool has a limit of its own.
    pub(crate) turns: Option<Arc<Semaphore>>,
    /// What it was, if a worker has it still and its request has gone.
    pub(super) kind: Option<Kind>,
    is_cancelled: bool,
}

impl Call {
    pub(crate) fn new(
        request: Relayed,
        name: Option<Arc<str>>,
        (repeatable, wraps): (bool, bool),
        pool: Arc<Pool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            method: request.method(),
            revision: request.revision(),
            caller: request.caller().clone(),
            name,
            repeatable,
            wraps,
            pool,
            id: AtomicI64::new(0),
            sent: AtomicU8::new(0),
            given: AtomicU64::new(0),
            has_asked: AtomicBool::new(false),
            will_ask: AtomicBool::new(false),
            is_alone: AtomicBool::new(false),
            seat: Mutex::new(Seat { request: Some(request), ..Seat::default() }),
        })
    }

    pub(crate) fn seat(&self) -> MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody waits for it, here or with a parked question.
    pub(crate) fn is_wanted(&self) -> bool {
        let seat = self.seat();
        !seat.is_cancelled && (seat.request.is_some() || seat.parked.is_some())
    }

    /// Ends it with an error, unless it has ended already.
    pub(crate) fn fail(&self, error: &ErrorObject) {
        let request = {
            let mut seat = self.seat();
            if let Some(parked) = &mut seat.parked {
                parked.end(Err(error.clone()), Charge::default(), &self.caller);
            }
            seat.note_kind(self);
            seat.request.take()
        };
        if let Some(request) = request {
            request.fail(error);
        }
    }

    pub(crate) fn id(&self) -> i64 {
        self.id.load(Ordering::Acquire)
    }
}

impl Cancel for Call {
    fn cancel(&self) {
        let request = {
            let mut seat = self.seat();
            // Its client went away with a question, to come back with the answer.
            if seat.parked.is_some() && seat.request.is_none() {
                return;
            }
            self.drop_out(&mut seat);
            seat.request.take()
        };
        if let Some(request) = request {
            // Nothing may be sent for it: its client may use the id again.
            request.forget();
        }
    }
}

impl Call {
    /// Gives a call up whose client did not come back.
    pub(crate) fn abandon(&self) {
        let mut seat = self.seat();
        self.drop_out(&mut seat);
        seat.request = None;
    }

    /// Nobody waits any more. The queue drops what is cancelled when its turn comes.
    fn drop_out(&self, seat: &mut Seat) {
        seat.is_cancelled = true;
        seat.note_kind(self);
        match seat.worker.take() {
            Some((worker, life)) => worker.cancel(life, self.id()),
            None => self.pool.is_given_up(),
        }
        if let Some(mut parked) = seat.parked.take() {
            parked.close(&self.caller);
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("method", &self.method)
            .field("caller", &self.caller)
            .finish_non_exhaustive()
    }
}
