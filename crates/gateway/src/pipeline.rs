//! The path of a request through the gateway, from top to bottom.
//!
//! What is before it (size, `Host` and `Origin`, who asks, in-flight caps, headers against body) is
//! the library's: `mcplane::transport::http::server`. What is after it is the worker's loop:
//! `upstream::drive`; and the way back is [`settle`](crate::settle).

use std::borrow::Cow;
use std::sync::Arc;

use mcplane::proto::frame::Output;
use mcplane::proto::headers::ParamHeader;
use mcplane::proto::message::{self, Message, Part, write};
use mcplane::proto::method::Method;
use mcplane::proto::session::ServerConfig;
use mcplane::proto::types::{Cache, LogLevel};
use mcplane::proto::version::Era;
use mcplane::server::relay::{Caller, Cancel, Relay, Relayed};

use crate::catalog::{Kind, Route};
use crate::era::park::Resumed;
use crate::era::replay;
use crate::failure::Failure;
use crate::frontend::{Frontend, View};
use crate::outcome::Outcome;
use crate::settle::{Reply, Tally, Way, settle};
use crate::upstream::call::{Call, Known};
use crate::upstream::model::Pool;

impl Relay for Frontend {
    /// One request: answered from the catalog, or put on its way to a worker.
    fn request(&self, request: Relayed, out: &mut Output) -> Option<Arc<dyn Cancel>> {
        let (view, own) = (self.view(), &*self.tally);
        // answer   lists come from the catalog
        if let Some(kind) = Kind::of(request.method()) {
            view.upstreams.iter().for_each(|upstream| upstream.asked());
            return match list(&view, kind, &request, out) {
                Ok(()) => {
                    settle(request, Reply::Nothing, Outcome::Answered, Way::to(own));
                    None
                }
                Err(failure) => refuse(request, &failure, own, out),
            };
        }
        // route    by name, in the catalog of this moment
        let route = match route(&view, &request) {
            Ok(route) => route,
            Err(failure) => return refuse(request, &failure, own, out),
        };
        let Some(upstream) = view.upstreams.get(route.server) else {
            return refuse(request, &Failure::NoServer, own, out);
        };
        let pool = &upstream.pool;
        // resume   a client of 2026-07-28 that comes back with answers to its parked call
        let request = match pool.shared.questions.parking.resume(pool, request) {
            Resumed::Not(request) => request,
            Resumed::Again(call) => return Some(call),
            Resumed::Answered => return Some(Arc::new(Answered)),
        };
        // level    the least severe log messages that this request wants
        if let (Some(level), Era::Modern) = (request.log_level(), request.revision().era()) {
            self.raise_level(upstream, request.caller(), level);
        }
        // reopen   the state that an upstream of 2026-07-28 gave to this client
        let retry = match replay::reopen(pool, &request) {
            Ok(retry) => retry,
            Err(failure) => {
                return refuse(request, &failure, &pool.shared.tally, out);
            }
        };
        // limit    calls of a tool with a limit of its own take turns
        let tool = limited(pool, &request, route);
        // send     to a worker, or into its queue; there ids, tokens and names are replaced, and
        //          what the eras say differently is translated
        let is_tool = request.method() == Method::ToolsCall;
        let known = Known {
            name: route.original.clone(),
            tool,
            repeatable: !is_tool || route.read_only || route.idempotent,
            wraps: route.wraps_output,
            retry,
        };
        let call = Call::new(request, known, Arc::clone(pool));
        pool.submit(Arc::clone(&call));
        // settle   whatever comes of it, in `settle`
        Some(call)
    }

    fn config(&self, caller: &Caller) -> Arc<ServerConfig> {
        Arc::clone(self.view().config_for(caller))
    }

    fn mirrored(&self, tool: &str) -> Option<Arc<[ParamHeader]>> {
        self.view().snapshot.tool(tool)?.mirrored.clone()
    }

    fn watch(&self, caller: &Caller, uri: &str) {
        self.subscribe(caller, uri);
    }

    fn unwatch(&self, caller: &Caller, uri: &str) {
        self.unsubscribe(caller, uri);
    }

    fn set_log_level(&self, caller: &Caller, level: &LogLevel) {
        self.set_level(caller, level);
    }

