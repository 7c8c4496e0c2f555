//! Connections that are kept and shared.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri, Version};
use http_body_util::Full;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::body::{Body, collect};
use super::connect::{Connection, connect};
use super::verdict::Verdicts;
use crate::error::{Failure, Lost, Result};
#[cfg(feature = "tls")]
use crate::transport::tls::ClientTls;

/// The most connections of one pool, in use and idle together.
pub const CONNECTIONS_MAX: usize = 100;

/// The most idle connections that are kept: all. Calls that come in bursts would else connect anew for
/// each burst, and servers bound the connections that one client may open in a second.
pub const IDLE_MAX: usize = CONNECTIONS_MAX;

/// How long an idle connection is kept.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(30);

/// How long connecting may take, TLS included.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Most requests at once on one HTTP/2 connection; servers commonly allow as many.
const STREAMS_MAX: usize = 100;

/// The bounds of a [`Pool`].
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct PoolLimits {
    /// The most connections, in use and idle together. A request that needs one more waits.
    pub connections_max: usize,
    /// The most idle connections.
    pub idle_max: usize,
    /// How long an idle connection is kept.
    pub idle_time_max: Duration,
    /// How long connecting may take, TLS included.
    pub connect_time_max: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX,
            idle_max: IDLE_MAX,
            idle_time_max: IDLE_TIME_MAX,
            connect_time_max: CONNECT_TIME_MAX,
        }
    }
}

/// Connections to HTTP servers, shared by its clones. HTTP/1.1 with keep-alive; HTTP/2 where TLS
/// negotiates it or [`Pool::http2`] says so. Belongs to the tokio runtime that first uses it.
#[derive(Clone, Default)]
pub struct Pool(Arc<Inner>);

#[derive(Default)]
struct Inner {
    limits: PoolLimits,
    dial: Dial,
    kept: Mutex<Kept>,
    /// A connection became idle or ended.
    freed: Notify,
    verdicts: Verdicts,
}

/// How a pool connects.
#[derive(Clone, Debug, Default)]
pub(super) struct Dial {
    pub(super) http2: bool,
    /// Which addresses, if not all.
    pub(super) allows: Option<fn(IpAddr) -> bool>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<ClientTls>,
}

/// A server, as connections are told apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) tls: bool,
    pub(super) authority: Authority,
}

#[derive(Default)]
struct Kept {
    /// Oldest first.
    idle: Vec<Idle>,
    /// HTTP/2 connections, in use or not.
    shared: Vec<Shared>,
    total: usize,
    reaping: bool,
}

struct Idle {
    origin: Origin,
    connection: Connection,
    slot: Slot,
    since: Instant,
}

struct Shared {
    origin: Origin,
    connection: Connection,
    /// Its users hold the other references.
    slot: Arc<Slot>,
    since: Instant,
}

/// One of the pool's connections; its end makes room for another.
struct Slot(Weak<Inner>);

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            // Never under the lock: connections leave it before they are dropped.
            pool.lock().total -= 1;
            pool.freed.notify_one();
        }
    }
}

/// A connection in use. Dropped before its answer is whole, an HTTP/1 connection is closed.
pub(super) struct Lease {
    origin: Origin,
    connection: Connection,
    slot: Option<Hold>,
    reused: bool,
}

enum Hold {
    Own(Slot),
    Shared(#[allow(dead_code, reason = "held for its count")] Arc<Slot>),
}

enum Take {
    Found(Lease),
    Connect(Slot),
    Full,
}

impl Pool {
    /// An empty pool with the default bounds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty pool.
    #[must_use]
    pub fn with(limits: PoolLimits) -> Self {
        Self(Arc::new(Inner { limits, ..Inner::default() }))
    }

    /// An empty pool with the same bounds that speaks HTTP/2 from the first byte, to servers that
    /// are known to (prior knowledge).
    #[must_use]
    pub fn http2(self) -> Self {
        self.redial(|dial| dial.http2 = true)
    }

    /// An empty pool with the same bounds that uses this TLS configuration for `https`; by default,
    /// the system's authorities are trusted.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(self, tls: ClientTls) -> Self {
        self.redial(|dial| dial.tls = Some(tls))
    }

    /// An empty pool with the same bounds that connects to no other addresses. What counts is where
    /// a name leads when it connects, and not what it looks like.
    #[cfg(feature = "auth")]
    pub(crate) fn only(&self, allows: fn(IpAddr) -> bool) -> Self {
        self.redial(|dial| dial.allows = Some(allows))
    }

    fn redial(&self, change: impl FnOnce(&mut Dial)) -> Self {
        let mut dial = self.0.dial.clone();
        change(&mut dial);
        Self(Arc::new(Inner { limits: self.0.limits, dial, ..Inner::default() }))
    }

