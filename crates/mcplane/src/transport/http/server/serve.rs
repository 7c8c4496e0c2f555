//! An endpoint behind a listener of its own.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, Version};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming as RequestBody;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::time::{Instant, sleep_until};

use super::refusal::Refusal;
use super::stalls::Stalls;
use super::{Account, Body, Endpoint};
use crate::transport::end::End;
use crate::transport::listen::{
    Admission, Arrived, Connections, Incoming, Listener, Patient, Place,
};

/// Bytes of bodies that a client of HTTP/2 may send before anybody reads them: of one request, and of
/// all requests of a connection. It is what a connection costs whose bodies nobody wants.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// Bytes of one stream of HTTP/2 that wait for its client's window, beside the piece that filled them.
const SEND_BYTES_MAX: usize = 64 * 1024;

/// Limits of each connection of an endpoint, beside those of its [`Listener`].
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct ConnectionLimits {
    /// How long the head of the first request may take; 10 s.
    pub header: Duration,
    /// How long a connection may be idle between two requests, including the head of the next one;
    /// 75 s. A connection with an open stream is not idle.
    pub idle: Duration,
    /// The most bytes of a request's head; 64 KiB.
    pub header_bytes_max: usize,
    /// The most requests in flight on one HTTP/2 connection; 128.
    pub streams_max: u32,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            header_bytes_max: 64 * 1024,
            streams_max: 128,
        }
    }
}

/// Endpoints behind one listener, selected by path.
pub trait Site: Send + Sync + 'static {
    /// The endpoint that answers at a path; `None` is 404.
    fn endpoint(&self, path: &str) -> Option<Endpoint>;

    /// Every endpoint, to be closed at shutdown.
    fn endpoints(&self) -> Vec<Endpoint>;
}

impl Site for Endpoint {
    /// Refuses what it does not serve itself.
    fn endpoint(&self, _: &str) -> Option<Endpoint> {
        Some(self.clone())
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        vec![self.clone()]
    }
}

/// Serves every connection of `listener` until `shutdown` comes: HTTP/1.1, and HTTP/2 by ALPN or
/// prior knowledge.
///
/// * A connection beyond the listener's limits gets 503 with `Retry-After` and is closed; public
///   [`Pages`](super::Pages) are served all the same.
/// * At shutdown, streams end, requests in flight may finish within
///   [`Limits::drain`](crate::transport::listen::Limits::drain), and the rest is cancelled.
///
/// Cancel safe: dropping the future closes the listener and every connection.
pub async fn serve(
    listener: Listener,
    site: impl Site,
    limits: ConnectionLimits,
    shutdown: impl Future<Output = ()>,
) {
    let drain = listener.limits().drain;
    let site = Arc::new(site);
    let shared = Arc::new(Shared { site, limits, listen: listener.limits().clone() });
    let connections = Connections::accept_until(listener, shutdown, |incoming, end| {
        converse(incoming, Arc::clone(&shared), end)
    })
    .await;
    shared.site.endpoints().iter().for_each(Endpoint::close);
    connections.drain(drain).await;
    shared.site.endpoints().iter().for_each(Endpoint::cancel);
}

struct Shared {
    site: Arc<dyn Site>,
    limits: ConnectionLimits,
    listen: crate::transport::listen::Limits,
}

/// One connection, from its handshake to its end.
async fn converse(incoming: Incoming, shared: Arc<Shared>, mut end: End) {
    let began = Instant::now();
    let arrived = tokio::select! {
        biased;
        () = &mut end => return,
        arrived = incoming.arrive(shared.limits.header) => arrived,
    };
    let Ok(Arrived { stream, admission, place, mut lost }) = arrived else { return };
    let visit = Arc::new(Visit::new(&shared, admission, place, began));
    let never = End::new(std::future::pending());
    let (stream, _) = Patient::new(stream, &shared.listen, never);
    let stream = stream.lingering_if(Arc::clone(&visit.unread));
    let service = service_fn(|request| Active::new(&visit).answer(request));
    let builder = builder(shared.limits);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut ending = false;
    loop {
        tokio::select! {
            biased;
            // How a connection breaks concerns nobody but its client.
            _ = &mut connection => break,
            () = &mut end, if !ending => {
                ending = true;
                connection.as_mut().graceful_shutdown();
            }
            () = &mut lost => return,
            () = sleep_until(visit.look()) => {
                let is_idle = visit.is_idle() && visit.deadline() <= Instant::now();
                if is_idle || visit.stalls.is_stalled() {
                    return;
                }
            }
        }
    }
    if let Some(conversation) = visit.upgraded.take() {
        conversation.await;
    }
}

/// Where the endpoint puts what goes on after the upgrade of a connection.
#[derive(Clone, Default)]
pub(super) struct Upgraded(Arc<Mutex<Option<Conversation>>>);

