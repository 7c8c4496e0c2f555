//! Pages for administrators: health, status, and which server meets a need.
//!
//! * `GET /healthz` — 200 while at least one server can be called; needs no token.
//! * `GET /admin/status` — [`Status`].
//! * `POST /admin/negotiate` — a [`Need`] in, a [`Verdict`] out.
//!
//! `/admin/*` is for the principals in `gateway.admins`; where there are no tokens, for clients at a
//! loopback address.

mod state;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use mcplane::proto::error::shorten;
use mcplane::proto::version::Revision;
use mcplane::transport::http::server::Pages;
use serde::Serialize;
use serde_json::{Value, json};

use crate::catalog::{self, Entry, Health, Kind, Need, Rules, Verdict, negotiate};
use crate::clock;
use crate::frontend::View;
use crate::gateway::{Gateway, Inner};
pub use crate::settle::Calls;
use crate::upstream::Upstream;
use crate::upstream::cause::failed_lists;
use crate::upstream::lists::ListState;
use crate::upstream::model::Worker;
use crate::upstream::status::Phase;
use crate::upstream::worker::is_modern;

pub use state::{CauseStatus, ProcessEnd, ServerState, WorkerState};

/// Most names and URIs of one server that [`Status`] lists as another server's.
pub const SHADOWED_MAX: usize = 100;

/// The pages of a gateway.
pub(crate) struct Admin {
    gateway: Weak<Inner>,
    /// Reachable from other machines without a token.
    is_outside: bool,
}

/// The state of the gateway.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// The gateway's version.
    pub version: &'static str,
    /// Seconds since its start.
    pub uptime_s: u64,
    /// Sessions of 2024-11-05 … 2025-11-25 over HTTP.
    pub sessions: usize,
    /// Memory of requests and answers that wait; messages of up to 4 KiB are not counted.
    pub memory: Memory,
    /// How often the settings were read again.
    pub reloads: u64,
    /// How the requests ended that the gateway answered without any server: lists, names and URIs
    /// that no server has, and requests that name nothing. Handshakes and pings are not counted.
    pub own_calls: Calls,
    /// The servers, in the order of the settings.
    pub servers: Vec<ServerStatus>,
}

/// Memory of what waits.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct Memory {
    /// Bytes that wait.
    pub used_bytes: usize,
    /// Bytes that may wait.
    pub max_bytes: usize,
}

/// The state of one server.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Its name in the settings.
    pub name: String,
    /// Whether it can be called.
    pub state: ServerState,
    /// What went wrong last, if it has not recovered, or what is wrong with the names that the settings
    /// give its tools.
    pub trouble: Option<String>,
    /// What went wrong last, if it has not recovered.
    pub cause: Option<CauseStatus>,
    /// Seconds until a server that is down is restarted, if it will be.
    pub next_start_s: Option<u64>,
    /// The revision that was agreed on.
    pub revision: Option<&'static str>,
    /// What the server says of itself.
    pub info: Option<Value>,
    /// Who shares a worker.
    pub mode: &'static str,
    /// How many of its tools, resources, resource templates and prompts clients see; `None` until it
    /// has listed them.
    pub offers: Option<Offers>,
    /// The state of each list that was read in this run.
    pub lists: Vec<ListStatus>,
    /// What of it is not seen at the common endpoint under its own name or URI, since that is
    /// another server's: the first [`SHADOWED_MAX`].
    pub shadowed: Vec<Shadowed>,
    /// How many there are of those in all.
    pub shadowed_total: usize,
    /// Whether its lists were read in this run, and do not come from the disk.
    pub fresh: bool,
    /// Calls that wait for a worker.
    pub queued: usize,
    /// Calls that were refused because everything was full.
    pub refused: u64,
    /// How its calls ended, since its settings are as they are.
    pub calls: Calls,
    /// Log messages and questions of the server that were dropped, since nothing says whose they are.
    pub unowned_logs: u64,
    /// Its workers.
    pub workers: Vec<WorkerStatus>,
}

/// How much of a server clients see.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub struct Offers {
    pub tools: usize,
    pub resources: usize,
    pub templates: usize,
    pub prompts: usize,
}

/// How one list of a server is. Each stands for itself: what failed is served as it was before.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ListStatus {
    /// The method that asks for it.
    pub list: &'static str,
    /// Seconds since it was read; `None` if it was not in this run.
    pub age_s: Option<u64>,
    /// Why it could not be read when it was asked for last.
    pub error: Option<String>,
}

/// Something that is not seen under its own name or URI.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Shadowed {
    /// `tool`, `prompt`, `resource` or `template`.
    pub kind: &'static str,
    /// Its name, URI or template; a long one is shortened.
    pub name: String,
    /// The server that this belongs to.
    pub by: String,
    /// What clients see it as; `None` if they do not.
    pub seen_as: Option<String>,
}

