//! The bounded pool for handlers that block or wait.
//!
//! `workers` run, `queue` wait for a worker or for their client's answer, and whoever comes after that is told at once that the
//! server is overloaded: the reader of a connection never waits for a worker, so that pings and
//! cancellations always pass.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mcplane_proto::error::{Code, ErrorObject};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::load::{Load, Taken};

/// How much a server does at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolConfig {
    /// Handlers that run at the same time.
    pub(crate) workers: usize,
    /// Handlers that wait for a worker.
    pub(crate) queue: usize,
    /// How long one handler may run; `None` is for ever.
    pub(crate) timeout: Option<Duration>,
}

/// Four at a time, as many programs of this kind run; a queue of 256 is a second of work for
/// handlers of 15 ms; two minutes is longer than the official clients wait (60 s).
pub(crate) const DEFAULT: PoolConfig =
    PoolConfig { workers: 4, queue: 256, timeout: Some(Duration::from_secs(120)) };

#[derive(Clone)]
pub(crate) struct Pool {
    config: PoolConfig,
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
    pub(crate) fn new(config: PoolConfig) -> Self {
        let config = PoolConfig { workers: config.workers.max(1), ..config };
        let workers = Arc::new(Semaphore::new(config.workers.min(Semaphore::MAX_PERMITS)));
        let load = Load::new(config.workers.saturating_add(config.queue));
        Self { config, workers, load }
    }

    /// Whether there may be a place.
    ///
    /// # Errors
    /// The overload error.
    pub(crate) fn check(&self) -> Result<(), ErrorObject> {
        if self.load.is_full() { Err(self.overload()) } else { Ok(()) }
    }

    fn overload(&self) -> ErrorObject {
        let why = format!(
            "the server is overloaded: {} calls run and {} wait; try again later",
            self.config.workers, self.config.queue
        );
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
            timeout: self.config.timeout,
        })
    }
}

impl Place {
    /// Runs a future as soon as a worker is free.
    ///
    /// # Errors
    /// If it panics or takes too long.
    pub(crate) async fn wait<T>(self, work: impl Future<Output = T>) -> Result<T, ErrorObject> {
        let worker = RefCell::new(self.worker().await);
        WORKER.scope(worker, self.limit(contained(work))).await?
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

    async fn limit<T>(&self, work: impl Future<Output = T>) -> Result<T, ErrorObject> {
        limited(self.timeout, work).await
    }
}

tokio::task_local! {
    /// The worker of the handler that runs in this task.
    static WORKER: RefCell<Option<OwnedSemaphorePermit>>;
}

/// Waits in a handler for what somebody else does, a person perhaps. Others have its worker meanwhile:
/// clients that do not answer must not hold up everybody. Afterwards it waits for a worker again.
pub(crate) async fn idly<T>(waiting: impl Future<Output = T>) -> T {
    // A handler that asks twice at once has given its worker away already; one that asks in a task of
    // its own has none there.
    let worker = WORKER.try_with(|worker| worker.borrow_mut().take()).ok().flatten();
    let Some(worker) = worker else { return waiting.await };
    let workers = Arc::clone(worker.semaphore());
    drop(worker);
    let done = waiting.await;
    let worker = workers.acquire_owned().await.ok();
    let _ = WORKER.try_with(|mine| mine.replace(worker));
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

async fn limited<T>(
    timeout: Option<Duration>,
    work: impl Future<Output = T>,
) -> Result<T, ErrorObject> {
    let Some(timeout) = timeout else { return Ok(work.await) };
    tokio::time::timeout(timeout, work).await.map_err(|_| {
        let why = format!("the handler did not finish within {} s", timeout.as_secs_f64());
        ErrorObject::new(Code::HANDLER_TIMEOUT, why)
    })
}

fn panicked() -> ErrorObject {
    // What it said is on standard error, where the panic hook puts it; it may hold secrets.
    ErrorObject::new(Code::INTERNAL_ERROR, "the handler panicked")
}