    fn noted(&self, caller: &Caller, note: &Message) {
        for upstream in &self.view().upstreams {
            match note.method() {
                Some(Method::Progress) => upstream.pool.shared.questions.progress(caller, note),
                _ => upstream.pool.tell_workers_of(caller, note),
            }
        }
    }

    fn ended(&self, caller: &Caller) {
        self.forget(caller);
        for upstream in &self.view().upstreams {
            upstream.pool.ended(caller);
        }
    }
}

/// A request that has been answered already.
struct Answered;

impl Cancel for Answered {
    fn cancel(&self) {}
}

/// Appends a page of a list.
fn list(view: &View, kind: Kind, request: &Relayed, out: &mut Output) -> Result<(), Failure> {
    let cursor = match request.message().part(Part::Cursor) {
        None | Some(b"null") => None,
        Some(_) => Some(text(request.message(), Part::Cursor, "cursor")?),
    };
    let page = view.snapshot.page(kind, cursor.as_deref(), request.revision());
    let page = page.map_err(|_| Failure::Cursor)?;
    out.reply(|out| {
        write::begin_result(out, request.id_json());
        page.write(&Cache::default(), Some(&view.info), out);
        write::end(out);
        message::Outcome::Result
    });
    Ok(())
}

/// Where a request goes.
fn route<'a>(view: &'a View, request: &Relayed) -> Result<&'a Route, Failure> {
    let (snapshot, message) = (&view.snapshot, request.message());
    match request.method() {
        Method::ToolsCall => {
            let name = text(message, Part::Name, "name")?;
            let route = snapshot.tool(&name).or_else(|| view.unlisted(Kind::Tools));
            route.ok_or_else(|| unknown(view, "tool", &name))
        }
        Method::PromptsGet => {
            let name = text(message, Part::Name, "name")?;
            let route = snapshot.prompt(&name).or_else(|| view.unlisted(Kind::Prompts));
            route.ok_or_else(|| unknown(view, "prompt", &name))
        }
        Method::ResourcesRead => {
            let uri = text(message, Part::Uri, "uri")?;
            let era = request.revision().era();
            let missing = || Failure::UnknownResource { era, uri: uri.to_string() };
            snapshot.resource(&uri).ok_or_else(missing)
        }
        Method::Complete => complete(view, message),
        other => Err(Failure::UnknownMethod(other)),
    }
}

/// Where an argument is completed: at the server of its prompt or template.
fn complete<'a>(view: &'a View, message: &Message) -> Result<&'a Route, Failure> {
    let (found, kind) = match message.text(Part::RefType).as_deref() {
        Some("ref/prompt") => {
            (view.snapshot.prompt(&text(message, Part::RefName, "ref.name")?), Kind::Prompts)
        }
        Some("ref/resource") => {
            (view.snapshot.template(&text(message, Part::RefUri, "ref.uri")?), Kind::Templates)
        }
        _ => return Err(Failure::RefType),
    };
    found.or_else(|| view.unlisted(kind)).ok_or(Failure::UnknownRef)
}

/// The number of a tool that has a limit of its own, looked up by the upstream's name for it.
fn limited(pool: &Pool, request: &Relayed, route: &Route) -> Option<usize> {
    let tools = &pool.shared.tools;
    if tools.are_none() || request.method() != Method::ToolsCall {
        return None;
    }
    match &route.original {
        Some(name) => tools.number(name),
        None => tools.number(&request.message().text(Part::Name)?),
    }
}

fn refuse(
    request: Relayed,
    failure: &Failure,
    to: &Tally,
    out: &mut Output,
) -> Option<Arc<dyn Cancel>> {
    out.error(Some(request.id_json()), &failure.object());
    settle(request, Reply::Nothing, failure.outcome(), Way::to(to));
    None
}

fn text<'a>(message: &'a Message, part: Part, key: &'static str) -> Result<Cow<'a, str>, Failure> {
    message.text(part).ok_or(Failure::Parameter(key))
}

/// A name that no list has. A server that has not listed anything yet may have it.
fn unknown(view: &View, what: &'static str, name: &str) -> Failure {
    let name = name.to_owned();
    let silent = view.upstreams.iter().find(|upstream| upstream.offer.load().is_none());
    let Some(upstream) = silent else {
        return Failure::UnknownName { what, name };
    };
    let cause = upstream.pool.status.cause();
    let cause = cause.map(|cause| cause.for_clients());
    Failure::NotListed { what, name, upstream: upstream.name.to_string(), cause }
}
