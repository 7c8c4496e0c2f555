//! The path of a request through the gateway, from top to bottom.
//!
//! What is before it (size, `Host` and `Origin`, who asks, in-flight caps, headers against body) is
//! the library's: `mcplane::transport::http::server`. What is after it is the worker's loop:
//! `upstream::drive`; and the way back is [`settle`](crate::settle).

use std::borrow::Cow;
use std::sync::Arc;

use mcplane::proto::error::{Code, ErrorObject, shorten};
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
use crate::frontend::{Frontend, View};
use crate::settle::{Outcome, Refusal, Reply, Way, settle};
use crate::upstream::call::{Call, Known};
use crate::upstream::pool::Pool;
use crate::upstream::worker::unavailable;

impl Relay for Frontend {
    /// One request: answered from the catalog, or put on its way to a worker.
    fn request(&self, request: Relayed, out: &mut Output) -> Option<Arc<dyn Cancel>> {
        let view = self.view();
        // answer   what the catalog knows needs nobody else
        if is_list(request.method()) {
            view.upstreams.iter().for_each(|upstream| upstream.asked());
            out.reply(|out| list(&view, &request, out));
            let outcome = match out.outcome() {
                Some(message::Outcome::Error(_)) => Outcome::Refused(Refusal::Unknown),
                _ => Outcome::Answered,
            };
            settle(request, Reply::Nothing, outcome, Way::default());
            return None;
        }
        // route    by name, in the catalog of this moment
        let route = match route(&view, &request) {
            Ok(route) => route,
            Err(error) => return refuse(request, &error, (Refusal::Unknown, None), out),
        };
        let Some(upstream) = view.upstreams.get(route.server) else {
            let error = ErrorObject::new(Code::INTERNAL_ERROR, "the catalog has no such server");
            return refuse(request, &error, (Refusal::Unknown, None), out);
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
            Err(error) => return refuse(request, &error, (Refusal::State, Some(pool)), out),
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

/// A request whose answer is on its way back already.
struct Answered;

impl Cancel for Answered {
    fn cancel(&self) {}
}

const fn is_list(method: Method) -> bool {
    matches!(
        method,
        Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::ResourceTemplatesList
    )
}

fn list(view: &View, request: &Relayed, out: &mut Vec<u8>) -> message::Outcome {
    let start = out.len();
    let cursor = match request.message().part(Part::Cursor) {
        None | Some(b"null") => Ok(None),
        Some(_) => text(request.message(), Part::Cursor, "cursor").map(Some),
    };
    write::begin_result(out, request.id_json());
    let listed = cursor.and_then(|cursor| {
        view.snapshot.list(
            request.method(),
            cursor.as_deref(),
            request.revision(),
            &Cache::default(),
            Some(&view.info),
            out,
        )
    });
    match listed {
        Ok(()) => {
            write::end(out);
            message::Outcome::Result
        }
        Err(error) => {
            out.truncate(start);
            write::error(out, Some(request.id_json()), &error);
            message::Outcome::from(&error)
        }
    }
}

/// Where a request goes.
fn route<'a>(view: &'a View, request: &Relayed) -> Result<&'a Route, ErrorObject> {
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
            snapshot.resource(&uri).ok_or_else(|| ErrorObject::resource_not_found(era, &uri))
        }
        Method::Complete => complete(view, message),
        other => Err(ErrorObject::method_not_found(other.as_str())),
    }
}

/// Where an argument is completed: at the server of its prompt or template.
fn complete<'a>(view: &'a View, message: &Message) -> Result<&'a Route, ErrorObject> {
    let (found, kind) = match message.text(Part::RefType).as_deref() {
        Some("ref/prompt") => {
            (view.snapshot.prompt(&text(message, Part::RefName, "ref.name")?), Kind::Prompts)
        }
        Some("ref/resource") => {
            (view.snapshot.template(&text(message, Part::RefUri, "ref.uri")?), Kind::Templates)
        }
        _ => {
            let why = "`ref.type` must be \"ref/prompt\" or \"ref/resource\"";
            return Err(ErrorObject::invalid_params(why));
        }
    };
    let found = found.or_else(|| view.unlisted(kind));
    found.ok_or_else(|| ErrorObject::invalid_params("`ref` names nothing that is known here"))
}

/// The number of a tool whose calls are counted, under the upstream's own name.
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
    error: &ErrorObject,
    (why, pool): (Refusal, Option<&Arc<Pool>>),
    out: &mut Output,
) -> Option<Arc<dyn Cancel>> {
    out.error(Some(request.id_json()), error);
    let way = Way { upstream: pool.map(|pool| &pool.shared), ..Way::default() };
    settle(request, Reply::Nothing, Outcome::Refused(why), way);
    None
}

fn text<'a>(message: &'a Message, part: Part, key: &str) -> Result<Cow<'a, str>, ErrorObject> {
    let missing = || ErrorObject::invalid_params(format!("`{key}` is missing or not a string"));
    message.text(part).ok_or_else(missing)
}

/// A name that nobody has, or that a server may have which has not said what it has.
fn unknown(view: &View, what: &str, name: &str) -> ErrorObject {
    let name = shorten(name);
    let silent = view.upstreams.iter().find(|upstream| upstream.offer.load().is_none());
    let Some(upstream) = silent else {
        return ErrorObject::invalid_params(format!("unknown {what}: {name}"));
    };
    let cause = upstream.pool.status.cause();
    let why = cause.map(|cause| cause.for_clients());
    unavailable(&format!(
        "no server that runs has the {what} {name}, and `{}` has not said what it has: {}",
        upstream.name,
        why.as_deref().unwrap_or("it is still starting")
    ))
}
