//! The settings themselves: plain data, as the file has them.
//!
//! A value of these types may be anything that fits the type; [`Config::load`] and
//! [`Config::parse`] give only what also keeps the rules between the keys.
//!
//! [`Config::load`]: super::Config::load
//! [`Config::parse`]: super::Config::parse
#![allow(
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "settings are built by whoever starts a gateway without a file"
)]

use std::{collections::BTreeMap, env, net::SocketAddr, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    address::Listen,
    servers::Servers,
    speaks::Speaks,
    units::{Period, Secret, Size},
};

/// Workers that a server in a keyed mode may have when `workers_max` is not set.
pub const KEYED_WORKERS_MAX: u32 = 16;

/// The settings of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "mcplane.toml")]
pub struct Config {
    /// The gateway itself.
    pub gateway: Gateway,
    /// The servers behind it by name, in the order of the file. A name is 1 to 64 characters of
    /// `a-z`, `0-9`, `_` and `-`, begins with a letter or digit, and has no `__` inside.
    pub servers: Servers,
}

/// The settings of the gateway itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Gateway {
    /// Where to listen, a string or a list: `"127.0.0.1:8765"` (HTTP and WebSocket; port 0 picks
    /// one), `"tcp://127.0.0.1:9000"`, `"unix:/run/mcplane.sock"`, `"stdio"`. Default:
    /// `"127.0.0.1:8765"`.
    #[serde(deserialize_with = "super::load::one_or_more")]
    #[schemars(schema_with = "super::schema::listen")]
    pub listen: Vec<Listen>,
    /// When the name of a tool, prompt or resource gets its server's name and `__` in front.
    /// Default: `"collision"`.
    pub names: Names,
    /// How long calls in flight may still run at shutdown. Default: `"10s"`.
    pub drain: Period,
    /// How long the start waits for servers before it listens anyway. Default: `"10s"`.
    pub ready: Period,
    /// How long a list waits for one server; a slower server is missing from it until the next
    /// list-changed notification. Default: `"5s"`.
    pub list_deadline: Period,
    /// How old a list may be, of a server that neither tells of changes nor for how long its lists
    /// are fresh, before it is read again when a client asks; `"0s"` is any age. Default: `"5m"`.
    pub list_max_age: Period,
    /// How many processes are started at the same time, 1 to 256. Default: 4.
    pub start_parallel: u32,
    /// How long a call may go without an answer and without progress before it fails; `"0s"` is
    /// never. Default: `"300s"`.
    pub call_timeout: Period,
    /// How long a call that waits for its client's answer to a question may keep a place for which
    /// other calls wait. Default: `"30s"`.
    pub question_timeout: Period,
    /// How long a client's session lives without a request or an open stream (clients up to
    /// 2025-11-25, over HTTP): many never say that they leave. Default: `"30m"`.
    pub session_idle: Period,
    /// Most memory for requests and answers that wait: what is longer than 4 KiB and finds no room is
    /// refused, to be tried again. Default: a quarter of what the machine, its container or its limits
    /// leave, 32 MiB to 4 GiB.
    pub memory: Option<Size>,
    /// More `Host` names to accept than the address itself and the names of this machine's
    /// loopback. Default: none.
    pub hosts: Vec<String>,
    /// More `Origin`s to accept than those of this machine's loopback. Default: none.
    pub origins: Vec<String>,
    /// The bearer token of each principal: the token itself, `"env:NAME"` or `"file:PATH"`. Empty:
    /// nobody is asked for one. Default: empty.
    pub tokens: BTreeMap<String, Secret>,
    /// The principals that may use `/admin/*`. Where nobody has a token, whoever comes in at a
    /// loopback address may. Default: none.
    pub admins: Vec<String>,
    /// What states of questions are sealed with, so that they hold after a restart and on other
    /// gateways with the same key: 32 characters or more, `"env:NAME"` or `"file:PATH"`. Default: a
    /// random one for each start.
    pub state_key: Option<Secret>,
    /// New connections per second of one client's address; 0 is no limit. Default: 100.
    pub accept_rate: u32,
    /// The folder of the discovery file and of the last good lists. Default:
    /// `$XDG_STATE_HOME/mcplane`, else `~/.local/state/mcplane` (`%LOCALAPPDATA%\mcplane` on
    /// Windows).
    pub state_dir: Option<PathBuf>,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], 8765)).into()],
            names: Names::Collision,
            drain: Period::of_s(10),
            ready: Period::of_s(10),
            list_deadline: Period::of_s(5),
            list_max_age: Period::of_s(300),
            start_parallel: 4,
            call_timeout: Period::of_s(300),
            question_timeout: Period::of_s(30),
            session_idle: Period::of_s(30 * 60),
            memory: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            tokens: BTreeMap::new(),
            admins: Vec::new(),
            state_key: None,
            accept_rate: 100,
            state_dir: None,
        }
    }
}

