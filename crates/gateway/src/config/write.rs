//! Settings as a file for people: only what differs from the defaults, and comments.

use serde::Serialize;
use serde_json::Value;

use super::{
    model::{Config, Gateway, Probe, Restart, Server},
    tree::{key_written, quoted},
    units::Secret,
};

/// Writes settings as TOML. Secrets are written as they are: whoever keeps the text must see to it
/// that nobody else reads it.
pub fn to_toml(config: &Config) -> String {
    let mut page = Page(String::from(
        "# Settings of mcplane: what to serve, and how. `${NAME}` stands for an environment variable.\n\n",
    ));
    page.gateway(&config.gateway);
    for (name, server) in config.servers.iter() {
        page.server(name, server);
    }
    page.0
}

struct Page(String);

impl Page {
    fn line(&mut self, line: impl AsRef<str>) {
        self.0.push_str(line.as_ref());
        self.0.push('\n');
    }

    /// A key whose value is not its default.
    fn set<T: Serialize + PartialEq>(&mut self, key: &str, value: &T, default: &T) {
        if value != default {
            let value = serde_json::to_value(value).unwrap_or_default();
            self.line(format!("{} = {}", key_written(key), written(&value)));
        }
    }

    /// A table that is not empty.
    fn table<'a>(&mut self, path: &str, entries: impl Iterator<Item = (&'a String, String)>) {
        let mut entries = entries.peekable();
        if entries.peek().is_some() {
            self.line(format!("\n[{path}]"));
            entries.for_each(|(key, value)| self.line(format!("{} = {value}", key_written(key))));
        }
    }

    fn gateway(&mut self, gateway: &Gateway) {
        let default = Gateway::default();
        self.line("[gateway]");
        if gateway.listen == default.listen {
            let listen = serde_json::to_value(&default.listen).unwrap_or_default();
            self.line(format!("# listen = {}", written(&listen)));
        }
        self.set("listen", &gateway.listen, &default.listen);
        self.set("names", &gateway.names, &default.names);
        self.set("drain", &gateway.drain, &default.drain);
        self.set("ready", &gateway.ready, &default.ready);
        self.set("list_deadline", &gateway.list_deadline, &default.list_deadline);
        self.set("list_max_age", &gateway.list_max_age, &default.list_max_age);
        self.set("start_parallel", &gateway.start_parallel, &default.start_parallel);
        self.set("call_timeout", &gateway.call_timeout, &default.call_timeout);
        self.set("question_timeout", &gateway.question_timeout, &default.question_timeout);
        self.set("session_idle", &gateway.session_idle, &default.session_idle);
        self.set("memory", &gateway.memory, &default.memory);
        self.set("hosts", &gateway.hosts, &default.hosts);
        self.set("origins", &gateway.origins, &default.origins);
        self.set("admins", &gateway.admins, &default.admins);
        self.set("accept_rate", &gateway.accept_rate, &default.accept_rate);
        let key = gateway.state_key.as_ref().map(Secret::expose);
        self.set("state_key", &key, &None);
        self.set("state_dir", &gateway.state_dir, &default.state_dir);
        self.table("gateway.tokens", secrets(&gateway.tokens));
    }

    fn server(&mut self, name: &str, server: &Server) {
        let default = Server::default();
        let path = format!("servers.{}", key_written(name));
        self.line(format!("\n[{path}]"));
        self.set("command", &server.command, &default.command);
        self.set("args", &server.args, &default.args);
        self.set("inherit_env", &server.inherit_env, &default.inherit_env);
        self.set("cwd", &server.cwd, &default.cwd);
        self.set("url", &server.url, &default.url);
        self.set("revision", &server.revision, &default.revision);
        self.set("mode", &server.mode, &default.mode);
        self.set("workers", &server.workers, &default.workers);
        self.set("workers_max", &server.workers_max, &default.workers_max);
        self.set("ask_workers", &server.ask_workers, &default.ask_workers);
        self.set("calls_per_worker", &server.calls_per_worker, &default.calls_per_worker);
        self.set("queue", &server.queue, &default.queue);
        self.set("queue_timeout", &server.queue_timeout, &default.queue_timeout);
        self.set("call_timeout", &server.call_timeout, &default.call_timeout);
        self.set("idle_stop", &server.idle_stop, &default.idle_stop);
        self.set("memory_max", &server.memory_max, &default.memory_max);
        self.set("policy", &server.policy, &default.policy);
        self.set("retry", &server.retry, &default.retry);
        self.set("approval", &server.approval, &default.approval);
        self.set("disabled", &server.disabled, &default.disabled);
        self.set("roots", &server.roots, &default.roots);
        self.table(&format!("{path}.env"), secrets(&server.env));
        self.table(&format!("{path}.headers"), secrets(&server.headers));
        self.restart(&path, &server.restart);
        self.probe(&path, &server.probe);
        let tools = &server.tools;
        if !(tools.allow.is_empty() && tools.deny.is_empty() && tools.asks.is_empty()) {
            self.line(format!("\n[{path}.tools]"));
            self.set("allow", &tools.allow, &default.tools.allow);
            self.set("deny", &tools.deny, &default.tools.deny);
            self.set("asks", &tools.asks, &default.tools.asks);
        }
        let rename = tools.rename.iter().map(|(old, new)| (old, quoted(new)));
        self.table(&format!("{path}.tools.rename"), rename);
        let concurrency = tools.concurrency.iter().map(|(tool, calls)| (tool, calls.to_string()));
        self.table(&format!("{path}.tools.concurrency"), concurrency);
        let timeouts = tools.timeouts.iter().map(|(tool, time)| (tool, quoted(&time.to_string())));
        self.table(&format!("{path}.tools.timeouts"), timeouts);
    }

    fn probe(&mut self, path: &str, probe: &Probe) {
        let default = Probe::default();
        if *probe != default {
            self.line(format!("\n[{path}.probe]"));
            self.set("every", &probe.every, &default.every);
            self.set("timeout", &probe.timeout, &default.timeout);
            self.set("misses", &probe.misses, &default.misses);
        }
    }

    fn restart(&mut self, path: &str, restart: &Restart) {
        let default = Restart::default();
        if *restart != default {
            self.line(format!("\n[{path}.restart]"));
            self.set("first", &restart.first, &default.first);
            self.set("longest", &restart.longest, &default.longest);
            self.set("budget", &restart.budget, &default.budget);
            self.set("window", &restart.window, &default.window);
        }
    }
}

