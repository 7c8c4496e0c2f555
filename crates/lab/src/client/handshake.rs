//! Which era and revision, who the server is, which tools it has.
//!
//! The probe is `server/discover`, which every server of 2026-07-28 answers; whatever else comes
//! back leads to `initialize`. A process that dies of the probe is started again. An HTTP endpoint
//! that knows neither is asked for the event stream of HTTP+SSE.
//!
//! The verdicts are the lab's own, beside those of `mcplane_proto`'s `Handshake`: that one forgives, as a
//! client must (a revision that was asked for stands, whatever came of the probe), where the lab refuses
//! to measure, and an instrument that shared its table could not see it wrong.

use std::fmt;
use std::time::{Duration, Instant};

use mcplane_proto::error::Code;
use mcplane_proto::limits::PROBE_TIMEOUT;
use mcplane_proto::message::{Kind, Part};
use mcplane_proto::meta::{CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION};
use mcplane_proto::text::line;
use mcplane_proto::{Era, Message, Method, Revision};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::site::{Connection, Site};
use super::speak::Speak;
use super::wire::Silence;
use crate::error::Error;
use crate::text::shorten;

/// Most pages of `tools/list` that are read.
const PAGES_MAX: usize = 100;

/// Most tools that are looked at.
const TOOLS_MAX: usize = 10_000;

/// Who the server is, and how to speak to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// The server's name, if it gave one.
    pub name: Option<String>,
    /// The server's version, if it gave one.
    pub version: Option<String>,
    /// The revision spoken.
    pub revision: Revision,
}

impl Peer {
    /// The era spoken.
    #[must_use]
    pub const fn era(&self) -> Era {
        self.revision.era()
    }

    /// The params of `tools/call`, the arguments byte for byte.
    pub(crate) fn call(&self, tool: &str, args: &RawValue) -> Vec<u8> {
        let (name, args) = (Value::from(tool), args.get());
        match envelope(self.revision) {
            Some(meta) => format!(r#"{{"name":{name},"arguments":{args},"_meta":{meta}}}"#),
            None => format!(r#"{{"name":{name},"arguments":{args}}}"#),
        }
        .into_bytes()
    }
}

/// What starting up took, from the moment before the process was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Start {
    /// Until the handshake was answered; a probe that the server did not know is part of it.
    pub handshake: Duration,
    /// Until the first `tools/list` was answered in full.
    pub tools: Duration,
}

/// A tool as the server lists it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The JSON Schema of its arguments.
    #[serde(default)]
    pub input_schema: Value,
    /// What the server says about its effects.
    #[serde(default)]
    pub annotations: Value,
}

/// A connection that is ready for calls.
pub(crate) struct Opened {
    pub(crate) connection: Connection,
    pub(crate) peer: Peer,
    pub(crate) tools: Vec<Tool>,
    pub(crate) start: Start,
}

/// How a connection is to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) speak: Speak,
    /// The time limit of each step.
    pub(crate) timeout: Duration,
    /// Time to stop after stdin is closed, and again after SIGTERM.
    pub(crate) stop_grace: Duration,
}

/// Connects, shakes hands, lists the tools.
pub(crate) async fn open(site: &mut Site, opening: &Opening) -> Result<Opened, Error> {
    let (mut connection, peer) = shake(site, opening).await?;
    let handshake = connection.started.elapsed();
    match tools(&mut connection, &peer, opening.timeout).await {
        Ok(tools) => {
            let start = Start { handshake, tools: connection.started.elapsed() };
            Ok(Opened { connection, peer, tools, start })
        }
        Err(what) => Err(connection.fail(what).await),
    }
}

async fn shake(site: &mut Site, opening: &Opening) -> Result<(Connection, Peer), Error> {
    let limit = opening.timeout;
    let mut connection = site.connect(limit).await?;
    let wanted = match opening.speak {
        Speak::Auto => None,
        Speak::Era(Era::Legacy) => Some(Revision::LATEST_LEGACY),
        Speak::Era(_) => Some(Revision::LATEST),
        Speak::Revision(revision) => Some(revision),
    };
    let legacy = wanted.filter(|revision| revision.era() == Era::Legacy);
    let shaken = match legacy {
        Some(revision) => initialize(&mut connection, revision, limit).await,
        None => match discover(&mut connection, limit).await {
            Ok(Probe::Modern(peer)) => Ok(peer),
            Err(what) => Err(Unshaken::Why(what)),
            Ok(probe) if wanted.is_some() => Err(Unshaken::Why(format!(
                "it does not speak {}: {}",
                Revision::LATEST,
                probe.describe()
            ))),
            Ok(probe) => {
                if matches!(probe, Probe::Died) {
                    connection.stop(opening.stop_grace).await;
                    connection = site.connect(limit).await?;
                }
                initialize(&mut connection, Revision::LATEST_LEGACY, limit).await
            }
        },
    };
    let shaken = match shaken {
        Err(Unshaken::NotHere(what)) if site.fall_back() => {
            connection.stop(opening.stop_grace).await;
            connection = site.connect(limit).await.map_err(|error| match error {
                Error::Unreachable { what: sse } => {
                    Error::Unreachable { what: format!("{sse}, and over Streamable HTTP {what}") }
                }
                other => other,
            })?;
            initialize(&mut connection, legacy.unwrap_or(Revision::LATEST_LEGACY), limit).await
        }
        other => other,
    };
    match shaken {
        Err(Unshaken::NotHere(what) | Unshaken::Why(what)) => Err(connection.fail(what).await),
        Ok(peer) if !matches!((opening.speak, peer.revision), (Speak::Revision(a), b) if a != b) => {
            connection.wire.agree(peer.revision);
            Ok((connection, peer))
        }
        Ok(peer) => {
            let what = format!("it speaks {}, not the revision asked for", peer.revision);
            Err(connection.fail(what).await)
        }
    }
}