    /// Sends one request to an absolute URI and reads its whole answer, whatever its status.
    /// Redirects are not followed.
    ///
    /// Cancel safe: the request is aborted.
    ///
    /// # Errors
    /// [`is_unreachable`](crate::Error::is_unreachable), [`is_closed`](crate::Error::is_closed),
    /// [`is_timeout`](crate::Error::is_timeout), or [`is_malformed`](crate::Error::is_malformed)
    /// for a body of more than `body_bytes_max` bytes.
    pub async fn fetch(
        &self,
        request: Request<Bytes>,
        body_bytes_max: usize,
        timeout: Duration,
    ) -> Result<Response<Bytes>> {
        let what = format!("{} {}", request.method(), request.uri());
        let fetch = async {
            let (parts, body) = self.send(request).await?.into_parts();
            let body = collect(body, body_bytes_max).await?;
            Ok(Response::from_parts(parts, body))
        };
        let late = |_| Failure::new(Lost::Late, format!("{what}: no answer within {timeout:?}"));
        let fetched: Result<_, Failure> =
            tokio::time::timeout(timeout, fetch).await.map_err(late)?;
        Ok(fetched?)
    }

    pub(super) fn verdicts(&self) -> &Verdicts {
        &self.0.verdicts
    }

    /// Sends one request to an absolute URI. A kept connection that ends before it has answered
    /// anything was most likely closed while it was idle: the request is sent once more.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<Response<Body>, Failure> {
        let origin = Origin::of(request.uri())?;
        let (parts, body) = request.into_parts();
        let mut lease = self.lease(&origin, true).await?;
        let again = lease.reused.then(|| (parts.clone(), body.clone()));
        let sent = lease.send(Request::from_parts(parts, body)).await;
        match (sent, again) {
            (Ok(incoming), _) => Ok(self.respond(incoming, lease)),
            (Err(_), Some((parts, body))) => {
                drop(lease);
                let request = Request::from_parts(parts, body);
                // Rare, and not to be carried by every request.
                Box::pin(self.send_afresh(&origin, request)).await
            }
            (Err(error), None) => Err(broken(&origin, &error)),
        }
    }

    async fn send_afresh(
        &self,
        origin: &Origin,
        request: Request<Bytes>,
    ) -> Result<Response<Body>, Failure> {
        let mut lease = self.lease(origin, false).await?;
        match lease.send(request).await {
            Ok(incoming) => Ok(self.respond(incoming, lease)),
            Err(error) => Err(broken(origin, &error)),
        }
    }

    fn respond(&self, response: Response<hyper::body::Incoming>, lease: Lease) -> Response<Body> {
        response.map(|incoming| Body::new(incoming, lease, self.clone()))
    }

    /// A connection that may take a request: a kept one if there is, and if `kept` allows.
    async fn lease(&self, origin: &Origin, kept: bool) -> Result<Lease, Failure> {
        loop {
            let freed = self.0.freed.notified();
            let taken = self.0.take(origin, kept);
            match taken {
                Take::Found(mut lease) => {
                    if lease.connection.ready().await.is_ok() {
                        return Ok(lease);
                    }
                }
                Take::Connect(slot) => return Box::pin(self.connect(origin, slot)).await,
                Take::Full => freed.await,
            }
        }
    }

    async fn connect(&self, origin: &Origin, slot: Slot) -> Result<Lease, Failure> {
        let limit = self.0.limits.connect_time_max;
        let connection = match timeout(limit, connect(origin, &self.0.dial)).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => {
                return Err(unreachable(format!("cannot connect to {origin}: {error}")));
            }
            Err(_) => return Err(unreachable(format!("{origin} took no connection in {limit:?}"))),
        };
        let origin = origin.clone();
        let hold = if let Some(connection) = connection.share() {
            let slot = Arc::new(slot);
            let (origin, kept) = (origin.clone(), Arc::clone(&slot));
            let shared = Shared { origin, connection, slot: kept, since: Instant::now() };
            self.0.lock().shared.push(shared);
            self.0.reap();
            Hold::Shared(slot)
        } else {
            Hold::Own(slot)
        };
        Ok(Lease { origin, connection, slot: Some(hold), reused: false })
    }

    /// Takes back a connection whose answer is whole.
    pub(super) fn give_back(&self, mut lease: Lease) {
        if let Some(Hold::Own(slot)) = lease.slot.take() {
            let Lease { origin, connection, .. } = lease;
            self.0.keep(Idle { origin, connection, slot, since: Instant::now() });
        } else {
            self.0.freed.notify_one();
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>, origin: &Origin, kept: bool) -> Take {
        // Declared before the lock, so that what is in it is dropped after it.
        let (mut dead, closed): (Vec<Idle>, Vec<Shared>);
        let mut inner = self.lock();
        dead = Vec::new();
        closed = inner.shared.extract_if(.., |s| s.connection.is_closed()).collect();
        while kept && let Some(at) = inner.idle.iter().rposition(|idle| idle.origin == *origin) {
            let idle = inner.idle.remove(at);
            if idle.connection.is_closed() || idle.since.elapsed() >= self.limits.idle_time_max {
                dead.push(idle);
                continue;
            }
            drop(inner);
            let Idle { origin, connection, slot, .. } = idle;
            return Take::Found(Lease {
                origin,
                connection,
                slot: Some(Hold::Own(slot)),
                reused: true,
            });
        }
        if kept && let Some(lease) = inner.share(origin) {
            return Take::Found(lease);
        }
        if inner.total >= self.limits.connections_max {
            // Room for one that is needed instead of the one that was not for longest.
            if dead.is_empty() && closed.is_empty() {
                if inner.idle.is_empty() {
                    return Take::Full;
                }
                dead.push(inner.idle.remove(0));
            }
        }
        inner.total += 1;
        Take::Connect(Slot(Arc::downgrade(self)))
    }

    fn keep(self: &Arc<Self>, idle: Idle) {
        if self.limits.idle_max == 0 || idle.connection.is_closed() {
            return;
        }
        let mut kept = self.lock();
        let oldest = (kept.idle.len() >= self.limits.idle_max).then(|| kept.idle.remove(0));
        kept.idle.push(idle);
        drop(kept);
        drop(oldest);
        self.freed.notify_one();
        self.reap();
    }

    /// Closes what has been idle for too long, for as long as anything is kept.
    fn reap(self: &Arc<Self>) {
        if std::mem::replace(&mut self.lock().reaping, true) {
            return;
        }
        let (pool, limit) = (Arc::downgrade(self), self.limits.idle_time_max);
        tokio::spawn(async move {
            let mut next = Instant::now() + limit;
            loop {
                sleep_until(next).await;
                let Some(pool) = pool.upgrade() else { return };
                let mut kept = pool.lock();
                let old = kept.take_old(limit);
                let since = kept.idle.iter().map(|idle| idle.since);
                let since = since.chain(kept.shared.iter().map(|shared| shared.since)).min();
                kept.reaping = since.is_some();
                drop(kept);
                drop(old);
                let Some(since) = since else { return };
                next = (since + limit).max(Instant::now() + REAP_PAUSE);
            }
        });
    }
}

