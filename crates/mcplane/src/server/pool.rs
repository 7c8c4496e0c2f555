//! The bounded pools for handlers that block and for handlers that wait.
//!
//! `workers` run, `queue` wait for a worker or for their client's answer, and further calls are
//! told at once that the server is overloaded: the reader of a connection never waits for a worker,
//! so that pings and cancellations always pass.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mcplane_proto::error::{Code, ErrorObject};
use mcplane_proto::limits::IN_FLIGHT_MAX;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::load::{Load, Taken};

/// How much a server does at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolConfig {
    /// Handlers that block, at the same time: each has a thread.
    pub(crate) workers: usize,
    /// Handlers that wait, at the same time: each is a task.
    pub(crate) tasks: usize,
    /// Handlers of either kind that wait for their turn.
    pub(crate) queue: usize,
    /// How long one handler may run; `None` is for ever.
    pub(crate) timeout: Option<Duration>,
}

/// Four threads at a time, as many programs of this kind run; as many tasks as one connection may have
/// requests in flight; a queue of 256 is a second of work for handlers of 15 ms; two minutes is longer than
/// the official clients wait (60 s).
pub(crate) const DEFAULT: PoolConfig = PoolConfig {
    workers: 4,
    tasks: IN_FLIGHT_MAX,
    queue: 256,
    timeout: Some(Duration::from_secs(120)),
};

/// The pools of a server.
pub(crate) struct Pools {
    pub(super) blocking: Pool,
    pub(super) waiting: Pool,
}

impl Pools {
    pub(crate) fn new(config: PoolConfig) -> Self {
        let PoolConfig { workers, tasks, queue, timeout } = config;
        let pool = |workers| Pool::new(workers, queue, timeout);
        Self { blocking: pool(workers), waiting: pool(tasks) }
    }
}

pub(crate) struct Pool {
    /// How many run, and how many wait.
    sizes: (usize, usize),
    timeout: Option<Duration>,
    workers: Arc<Semaphore>,
    /// Handlers that run or wait.
    load: Load,
}

/// A place in the pool, given back when it is dropped.
pub(crate) struct Place {
    _taken: Taken,
    workers: Arc<Semaphore>,
    timeout: Option<Duration>,
}

impl Pool {
    fn new(workers: usize, queue: usize, timeout: Option<Duration>) -> Self {
        let load = Load::new(workers.saturating_add(queue));
        let sizes = (workers, queue);
        let workers = Arc::new(Semaphore::new(workers.min(Semaphore::MAX_PERMITS)));
        Self { sizes, timeout, workers, load }
    }

    /// Whether there may be a place.
    ///
    /// # Errors
    /// The overload error.
    pub(crate) fn check(&self) -> Result<(), ErrorObject> {
        if self.load.is_full() { Err(self.overload()) } else { Ok(()) }
    }

    fn overload(&self) -> ErrorObject {
        let (run, wait) = self.sizes;
        let why =
            format!("the server is overloaded: {run} calls run and {wait} wait; try again later");
        ErrorObject::new(Code::OVERLOADED, why)
    }

    /// A place for one handler.
    ///
    /// # Errors
    /// The overload error, at once, when every worker and every place in the queue is taken.
    pub(crate) fn place(&self) -> Result<Place, ErrorObject> {
        Ok(Place {
            _taken: self.load.take().ok_or_else(|| self.overload())?,
            workers: Arc::clone(&self.workers),
            timeout: self.timeout,
        })
    }
}

impl Place {
    /// Runs a future as soon as a worker is free.
    ///
    /// # Errors
    /// If it panics or takes too long.
    pub(crate) async fn wait<T>(self, work: impl Future<Output = T>) -> Result<T, ErrorObject> {
        let working = Working { worker: RefCell::new(self.worker().await), ..Working::default() };
        WORKING.scope(working, limited(self.timeout, contained(work))).await?
    }

    /// Runs a blocking function on a thread as soon as a worker is free. When it takes too long
    /// the caller gets an error, and the worker stays taken until the function returns.
    ///
    /// # Errors
    /// If it panics or takes too long.
    pub(crate) async fn block<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ErrorObject> {
        let worker = self.worker().await;
        let timeout = self.timeout;
        let thread = tokio::task::spawn_blocking(move || {
            let _taken = (worker, self);
            work()
        });
        limited(timeout, thread).await?.map_err(|_| panicked())
    }

    async fn worker(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.workers).acquire_owned().await.ok()
    }
}

tokio::task_local! {
    static WORKING: Working;
}

/// The handler that runs in this task.
#[derive(Default)]
struct Working {
    worker: RefCell<Option<OwnedSemaphorePermit>>,
    /// Since when it waits for others, if it does.
    idle_since: Cell<Option<Instant>>,
    /// How long it has waited for them before.
    idle: Cell<Duration>,
}

impl Working {
    /// How long it has waited for others since this was asked last.
    fn take_idle(&self) -> Duration {
        let now = Instant::now();
        let since = self.idle_since.get().inspect(|_| self.idle_since.set(Some(now)));
        self.idle.take() + since.map_or(Duration::ZERO, |since| now - since)
    }
}

/// Waits in a handler for what somebody else does, a person perhaps. Others have its worker meanwhile:
/// clients that do not answer must not hold up everybody. Afterwards it waits for a worker again. Its own
/// time does not run on.
pub(crate) async fn idly<T>(waiting: impl Future<Output = T>) -> T {
    // A handler that asks twice at once has given its worker away already; one that asks in a task of
    // its own has none there.
    let worker = WORKING.try_with(|working| {
        let worker = working.worker.borrow_mut().take()?;
        working.idle_since.set(Some(Instant::now()));
        Some(worker)
    });
    let Some(worker) = worker.ok().flatten() else { return waiting.await };
    let workers = Arc::clone(worker.semaphore());
    drop(worker);
    let done = waiting.await;
    let worker = workers.acquire_owned().await.ok();
    let _ = WORKING.try_with(|working| {
        working.idle.set(working.take_idle());
        working.idle_since.set(None);
        working.worker.replace(worker)
    });
    done
}

/// Runs an inline handler; a panic becomes an error.
pub(crate) fn run_contained<T>(work: impl FnOnce() -> T) -> Result<T, ErrorObject> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| panicked())
}

/// A future whose panic becomes an error.
async fn contained<T>(work: impl Future<Output = T>) -> Result<T, ErrorObject> {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(Err(panicked())),
    })
    .await
}

/// The least time after which a handler that waits for others is looked at again.
const IDLE_TICK: Duration = Duration::from_secs(1);

async fn limited<T>(
    timeout: Option<Duration>,
    work: impl Future<Output = T>,
) -> Result<T, ErrorObject> {
    let Some(timeout) = timeout else { return Ok(work.await) };
    let mut work = pin!(work);
    let mut rest = timeout;
    while !rest.is_zero() {
        if let Ok(done) = tokio::time::timeout(rest, work.as_mut()).await {
            return Ok(done);
        }
        let idle = WORKING.try_with(|working| {
            let is_idle = working.idle_since.get().is_some();
            working.take_idle().max(if is_idle { IDLE_TICK } else { Duration::ZERO })
        });
        rest = idle.unwrap_or_default();
    }
    let why = format!("the handler did not finish within {} s", timeout.as_secs_f64());
    Err(ErrorObject::new(Code::HANDLER_TIMEOUT, why))
}

fn panicked() -> ErrorObject {
    // What it said is on standard error, where the panic hook puts it; it may hold secrets.
    ErrorObject::new(Code::INTERNAL_ERROR, "the handler panicked")
}