/// How one worker is.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// Its number within the server.
    pub number: usize,
    /// Whether it can be called.
    pub state: WorkerState,
    /// Its process; `None` if it has none.
    pub pid: Option<u32>,
    /// What it is spoken to in; `None` before it has said what it speaks.
    pub revision: Option<&'static str>,
    /// Whether its server tells it of changes, as it is to in 2026-07-28; `None` for older ones,
    /// which are not asked to. It is asked again while it does not.
    pub listening: Option<bool>,
    /// Calls that it works on.
    pub in_flight: usize,
    /// Calls that it was given.
    pub calls: u64,
    /// How often it was started again.
    pub restarts: u32,
    /// Answers that came too late, or to no call.
    pub late: u64,
    /// Lines on its standard output that were not messages.
    pub strays: u64,
}

impl Gateway {
    /// The state of the gateway and its servers.
    #[must_use]
    pub fn status(&self) -> Status {
        let config = self.config();
        let rules = |upstream: &Upstream| {
            let server = config.servers.get(&upstream.name);
            server.map(|server| Rules::from(&server.tools)).unwrap_or_default()
        };
        let view = self.0.all.view();
        let servers = self.upstreams().into_iter().map(|upstream| {
            let mut status = of_server(&upstream, &rules(&upstream));
            let shadowed = shadowed(&view, &upstream);
            status.shadowed_total = shadowed.clone().count();
            status.shadowed = shadowed.take(SHADOWED_MAX).map(of_shadowed).collect();
            status
        });
        Status {
            version: env!("CARGO_PKG_VERSION"),
            uptime_s: self.0.began.elapsed().as_secs(),
            sessions: self.0.site.sessions(),
            memory: Memory { used_bytes: self.0.memory.used(), max_bytes: self.0.memory.max() },
            reloads: self.0.reloads.load(Relaxed),
            own_calls: self.0.all.tally.calls(),
            servers: servers.collect(),
        }
    }

    /// Which servers meet a need.
    ///
    /// # Errors
    /// What is wrong with the need.
    pub fn negotiate(&self, need: &Need) -> Result<Verdict, catalog::NeedError> {
        let view = self.0.all.view();
        let upstreams = &view.upstreams;
        let candidates = view.snapshot.candidates(|server| {
            upstreams.get(server).map_or((Health::Down, 1.0), |upstream| upstream.health())
        });
        negotiate(need, &candidates)
    }
}

/// What of an upstream is not seen under its own name or URI.
fn shadowed<'a>(
    view: &'a View,
    upstream: &'a Arc<Upstream>,
) -> impl Iterator<Item = &'a catalog::Shadowed> + Clone {
    let is_of = move |one: &&catalog::Shadowed| {
        view.upstreams.get(one.server).is_some_and(|shown| Arc::ptr_eq(shown, upstream))
    };
    view.snapshot.shadowed().iter().filter(is_of)
}

fn of_shadowed(shadowed: &catalog::Shadowed) -> Shadowed {
    Shadowed {
        kind: shadowed.kind.noun(),
        name: shorten(&shadowed.name).into_owned(),
        by: shadowed.by.to_string(),
        seen_as: shadowed.exposed.as_deref().map(str::to_owned),
    }
}

fn of_server(upstream: &Upstream, rules: &Rules) -> ServerStatus {
    let pool = &upstream.pool;
    let workers = pool.all_workers();
    let offer = upstream.offer.load();
    let peer = workers.iter().find_map(|worker| worker.peer.load_full());
    let patience = pool.approval_after();
    let (state, cause, next_start_s) = {
        let status = pool.status.now();
        let until = match status.phase() {
            Phase::Down { until } => until,
            _ => None,
        };
        let next_start_s = until.map(|at| at.saturating_duration_since(clock::now()).as_secs());
        (ServerState::of(&status, patience), status.cause().cloned(), next_start_s)
    };
    // Only tools can be hidden.
    let shown = |kind, entry: &&Entry| kind != Kind::Tools || rules.shows(&entry.name);
    let count = |kind| {
        let entries = offer.as_ref().map_or(&[][..], |offer| offer.entries(kind));
        entries.iter().filter(|entry| shown(kind, entry)).count()
    };
    let broken = cause.as_ref().map(|cause| cause.for_operators());
    // Before anything is offered, the others may come yet.
    let unread = || {
        let failed = offer.as_ref().map(|_| upstream.failed_lists())?;
        let failed = (!failed.is_empty()).then(|| failed_lists(&failed))?;
        Some(format!("some of its lists could not be read: {failed}"))
    };
    let misnamed = || upstream.misnamed.load_full().map(|told| String::clone(&told));
    ServerStatus {
        name: upstream.name.to_string(),
        state,
        trouble: broken.or_else(unread).or_else(misnamed),
        cause: cause.as_deref().map(CauseStatus::of),
        next_start_s,
        revision: peer.as_ref().map(|peer| peer.revision.as_str()),
        info: peer.and_then(|peer| serde_json::from_str(peer.info.as_deref()?.get()).ok()),
        mode: pool.settings.mode.as_str(),
        offers: offer.as_ref().map(|_| Offers {
            tools: count(Kind::Tools),
            resources: count(Kind::Resources),
            templates: count(Kind::Templates),
            prompts: count(Kind::Prompts),
        }),
        lists: upstream.lists().iter().filter_map(of_list).collect(),
        shadowed: Vec::new(),
        shadowed_total: 0,
        fresh: upstream.is_fresh(),
        queued: pool.queued(),
        refused: pool.shared.refused.load(Relaxed),
        calls: pool.shared.tally.calls(),
        unowned_logs: pool.shared.unowned.load(Relaxed),
        workers: workers.iter().map(|worker| of_worker(worker, patience)).collect(),
    }
}