/// The reaper looks no more often than this.
const REAP_PAUSE: Duration = Duration::from_millis(100);

impl Kept {
    fn share(&mut self, origin: &Origin) -> Option<Lease> {
        let has_room = |shared: &Shared| Arc::strong_count(&shared.slot) <= STREAMS_MAX;
        let fits = |shared: &&mut Shared| shared.origin == *origin && has_room(shared);
        let shared = self.shared.iter_mut().find(fits)?;
        shared.since = Instant::now();
        Some(Lease {
            origin: origin.clone(),
            connection: shared.connection.share()?,
            slot: Some(Hold::Shared(Arc::clone(&shared.slot))),
            reused: true,
        })
    }

    fn take_old(&mut self, limit: Duration) -> (Vec<Idle>, Vec<Shared>) {
        let is_old = |since: Instant| since.elapsed() >= limit;
        for shared in self.shared.iter_mut().filter(|shared| Arc::strong_count(&shared.slot) > 1) {
            shared.since = Instant::now();
        }
        let shared = self.shared.extract_if(.., |s| is_old(s.since) || s.connection.is_closed());
        let shared = shared.collect();
        let idle = self.idle.extract_if(.., |i| is_old(i.since) || i.connection.is_closed());
        (idle.collect(), shared)
    }
}

impl Lease {
    /// Sends in the form that the connection's version of HTTP wants.
    async fn send(
        &mut self,
        mut request: Request<Bytes>,
    ) -> hyper::Result<Response<hyper::body::Incoming>> {
        if self.connection.is_shared() {
            *request.version_mut() = Version::HTTP_2;
        } else {
            let authority = &self.origin.authority;
            if let Ok(host) = HeaderValue::try_from(authority.as_str()) {
                request.headers_mut().insert(HOST, host);
            }
            let path = request.uri().path_and_query().cloned();
            *request.uri_mut() = path.unwrap_or_else(|| PathAndQuery::from_static("/")).into();
        }
        self.connection.send(request.map(Full::new)).await
    }
}

impl Origin {
    fn of(uri: &Uri) -> Result<Self, Failure> {
        let tls = uri.scheme() == Some(&Scheme::HTTPS);
        match uri.authority() {
            Some(authority) if tls || uri.scheme() == Some(&Scheme::HTTP) => {
                Ok(Self { tls, authority: authority.clone() })
            }
            _ => Err(unreachable(format!("{uri} is not an absolute http or https URI"))),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.0.lock();
        f.debug_struct("Pool")
            .field("connections", &kept.total)
            .field("idle", &kept.idle.len())
            .finish_non_exhaustive()
    }
}

fn broken(origin: &Origin, error: &hyper::Error) -> Failure {
    Failure::new(Lost::Broken, format!("{origin} closed the connection: {}", cause(error)))
}

fn unreachable(message: String) -> Failure {
    Failure::new(Lost::Unreachable, message)
}

/// The innermost reason, which hyper's own text leaves out.
pub(super) fn cause(error: &hyper::Error) -> String {
    let mut source = std::error::Error::source(error);
    let mut text = error.to_string();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
