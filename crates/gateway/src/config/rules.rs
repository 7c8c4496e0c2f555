//! The rules between the keys, and those that no type can say. All that are broken are told.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt::Display,
};

use mcplane::transport::Address;

use super::{
    SERVERS_MAX,
    error::{FAULTS_MAX, Finding},
    model::{Config, Gateway, Mode, Server},
    tree::{Places, written},
    units::{Period, Size},
};

/// Most addresses to listen on.
const LISTEN_MAX: usize = 16;

/// Most workers of one server, and most processes that start at once.
const WORKERS_MAX: u32 = 256;

/// Most calls in flight on one worker, and most that wait for one: each keeps its request in
/// memory.
const CALLS_MAX: u32 = 65_536;

/// Most answers to probes that a worker may miss.
const PROBE_MISSES_MAX: u32 = 100;

/// Longest name of a tool: what the specification allows.
const TOOL_NAME_CHARS_MAX: usize = 128;

/// Longest name of a principal or server.
const NAME_CHARS_MAX: usize = 64;

/// Shortest key that cannot be guessed, in bytes.
const KEY_BYTES_MIN: usize = 32;

/// Least memory that a worker can be limited to. Below it somebody forgot the unit.
const MEMORY_MIN: Size = Size::of_bytes(1 << 20);

/// Least memory for what waits: twice the longest message.
const MESSAGES_MIN: Size = Size::of_bytes(32 << 20);

/// The first part of the paths of the gateway's own pages.
pub(crate) const OWN_NAME: &str = "admin";

/// Headers that belong to the transport.
const OWN_HEADERS: [&str; 8] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Adds a finding for every rule that is broken.
pub(super) fn check(config: &Config, places: &Places, findings: &mut Vec<Finding>) {
    let mut report = Report { places, findings };
    report.gateway(&config.gateway);
    if config.servers.len() > SERVERS_MAX {
        report.at(&["servers"], format!("more than {SERVERS_MAX} servers"));
    }
    for (name, server) in config.servers.iter() {
        if name == OWN_NAME {
            let why = format!("`{name}` cannot name a server: its paths are the gateway's own");
            report.key(&["servers", name], why);
        }
        if !is_server_name(name) {
            let expected = "1 to 64 of a-z, 0-9, `_` and `-`, a letter or digit first, no `__`";
            report.key(
                &["servers", name],
                format!("`{name}` cannot name a server; expected {expected}"),
            );
        }
        if !server.disabled {
            report.server(name, server);
        }
    }
}

/// Whether a server may have this name: it becomes part of URLs and, with `__`, of tool names.
pub(super) fn is_server_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= NAME_CHARS_MAX
        && name.starts_with(fits)
        && name.chars().all(|c| fits(c) || c == '_' || c == '-')
        && !name.contains("__")
}

struct Report<'a> {
    places: &'a Places,
    findings: &'a mut Vec<Finding>,
}