fn secrets<'a>(
    all: impl IntoIterator<Item = (&'a String, &'a Secret)>,
) -> impl Iterator<Item = (&'a String, String)> {
    all.into_iter().map(|(name, secret)| (name, quoted(secret.expose())))
}

/// A value the way TOML has it. The settings have no other kinds outside of their tables.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(all) => {
            format!("[{}]", all.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_the_same() {
        let text = r#"
            [gateway]
            listen = ["127.0.0.1:1", "unix:/run/a"]
            names = "always"
            drain = "1s"
            ready = "2s"
            list_deadline = "3s"
            start_parallel = 5
            call_timeout = "0s"
            memory = "512MiB"
            hosts = ["a.org"]
            origins = ["https://a.org"]
            accept_rate = 0
            admins = ["bob"]
            state_dir = "/var/lib/mcplane"
            tokens = { "alice b" = "one", bob = "two" }
            [servers.z]
            command = "x"
            args = ["a \"quoted\" \\ word", "é\n"]
            cwd = "/tmp"
            inherit_env = ["HTTPS_PROXY", "AWS_*"]
            env = { A = "b$c", "odd.name" = "=" }
            revision = "legacy"
            mode = "per_principal"
            workers = 2
            workers_max = 3
            ask_workers = 0
            calls_per_worker = 4
            queue = 5
            queue_timeout = "7s"
            call_timeout = "8s"
            idle_stop = "0s"
            memory_max = "1GiB"
            policy = "sticky"
            restart = { first = "1s", longest = "2s", budget = 3, window = "4s" }
            probe = { every = "1s", timeout = "2s", misses = 3 }
            retry = true
            approval = "1h"
            disabled = false
            roots = ["file:///a"]
            [servers.z.tools]
            allow = ["a*"]
            deny = ["b"]
            asks = ["c"]
            rename = { "a.b" = "c" }
            concurrency = { d = 1 }
            timeouts = { d = "0s", "e.f" = "10m" }
            [servers.a]
            url = "https://a.org/mcp"
            headers = { X = "y" }
            disabled = true
        "#;
        let config = Config::parse(text, "a.toml").unwrap();
        let written = to_toml(&config);
        assert_eq!(Config::parse(&written, "b.toml").unwrap(), config, "{written}");
        let empty = to_toml(&Config::default());
        assert!(empty.contains("[gateway]\n# listen = [\"127.0.0.1:8765\"]\n"), "{empty}");
        assert_eq!(Config::parse(&empty, "c.toml").unwrap(), Config::default());
    }
}