type Conversation = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Upgraded {
    #[cfg(feature = "websocket")]
    pub(super) fn put(&self, conversation: Conversation) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(conversation);
    }

    fn take(&self) -> Option<Conversation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn builder(limits: ConnectionLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // Idleness has one clock, ours: it also covers a head that comes slowly.
        .header_read_timeout(None)
        .writev(false)
        .max_buf_size(limits.header_bytes_max.max(8192));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BYTES_MAX)
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX));
    builder
}

/// The site, as one connection sees it, and when the connection was last in use.
struct Visit {
    site: Arc<dyn Site>,
    limits: ConnectionLimits,
    upgraded: Upgraded,
    account: Account,
    /// The connection is one too many.
    refused: Option<Duration>,
    place: Place,
    began: Instant,
    /// Whether the last request of HTTP/1 was answered before its body was read.
    unread: Arc<AtomicBool>,
    /// Answers of HTTP/2.
    stalls: Stalls,
    /// Requests that are being answered.
    active: AtomicUsize,
    /// Milliseconds from the beginning to the end of the last answer; 0 before the first.
    used_ms: AtomicU64,
}

impl Visit {
    fn new(shared: &Shared, admission: Admission, place: Place, began: Instant) -> Self {
        let refused = match admission {
            Admission::Admitted => None,
            Admission::Refused { retry_after } => Some(retry_after),
        };
        Self {
            site: Arc::clone(&shared.site),
            limits: shared.limits,
            upgraded: Upgraded::default(),
            account: Account::default(),
            refused,
            place,
            began,
            unread: Arc::default(),
            stalls: Stalls::new(shared.listen.stall),
            active: AtomicUsize::new(0),
            used_ms: AtomicU64::new(0),
        }
    }

    fn is_idle(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0
    }

    /// When to look whether the connection is of use.
    fn look(&self) -> Instant {
        let deadline = self.deadline();
        self.stalls.look().map_or(deadline, |at| at.min(deadline))
    }

    /// When the connection has been idle for too long.
    fn deadline(&self) -> Instant {
        match (self.is_idle(), self.used_ms.load(Ordering::Relaxed)) {
            (false, _) => Instant::now() + self.limits.idle,
            (true, 0) => self.began + self.limits.header,
            (true, used_ms) => self.began + Duration::from_millis(used_ms) + self.limits.idle,
        }
    }
}

/// The connection of a request that may be the first of a guest.
#[derive(Clone)]
pub(super) struct Newcomer(Arc<Visit>);

impl Newcomer {
    /// It is one: the connection keeps its place.
    pub(super) fn settle(&self) {
        self.0.place.settle();
    }
}

/// A request that is being answered.
struct Active(Arc<Visit>);

impl Active {
    fn new(visit: &Arc<Visit>) -> Self {
        visit.active.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(visit))
    }

    async fn answer(
        self,
        mut request: Request<RequestBody>,
    ) -> Result<Response<Tracked>, Infallible> {
        if request.headers().contains_key(UPGRADE) {
            request.extensions_mut().insert(self.0.upgraded.clone());
        }
        if !self.0.place.is_settled() {
            request.extensions_mut().insert(Newcomer(Arc::clone(&self.0)));
        }
        let is_alone = request.version() < Version::HTTP_2;
        let unread = is_alone.then(|| Arc::clone(&self.0.unread));
        self.0.unread.store(false, Ordering::Relaxed);
        let request = request.map(|body| Watched { body, unread });
        let path = request.uri().path();
        let endpoint = self.0.site.endpoint(path);
        let is_open = || endpoint.as_ref().is_some_and(|endpoint| endpoint.is_open(path));
        let mut response = match (self.0.refused.filter(|_| !is_open()), endpoint) {
            (Some(retry_after), _) => turn_away(retry_after),
            (None, Some(endpoint)) => endpoint.answer(request, &self.0.account).await,
            (None, None) => Refusal::nothing_here().response(),
        };
        if self.0.refused.is_some() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let number = (!is_alone).then(|| self.0.stalls.begin());
        Ok(response.map(|body| Tracked { body, number, active: self }))
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let used = self.0.began.elapsed().as_millis();
        self.0.used_ms.store(u64::try_from(used).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The answer on a connection that is one too many.
fn turn_away(retry_after: Duration) -> Response<Body> {
    let why = "too many connections are being opened";
    Refusal::overloaded(why, retry_after.as_secs()).response()
}

/// The body of a request, which leaves word when nobody has read it to its end: the connection is
/// closed then, but not before the client has had time to read the answer.
struct Watched {
    body: RequestBody,
    unread: Option<Arc<AtomicBool>>,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) {
            self.unread = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(unread) = self.unread.take().filter(|_| !self.body.is_end_stream()) {
            unread.store(true, Ordering::Relaxed);
        }
    }
}

/// A body that keeps its connection from being idle.
struct Tracked {
    body: Body,
    /// Among the answers of HTTP/2.
    number: Option<u64>,
    active: Active,
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.active.0.stalls.end(number);
        }
    }
}

impl http_body::Body for Tracked {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Some(number) = self.number {
            self.active.0.stalls.asked(number, frame.is_pending());
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