/// Why the handshake failed.
enum Unshaken {
    /// The HTTP endpoint takes no such request (400, 404, 405): it may be one of HTTP+SSE.
    NotHere(String),
    /// Anything else.
    Why(String),
}

impl From<String> for Unshaken {
    fn from(why: String) -> Self {
        Self::Why(why)
    }
}

/// What the probe found.
enum Probe {
    Modern(Peer),
    /// Answered, and not as a server of 2026-07-28 does.
    Legacy(String),
    Silent,
    Died,
}

impl Probe {
    fn describe(&self) -> &str {
        match self {
            Self::Modern(_) => "it answered the probe",
            Self::Legacy(answer) => answer,
            Self::Silent => "no answer to server/discover",
            Self::Died => "it ended on server/discover",
        }
    }
}

/// Probes; a second time where the answer contradicts itself.
async fn discover(connection: &mut Connection, limit: Duration) -> Result<Probe, String> {
    let params = params(Revision::LATEST, json!({}));
    for _ in 0..2 {
        let wait = limit.min(PROBE_TIMEOUT);
        let is_http = connection.wire.is_http();
        let reply = match connection.wire.request(Method::Discover, &params, None, wait).await {
            Ok(reply) => reply,
            // Over HTTP these are outages or refusals, which say nothing about the era.
            Err(silence @ (Silence::Timeout | Silence::Broken(_))) if is_http => {
                return Err(silent(Method::Discover, &silence, wait));
            }
            Err(silence @ Silence::Status(401 | 403 | 500.., _)) => {
                return Err(silent(Method::Discover, &silence, wait));
            }
            Err(Silence::Status(_, text)) => {
                return Ok(Probe::Legacy(format!("server/discover was answered with {text}")));
            }
            Err(Silence::Timeout) => return Ok(Probe::Silent),
            Err(Silence::Closed | Silence::Broken(_)) => return Ok(Probe::Died),
        };
        let (versions, code) = match reply.kind() {
            Kind::ErrorResponse => {
                let error = Failure::of(&reply);
                let code = Code(error.code);
                let answer = format!("server/discover was answered with {error}");
                match code {
                    Code::UNSUPPORTED_VERSION => (error.supported(), Some(code)),
                    Code::HEADER_MISMATCH | Code::MISSING_CLIENT_CAPABILITY => return Err(answer),
                    _ => return Ok(Probe::Legacy(answer)),
                }
            }
            _ => {
                let found: Discovered = parse(&reply, Part::Result).unwrap_or_default();
                let peer = Peer {
                    name: found.meta.server.name,
                    version: found.meta.server.version,
                    revision: Revision::LATEST,
                };
                if found.supported_versions.iter().any(|v| v == Revision::LATEST.as_str()) {
                    return Ok(Probe::Modern(peer));
                }
                (found.supported_versions, None)
            }
        };
        let known = |era| {
            let mut known = versions.iter().filter_map(|name| Revision::parse(name));
            known.any(|revision| revision.era() == era)
        };
        if known(Era::Modern) && code.is_some() {
            continue;
        }
        if known(Era::Legacy) {
            return Ok(Probe::Legacy(format!("it lists {}", versions.join(", "))));
        }
        return Err(format!("no revision in common: it speaks {}", list(&versions)));
    }
    Err(format!("it refuses {} and lists it as supported", Revision::LATEST))
}

async fn initialize(
    connection: &mut Connection,
    revision: Revision,
    limit: Duration,
) -> Result<Peer, Unshaken> {
    let params = params(
        revision,
        json!({
            "protocolVersion": revision.as_str(),
            "capabilities": {},
            "clientInfo": client(),
        }),
    );
    let reply = connection.wire.request(Method::Initialize, &params, None, limit).await;
    let reply = reply.map_err(|silence| {
        let what = silent(Method::Initialize, &silence, limit);
        match silence {
            Silence::Status(400 | 404 | 405, _) => Unshaken::NotHere(what),
            _ => Unshaken::Why(what),
        }
    })?;
    if reply.kind() == Kind::ErrorResponse {
        let error = Failure::of(&reply);
        if error.code == Code::UNSUPPORTED_VERSION.0 {
            // It was only slow: a late answer to the probe would have said the same.
            if let Probe::Modern(peer) = discover(connection, limit).await? {
                return Ok(peer);
            }
        }
        return Err(format!("initialize was answered with {error}").into());
    }
    let found: Initialized = parse(&reply, Part::Result)
        .ok_or_else(|| format!("its answer to initialize is unreadable: {}", show(&reply)))?;
    let revision = Revision::parse(&found.protocol_version)
        .filter(|revision| revision.era() == Era::Legacy)
        .ok_or_else(|| format!("it wants revision {:?}, unknown here", found.protocol_version))?;
    connection.wire.agree(revision);
    let done = connection.wire.notify(Method::Initialized, b"{}", limit).await;
    done.map_err(|silence| silent(Method::Initialized, &silence, limit))?;
    Ok(Peer { name: found.server_info.name, version: found.server_info.version, revision })
}