impl Report<'_> {
    /// Tells what is wrong with the value of a key, or with the table in which it is missing.
    fn at(&mut self, path: &[&str], message: impl Display) {
        let place = self.places.nearest(path);
        let missing = self.places.get(path).is_none();
        let span = place.map(|place| if missing { place.key.clone() } else { place.value.clone() });
        self.push(path, span.unwrap_or_default(), message);
    }

    /// Tells what is wrong with a key itself.
    fn key(&mut self, path: &[&str], message: impl Display) {
        let span = self.places.nearest(path).map(|place| place.key.clone());
        self.push(path, span.unwrap_or_default(), message);
    }

    fn push(&mut self, path: &[&str], span: std::ops::Range<usize>, message: impl Display) {
        if self.findings.len() < FAULTS_MAX {
            let (key, message) = (written(path), message.to_string());
            self.findings.push(Finding { span, key, message, help: None });
        }
    }

    /// Whether something at or below this key has been told already.
    fn told(&self, path: &[&str]) -> bool {
        let path = written(path);
        self.findings.iter().any(|finding| {
            finding
                .key
                .strip_prefix(&path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }

    fn number(&mut self, path: &[&str], value: u32, min: u32, max: u32) {
        if value < min || value > max {
            self.at(path, format_args!("{value} is out of range; expected {min} to {max}"));
        }
    }

    fn gateway(&mut self, gateway: &Gateway) {
        self.listen(gateway);
        self.number(&["gateway", "start_parallel"], gateway.start_parallel, 1, WORKERS_MAX);
        if gateway.list_deadline.is_zero() {
            self.at(
                &["gateway", "list_deadline"],
                "a list takes time to read; expected more than \"0s\"",
            );
        }
        if gateway.session_idle.is_zero() {
            self.at(
                &["gateway", "session_idle"],
                "a session needs some time; expected more than \"0s\"",
            );
        }
        if gateway.memory.is_some_and(|memory| memory < MESSAGES_MIN) {
            let message = format!("expected at least {MESSAGES_MIN}, such as \"512MiB\"");
            self.at(&["gateway", "memory"], message);
        }
        for host in &gateway.hosts {
            if host.contains('*') {
                let why = "is not a host: with any name, every page on the web could call the tools through \
                           DNS rebinding; expected names, or `gateway.tokens`, with which every name is \
                           answered to";
                self.at(&["gateway", "hosts"], format_args!("`{host}` {why}"));
            } else if host.is_empty() || host.contains(|c: char| c == '/' || !c.is_ascii_graphic())
            {
                let expected = "a name as in the `Host` header, such as \"mcp.example.org\"";
                self.at(
                    &["gateway", "hosts"],
                    format_args!("`{host}` is not a host; expected {expected}"),
                );
            }
        }
        for origin in &gateway.origins {
            let host = origin.split_once("://").map(|(_, host)| host);
            let whole = host.is_some_and(|host| !host.is_empty() && !host.contains('/'));
            if !(whole && origin.chars().all(|c| c.is_ascii_graphic())) {
                let expected = "a scheme and a host, such as \"https://app.example.org\"";
                self.at(
                    &["gateway", "origins"],
                    format_args!("`{origin}` is not an origin; expected {expected}"),
                );
            }
        }
        self.tokens(gateway);
        self.admins(gateway);
        let length = gateway.state_key.as_ref().map(|key| key.expose().len());
        if length.is_some_and(|length| length < KEY_BYTES_MIN) {
            let why = format!("expected {KEY_BYTES_MIN} characters or more, as random as can be");
            self.at(&["gateway", "state_key"], why);
        }
    }

    fn listen(&mut self, gateway: &Gateway) {
        let path = ["gateway", "listen"];
        if gateway.listen.is_empty() || gateway.listen.len() > LISTEN_MAX {
            self.at(&path, format_args!("expected 1 to {LISTEN_MAX} addresses to listen on"));
        }
        let mut seen = BTreeSet::new();
        for listen in &gateway.listen {
            let any_port = listen.socket().is_some_and(|socket| socket.port() == 0);
            let is_tcp = matches!(listen.address(), Address::Tcp { .. });
            // HTTP and plain TCP cannot have the same port either.
            let shown = listen.to_string();
            let socket = shown.strip_prefix("tcp://").unwrap_or(&shown).to_owned();
            if !any_port && !seen.insert(socket) {
                self.at(&path, format_args!("`{listen}` twice"));
            }
            if is_tcp && !gateway.tokens.is_empty() {
                self.at(
                    &path,
                    format_args!(
                        "`{listen}` would let in whoever has no token, for TCP carries none; \
                         expected HTTP, WebSocket or a `unix:` socket beside `gateway.tokens`"
                    ),
                );
                continue;
            }
            let told = self.told(&["gateway", "tokens"]) || self.told(&["gateway", "hosts"]);
            if !listen.is_public() || !gateway.hosts.is_empty() || told {
                continue;
            }
            if is_tcp {
                self.at(
                    &path,
                    format_args!(
                        "`{listen}` lets other machines call every tool, for TCP carries no \
                         token; expected a loopback address, or `gateway.hosts` to say that the \
                         network is trusted"
                    ),
                );
            } else if gateway.tokens.is_empty() {
                self.at(
                    &path,
                    format_args!(
                        "`{listen}` lets other machines call every tool; expected \
                         `gateway.tokens`, or `gateway.hosts` with the names that clients use"
                    ),
                );
            }
        }
    }

    fn tokens(&mut self, gateway: &Gateway) {
        let mut owners = BTreeMap::new();
        for (principal, token) in &gateway.tokens {
            let path = ["gateway", "tokens", principal.as_str()];
            let chars = principal.chars().count();
            if chars == 0 || chars > NAME_CHARS_MAX || principal.chars().any(char::is_control) {
                self.key(
                    &path,
                    format_args!("expected a name of 1 to {NAME_CHARS_MAX} characters"),
                );
            }
            let token = token.expose();
            if token.is_empty() || !token.chars().all(|c| c.is_ascii_graphic()) {
                self.at(&path, "expected a token of visible ASCII characters without spaces");
                continue;
            }
            match owners.entry(token) {
                Entry::Vacant(free) => drop(free.insert(principal)),
                Entry::Occupied(owner) => {
                    self.at(&path, format_args!("the same token as that of `{}`", owner.get()));
                }
            }
        }
    }

    fn admins(&mut self, gateway: &Gateway) {
        for admin in gateway.admins.iter().filter(|admin| !gateway.tokens.contains_key(*admin)) {
            if !self.told(&["gateway", "tokens"]) {
                let expected = "the name of a principal in `gateway.tokens`";
                let path = ["gateway", "admins"];
                self.at(&path, format_args!("`{admin}` has no token; expected {expected}"));
            }
        }
    }

    fn server(&mut self, name: &str, server: &Server) {
        let path = |key| ["servers", name, key];
        match (&server.command, &server.url) {
            (Some(_), Some(_)) => {
                self.at(&path("url"), "both `command` and `url`; expected one of them")
            }
            // Perhaps one is there, misspelt.
            (None, None) if !self.told(&["servers", name]) => {
                self.key(&["servers", name], "neither `command` nor `url`; expected one of them");
            }
            (Some(command), None) => self.command(name, server, command),
            (None, Some(url)) => self.url(name, server, url),
            (None, None) => {}
        }
        self.pool(name, server);
        for (key, period) in [("first", server.restart.first), ("window", server.restart.window)] {
            if period.is_zero() {
                self.at(&["servers", name, "restart", key], "expected more than \"0s\"");
            }
        }
        if server.probe.timeout.is_zero() {
            self.at(&["servers", name, "probe", "timeout"], "expected more than \"0s\"");
        }
        if !(1..=PROBE_MISSES_MAX).contains(&server.probe.misses) {
            let message =
                format!("`misses` is {}; expected 1 to {PROBE_MISSES_MAX}", server.probe.misses);
            self.at(&["servers", name, "probe", "misses"], message);
        }
        if server.restart.longest < server.restart.first {
            let (longest, first) = (server.restart.longest, server.restart.first);
            let message = format!("`longest` is {longest}, less than `first`, which is {first}");
            self.at(&["servers", name, "restart", "longest"], message);
        }
        for root in server.roots.iter().filter(|root| !root.starts_with("file://")) {
            self.at(
                &path("roots"),
                format_args!("`{root}` is not a root; expected a `file://` URI"),
            );
        }
        self.tools(name, server);
    }

    fn command(&mut self, name: &str, server: &Server, command: &str) {
        let path = |key| ["servers", name, key];
        if command.trim().is_empty() {
            self.at(&path("command"), "expected the program to run");
        } else if server.args.is_empty()
            && command.trim().contains(' ')
            && !command.contains(['/', '\\'])
        {
            let message =
                "this is not run by a shell; expected the program alone, and `args` for the rest";
            self.at(&path("command"), message);
        }
        if command.contains('\0') {
            self.at(&path("command"), "the name of a program cannot contain a NUL character");
        }
        if server.args.iter().any(|arg| arg.contains('\0')) {
            self.at(&path("args"), "an argument cannot contain a NUL character");
        }
        if !server.headers.is_empty() {
            self.at(&path("headers"), "a command has no headers; expected them beside `url`");
        }
        for (variable, value) in &server.env {
            let path = ["servers", name, "env", variable.as_str()];
            if variable.is_empty() || variable.contains(['=', '\0']) {
                self.key(&path, "expected the name of an environment variable");
            }
            if value.expose().contains('\0') {
                self.at(&path, "an environment variable cannot contain a NUL character");
            }
        }
        for pattern in &server.inherit_env {
            let begin = pattern.strip_suffix('*').unwrap_or(pattern);
            if pattern.is_empty() || begin.contains(['*', '=', '\0']) {
                let expected = "the name of an environment variable, or how names begin and `*`";
                let what = format_args!("`{pattern}` cannot match a variable; expected {expected}");
                self.at(&path("inherit_env"), what);
            }
        }
        if server.memory_max.is_some_and(|memory| memory < MEMORY_MIN) {
            let message = format!("expected at least {MEMORY_MIN}, such as \"512MiB\"");
            self.at(&path("memory_max"), message);
        }
    }

    fn url(&mut self, name: &str, server: &Server, url: &str) {
        let path = |key| ["servers", name, key];
        let address = Address::with_scheme(url);
        match &address {
            Ok(Address::Stdio) => {
                let why = "`stdio` is where the gateway was started from; expected a server";
                self.at(&path("url"), why);
            }
            Ok(_) => {}
            Err(error) => self.at(&path("url"), error),
        }
        let foreign = [
            ("args", !server.args.is_empty()),
            ("cwd", server.cwd.is_some()),
            ("env", !server.env.is_empty()),
            ("inherit_env", !server.inherit_env.is_empty()),
            ("memory_max", server.memory_max.is_some()),
        ];
        for (key, _) in foreign.into_iter().filter(|(_, is_set)| *is_set) {
            self.at(&path(key), format_args!("`{key}` is for servers with `command`, not `url`"));
        }
        let has_headers = matches!(address, Ok(Address::Http(_) | Address::WebSocket(_)) | Err(_));
        if !server.headers.is_empty() && !has_headers {
            self.at(&path("headers"), "only HTTP and WebSocket have headers");
        }
        for (header, value) in &server.headers {
            let path = ["servers", name, "headers", header.as_str()];
            let lower = header.to_ascii_lowercase();
            let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if header.is_empty() || !header.chars().all(token) {
                self.key(&path, "expected the name of an HTTP header");
            } else if OWN_HEADERS.contains(&lower.as_str()) || lower.starts_with("mcp-") {
                self.key(&path, "this header is the gateway's own to send; expected another");
            }
            if value.expose().chars().any(|c| c.is_control() && c != '\t') {
                self.at(&path, "a header cannot contain a line break or another control character");
            }
        }
    }

    fn pool(&mut self, name: &str, server: &Server) {
        let path = |key| ["servers", name, key];
        self.number(&path("workers"), server.workers, 1, WORKERS_MAX);
        if let Some(max) = server.workers_max {
            self.number(&path("workers_max"), max, 1, WORKERS_MAX);
            if max < server.workers {
                let workers = server.workers;
                let message = format!("{max} is less than `workers`, which is {workers}");
                self.at(&path("workers_max"), message);
            }
        }
        self.number(&path("ask_workers"), server.ask_workers, 0, WORKERS_MAX);
        self.number(&path("calls_per_worker"), server.calls_per_worker, 1, CALLS_MAX);
        let calls = server.calls_per_worker;
        let is_set = self.places.get(&path("calls_per_worker")).is_some();
        if server.mode == Mode::Exclusive && is_set && calls > 1 {
            let message = format!(
                "{calls}, but mode `exclusive` is one call at a time; expected 1, or leave the key out"
            );
            self.at(&path("calls_per_worker"), message);
        }
        self.number(&path("queue"), server.queue, 0, CALLS_MAX);
        // It is looked at once a second.
        if server.queue_timeout.duration() < Period::of_s(1).duration() {
            let message = format!("{}; expected 1s or more", server.queue_timeout);
            self.at(&path("queue_timeout"), message);
        }
    }

    fn tools(&mut self, name: &str, server: &Server) {
        let path = |key| ["servers", name, "tools", key];
        for (key, patterns) in [("allow", &server.tools.allow), ("deny", &server.tools.deny)] {
            if patterns.iter().any(String::is_empty) {
                self.at(&path(key), "expected names of tools, or patterns such as \"read_*\"");
            }
        }
        if server.tools.asks.iter().any(String::is_empty) {
            self.at(&path("asks"), "expected names of tools");
        }
        let mut names = BTreeMap::new();
        for (old, new) in &server.tools.rename {
            let path = ["servers", name, "tools", "rename", old.as_str()];
            let fits = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
            if new.is_empty() || new.len() > TOOL_NAME_CHARS_MAX || !new.chars().all(fits) {
                let expected = "1 to 128 of A-Z, a-z, 0-9, `_`, `-`, `.` and `/`";
                self.at(&path, format_args!("`{new}` cannot name a tool; expected {expected}"));
            }
            match names.entry(new.as_str()) {
                Entry::Vacant(free) => drop(free.insert(old)),
                Entry::Occupied(first) => {
                    let first = first.get();
                    self.at(&path, format_args!("`{new}` is the new name of `{first}` already"));
                }
            }
        }
        for (tool, calls) in &server.tools.concurrency {
            let path = ["servers", name, "tools", "concurrency", tool.as_str()];
            self.number(&path, *calls, 1, CALLS_MAX);
        }
    }
}