impl Gateway {
    /// The folder to keep state in: `state_dir`, or the default; `None` on a machine that says
    /// neither where state nor where the home folder is.
    pub fn state_folder(&self) -> Option<PathBuf> {
        let folder = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        self.state_dir.clone().or_else(|| {
            let state = folder("XDG_STATE_HOME")
                .or_else(|| if cfg!(windows) { folder("LOCALAPPDATA") } else { None })
                .or_else(|| folder("HOME").map(|home| home.join(".local/state")));
            Some(state?.join("mcplane"))
        })
    }
}

/// When a name gets the prefix `server__`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Names {
    /// Only when two servers have the same name for something.
    #[default]
    Collision,
    /// Always.
    Always,
}

/// One server behind the gateway: a command to run, or the address of one that runs already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = super::schema::command_or_url)]
pub struct Server {
    /// The program to run; a relative path with a `/` starts at the folder of this file. Either
    /// this or `url`.
    pub command: Option<String>,
    /// The arguments of `command`. Default: none.
    pub args: Vec<String>,
    /// The arguments as the file has them, if it has references in them: what messages show.
    #[serde(skip)]
    pub written_args: Option<Vec<String>>,
    /// Environment variables for `command`, beside the few that every server gets from the gateway
    /// and those of `inherit_env`. Default: none.
    pub env: BTreeMap<String, Secret>,
    /// Environment variables of the gateway that `command` gets, too: names, or how they begin and
    /// `*`. One that is not set is left out. Default: none.
    pub inherit_env: Vec<String>,
    /// The working folder of `command`; a relative one starts at the folder of this file. Default:
    /// that of the gateway.
    pub cwd: Option<PathBuf>,
    /// The address of a server that runs already: `http://`, `https://`, `ws://`, `wss://`,
    /// `tcp://HOST:PORT` or `unix:PATH`. Either this or `command`.
    pub url: Option<String>,
    /// HTTP headers for every request to `url`. Default: none.
    pub headers: BTreeMap<String, Secret>,
    /// What the server speaks: `"auto"` (asked once), `"legacy"` (any with `initialize`), or one
    /// revision. With `"auto"`, a server that speaks both 2026-07-28 and an older revision has
    /// workers of both kinds, each client its own. Default: `"auto"`.
    pub revision: Speaks,
    /// Who shares a worker. Default: `"shared"`.
    pub mode: Mode,
    /// Workers that are warm before the first call, 1 to 256. Default: 1.
    pub workers: u32,
    /// Most workers at any time, 1 to 256. Default: `workers` for `shared` and `exclusive`, 16 (or
    /// `workers`, if that is more) for `per_session` and `per_principal`. It holds for clients of
    /// 2026-07-28 and for older ones each, where the server speaks both. In `per_session` there is one
    /// more, which reads the lists of a server of an older revision.
    pub workers_max: Option<u32>,
    /// Most further workers of `shared` for calls that may ask their caller something while other
    /// clients' calls run, one call each, 0 to 256: nothing but that tells whose a question is on a
    /// connection of an older revision. They are started once the server has asked, and end after
    /// `idle_stop`; 0 is none. Default: 16.
    pub ask_workers: u32,
    /// Calls in flight on one worker; `exclusive` makes it 1. Default: 64.
    pub calls_per_worker: u32,
    /// Calls that wait for a worker; one more is refused at once. Default: 256.
    pub queue: u32,
    /// How long a call may wait for a worker before it fails. Default: `"60s"`.
    pub queue_timeout: Period,
    /// How long a call of this server may go without an answer and without progress before it fails;
    /// `"0s"` is never. Default: that of `gateway.call_timeout`.
    pub call_timeout: Option<Period>,
    /// A worker of `per_session` or `per_principal` that has had no call for so long is stopped, and
    /// in every mode the workers for older clients of a server of 2026-07-28 and the `ask_workers`;
    /// `"0s"` is never.
    /// Default: `"5m"`.
    pub idle_stop: Period,
    /// Most memory of a worker's process tree; a worker above it is replaced. Default: no limit.
    pub memory_max: Option<Size>,
    /// Which worker gets a call. Default: `"recent_idle"`.
    pub policy: Policy,
    /// How a worker that died is replaced.
    pub restart: Restart,
    /// How it is found out whether a worker that says nothing still answers.
    pub probe: Probe,
    /// Whether a call in flight on a worker that died is sent again, once, if its tool says
    /// `readOnlyHint` or `idempotentHint`. Default: false.
    pub retry: bool,
    /// How long the handshake may wait for a person to approve the server; `"0s"` is not at all:
    /// the handshake fails after 30 s. Default: `"0s"`.
    pub approval: Period,
    /// Whether the gateway leaves this server out. Default: false.
    pub disabled: bool,
    /// `file://` URIs: what a server hears that asks for roots outside of any call. Default: none.
    pub roots: Vec<String>,
    /// Which tools are shown, under which names, and how many calls each may have.
    pub tools: Tools,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            written_args: None,
            env: BTreeMap::new(),
            inherit_env: Vec::new(),
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            revision: Speaks::Auto,
            mode: Mode::Shared,
            workers: 1,
            workers_max: None,
            ask_workers: 16,
            calls_per_worker: 64,
            queue: 256,
            queue_timeout: Period::of_s(60),
            call_timeout: None,
            idle_stop: Period::of_s(300),
            memory_max: None,
            policy: Policy::RecentIdle,
            restart: Restart::default(),
            probe: Probe::default(),
            retry: false,
            approval: Period::ZERO,
            disabled: false,
            roots: Vec::new(),
            tools: Tools::default(),
        }
    }
}