async fn tools(
    connection: &mut Connection,
    peer: &Peer,
    limit: Duration,
) -> Result<Vec<Tool>, String> {
    let mut tools = Vec::new();
    let mut cursor: Option<String> = None;
    let until = Instant::now() + limit;
    for _ in 0..PAGES_MAX {
        let object = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
        let left = until.saturating_duration_since(Instant::now());
        let params = params(peer.revision, object);
        let reply = connection.wire.request(Method::ToolsList, &params, None, left).await;
        let reply = reply.map_err(|silence| silent(Method::ToolsList, &silence, limit))?;
        if reply.kind() == Kind::ErrorResponse {
            let error = Failure::of(&reply);
            if error.code == Code::METHOD_NOT_FOUND.0 && tools.is_empty() {
                return Ok(tools);
            }
            return Err(format!("tools/list was answered with {error}"));
        }
        let page: Page = parse(&reply, Part::Result)
            .ok_or_else(|| format!("its answer to tools/list is unreadable: {}", show(&reply)))?;
        tools.extend(page.tools);
        if tools.len() > TOOLS_MAX {
            return Err(format!("it lists more than {TOOLS_MAX} tools"));
        }
        match page.next_cursor {
            Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
            Some(_) => return Err("its tools/list gives the same cursor twice".to_owned()),
            None => return Ok(tools),
        }
    }
    Err(format!("its tools/list has more than {PAGES_MAX} pages"))
}

/// The members of `object` and, where the revision wants it, the envelope.
fn params(revision: Revision, mut object: Value) -> Vec<u8> {
    if let (Some(envelope), Some(members)) = (envelope(revision), object.as_object_mut()) {
        members.insert("_meta".to_owned(), envelope);
    }
    object.to_string().into_bytes()
}

/// What every request of 2026-07-28 says about itself.
fn envelope(revision: Revision) -> Option<Value> {
    (revision.era() == Era::Modern).then(|| {
        json!({
            PROTOCOL_VERSION: revision.as_str(),
            CLIENT_CAPABILITIES: {},
            CLIENT_INFO: client(),
        })
    })
}

fn client() -> Value {
    json!({"name": "mcplane-lab", "version": env!("CARGO_PKG_VERSION")})
}

fn silent(method: Method, silence: &Silence, limit: Duration) -> String {
    match silence {
        Silence::Closed => format!("it closed its output before it answered {method}"),
        Silence::Broken(why) => format!("the connection broke during {method} ({why})"),
        Silence::Status(401 | 403, text) => format!(
            "{method} was answered with {text}; credentials go into --header 'Authorization: …'"
        ),
        Silence::Status(_, text) => format!("{method} was answered with {text}"),
        Silence::Timeout => format!("no answer to {method} within {limit:?}"),
    }
}

fn list(versions: &[String]) -> String {
    if versions.is_empty() { "none that it names".to_owned() } else { versions.join(", ") }
}

fn show(reply: &Message) -> String {
    shorten(reply.bytes())
}

fn parse<T: DeserializeOwned>(reply: &Message, part: Part) -> Option<T> {
    serde_json::from_slice(reply.part(part)?).ok()
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Discovered {
    supported_versions: Vec<String>,
    #[serde(rename = "_meta")]
    meta: DiscoveredMeta,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DiscoveredMeta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server: Named,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    #[serde(deserialize_with = "safe")]
    name: Option<String>,
    #[serde(deserialize_with = "safe")]
    version: Option<String>,
}

/// What a server calls itself is printed on terminals and in logs.
fn safe<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.map(|text| line(&text).into_owned()))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    protocol_version: String,
    #[serde(default)]
    server_info: Named,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tools: Vec<Tool>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// A JSON-RPC error as far as the lab reads it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Failure {
    code: i64,
    message: String,
    data: Value,
}

impl Failure {
    pub(crate) fn of(reply: &Message) -> Self {
        parse(reply, Part::Error).unwrap_or_default()
    }

    /// The revisions that -32022 lists.
    fn supported(&self) -> Vec<String> {
        let listed = self.data.get("supported").cloned().unwrap_or_default();
        serde_json::from_value(listed).unwrap_or_default()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}: {}", self.code, shorten(self.message.as_bytes()))
    }
}