fn of_list((kind, state): &(Kind, ListState)) -> Option<ListStatus> {
    let error = state.error.as_deref().map(|error| shorten(error).into_owned());
    let age_s = state.read.map(|at| clock::now().duration_since(at).as_secs());
    let was_asked = error.is_some() || age_s.is_some();
    was_asked.then(|| ListStatus { list: kind.method().as_str(), age_s, error })
}

fn of_worker(worker: &Worker, patience: Duration) -> WorkerStatus {
    let pid = worker.pid.load(Relaxed);
    let revision = worker.peer.load().as_ref().map(|peer| peer.revision);
    WorkerStatus {
        number: worker.number,
        state: WorkerState::of(worker, patience),
        pid: (pid != 0).then_some(pid),
        revision: revision.map(Revision::as_str),
        listening: revision.is_some_and(is_modern).then(|| worker.is_told.load(Relaxed)),
        in_flight: worker.in_flight.load(Relaxed),
        calls: worker.calls.load(Relaxed),
        restarts: worker.restarts.load(Relaxed),
        late: worker.late.load(Relaxed),
        strays: worker.strays.load(Relaxed),
    }
}

impl Admin {
    pub(crate) const fn new(gateway: Weak<Inner>, is_outside: bool) -> Self {
        Self { gateway, is_outside }
    }
}

impl Pages for Admin {
    fn has(&self, path: &str) -> bool {
        matches!(path, "/healthz" | "/admin/status" | "/admin/negotiate")
    }

    fn is_open(&self, path: &str) -> bool {
        path == "/healthz"
    }

    fn page(&self, head: &Parts, body: Bytes) -> Response<Bytes> {
        let Some(gateway) = self.gateway.upgrade().map(Gateway) else {
            return say(StatusCode::SERVICE_UNAVAILABLE, &json!({"error": "it is shutting down"}));
        };
        let is_open = self.is_open(head.uri.path());
        if let (false, Err(why)) = (is_open, gateway.0.site.lets_administer(head, self.is_outside))
        {
            return say(StatusCode::FORBIDDEN, &json!({"error": why}));
        }
        match (&head.method, head.uri.path()) {
            (&Method::GET, "/healthz") => {
                let upstreams = gateway.upstreams();
                let well = |upstream: &Arc<Upstream>| {
                    matches!(upstream.health().0, Health::Healthy | Health::Degraded)
                };
                let up = upstreams.iter().filter(|upstream| well(upstream)).count();
                let status = match up {
                    0 if !upstreams.is_empty() => StatusCode::SERVICE_UNAVAILABLE,
                    _ => StatusCode::OK,
                };
                say(status, &json!({"servers": upstreams.len(), "up": up}))
            }
            (&Method::GET, "/admin/status") => say(StatusCode::OK, &gateway.status()),
            (&Method::POST, "/admin/negotiate") => {
                let need = serde_json::from_slice::<Need>(&body).map_err(|error| error.to_string());
                let verdict = need
                    .and_then(|need| gateway.negotiate(&need).map_err(|error| error.to_string()));
                match verdict {
                    Ok(verdict) => say(StatusCode::OK, &verdict),
                    Err(error) => say(StatusCode::BAD_REQUEST, &json!({"error": error})),
                }
            }
            _ => say(
                StatusCode::METHOD_NOT_ALLOWED,
                &json!({"error": "this method is not allowed here"}),
            ),
        }
    }
}

fn say(status: StatusCode, body: &impl Serialize) -> Response<Bytes> {
    let mut text = serde_json::to_vec_pretty(body).unwrap_or_default();
    text.push(b'\n');
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