impl Server {
    /// Most workers at any time: `workers_max` or its default.
    pub fn workers_limit(&self) -> u32 {
        let keyed = self.mode.is_keyed();
        let default = if keyed { self.workers.max(KEYED_WORKERS_MAX) } else { self.workers };
        self.workers_max.unwrap_or(default)
    }

    /// Calls in flight on one worker: `calls_per_worker`, or 1 in `exclusive`.
    pub fn calls_limit(&self) -> u32 {
        if self.mode == Mode::Exclusive { 1 } else { self.calls_per_worker }
    }
}

/// Who shares a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Everybody shares all workers: for servers that remember nothing.
    #[default]
    Shared,
    /// Each client session has a worker of its own.
    PerSession,
    /// Each principal has a worker of its own, shared by all of its sessions.
    PerPrincipal,
    /// Everybody shares all workers, and each works on one call at a time.
    Exclusive,
}

impl Mode {
    /// Whether a worker belongs to one session or principal.
    pub const fn is_keyed(self) -> bool {
        matches!(self, Self::PerSession | Self::PerPrincipal)
    }

    /// The name in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::PerSession => "per_session",
            Self::PerPrincipal => "per_principal",
            Self::Exclusive => "exclusive",
        }
    }
}

/// Which worker gets a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The idle worker that was busy last, whose caches are warm; else the least busy one.
    #[default]
    RecentIdle,
    /// The worker with the fewest calls in flight.
    LeastBusy,
    /// The less busy one of two that chance picks.
    TwoChoices,
    /// One after the other.
    RoundRobin,
    /// The same worker for the same session.
    Sticky,
}

/// How it is found out whether a worker that says nothing still answers: it is asked, and replaced if
/// it does not. A server that has never answered such a question is not judged by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Probe {
    /// An idle worker is asked each time after so long; `"0s"` is never. Default: `"30s"`.
    pub every: Period,
    /// How long the answer may take. Default: `"5s"`.
    pub timeout: Period,
    /// Answers in a row that an idle worker may miss before it is replaced, 1 to 100. One that has let
    /// a call time out may miss none. Default: 2.
    pub misses: u32,
}

impl Default for Probe {
    fn default() -> Self {
        Self { every: Period::of_s(30), timeout: Period::of_s(5), misses: 2 }
    }
}

/// How a worker that died is replaced: the first time at once, then after waits that double.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Restart {
    /// First wait. Default: `"200ms"`.
    pub first: Period,
    /// Longest wait. Default: `"30s"`.
    pub longest: Period,
    /// Restarts within `window` before the server is given up until the window has passed; 0 is no
    /// restart at all. Default: 10.
    pub budget: u32,
    /// The time in which restarts count. Default: `"10m"`.
    pub window: Period,
}

impl Default for Restart {
    fn default() -> Self {
        Self {
            first: Period::of_ms(200),
            longest: Period::of_s(30),
            budget: 10,
            window: Period::of_s(600),
        }
    }
}

/// Which tools of a server are shown, under which names, and how many calls each may have. All
/// names here are those that the server itself uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tools {
    /// Patterns of the tools to show, where `*` stands for any characters and `?` for one; empty is
    /// all of them. Default: empty.
    pub allow: Vec<String>,
    /// Patterns of the tools to hide, stronger than `allow`. Default: none.
    pub deny: Vec<String>,
    /// Other names for tools: `old = "new"`. Default: none.
    pub rename: BTreeMap<String, String>,
    /// Most calls in flight of a tool, over all workers: `tool = 1`. Default: no limit but those of
    /// the workers.
    pub concurrency: BTreeMap<String, u32>,
    /// The `call_timeout` of single tools: `tool = "10m"`. Default: that of the server.
    pub timeouts: BTreeMap<String, Period>,
    /// Tools that ask their caller something (elicitation, sampling, roots) and are not to be learned
    /// first: each call has a worker to itself, of the `ask_workers`. Default: none.
    pub asks: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_mode() {
        let server = |mode, workers| Server { mode, workers, ..Server::default() };
        assert_eq!(server(Mode::Shared, 3).workers_limit(), 3);
        assert_eq!(server(Mode::PerSession, 3).workers_limit(), KEYED_WORKERS_MAX);
        assert_eq!(server(Mode::PerPrincipal, 40).workers_limit(), 40);
        let capped = Server { workers_max: Some(2), ..server(Mode::PerSession, 1) };
        assert_eq!(capped.workers_limit(), 2);
        assert_eq!(server(Mode::Exclusive, 1).calls_limit(), 1);
        assert_eq!(server(Mode::Shared, 1).calls_limit(), 64);
    }
}
