//! Settings from the JSON that desktop clients use: `mcpServers` and its relatives.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use thiserror::Error;

use super::{
    SERVERS_MAX, expand::is_variable, jsonc, model::Config, model::Server, rules::is_server_name,
    servers::Servers, units::Secret, write::to_toml,
};

/// Something that could not be taken over as it was, or that is better done another way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Note {
    /// The server that it is about, by its new name; empty for all of them.
    pub server: String,
    /// What it is. Never shows the value of a secret.
    pub message: String,
}

impl Display for Note {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.server.as_str() {
            "" => f.write_str(&self.message),
            server => write!(f, "{server}: {}", self.message),
        }
    }
}

/// Why nothing can be imported from a text.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct ImportError(#[from] Reason);

#[derive(Debug, Error)]
enum Reason {
    #[error("this is not JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    #[error(
        "there are no servers here; expected them by name in `mcpServers`, `servers`, `mcp.servers`, \
         `mcp` or `context_servers`"
    )]
    Nothing,
    #[error("{0} servers are too many: a gateway has at most {SERVERS_MAX}")]
    Many(usize),
}

/// Makes settings of the JSON in which desktop clients keep their servers: Claude Desktop and Code,
/// VS Code, Cursor, Windsurf, Cline, Gemini, Zed and others. Comments and trailing commas are fine.
///
/// What can be kept is kept; the notes tell the rest.
///
/// # Errors
/// The text is not JSON, or there are no servers in it.
pub fn import(json: &str) -> Result<(Config, Vec<Note>), ImportError> {
    let root: Entries = serde_json::from_str(&jsonc::plain(json)).map_err(Reason::Syntax)?;
    let found = root.servers();
    match found.len() {
        0 => return Err(Reason::Nothing.into()),
        n if n > SERVERS_MAX => return Err(Reason::Many(n).into()),
        _ => {}
    }
    let (mut servers, mut notes) = (Servers::new(), Vec::new());
    for (old, entry) in found {
        let name = valid_name(&old, &servers);
        let mut import = Import { name: &name, notes: &mut notes };
        if name != old {
            import.note(format!("was called `{old}`, which is not a valid name here"));
        }
        if let Some(server) = import.server(&entry) {
            servers.insert(name, server);
        }
    }
    let config = Config { servers, ..Config::default() };
    // Read back as a file, with something in the place of each variable: nobody shall find out
    // later that what was imported is refused.
    if let Err(error) = Config::parse_in(&to_toml(&config), "", &|_| Some("http://x".into())) {
        let faults = error.faults().iter();
        notes.extend(faults.map(|fault| Note {
            server: String::new(),
            message: format!("must be fixed: {}: {}", fault.key, fault.message),
        }));
    }
    Ok((config, notes))
}

/// The entries of an object in their order, not yet read.
#[derive(Default)]
struct Entries(Vec<(String, Box<RawValue>)>);

impl Entries {
    /// The object at this path, if there is one.
    fn at(&self, path: &[&str]) -> Option<Self> {
        let (key, rest) = path.split_first()?;
        let (_, value) = self.0.iter().rev().find(|(of, _)| of == key)?;
        let entries: Self = serde_json::from_str(value.get()).ok()?;
        if rest.is_empty() { Some(entries) } else { entries.at(rest) }
    }

    /// All servers of all the places where clients keep them.
    fn servers(&self) -> Vec<(String, Box<RawValue>)> {
        let places: [&[&str]; 8] = [
            &["mcpServers"],
            &["servers"],
            &["mcp", "servers"],
            &["mcp.servers"],
            &["mcp", "mcpServers"],
            &["mcp_servers"],
            &["context_servers"],
            &["amp.mcpServers"],
        ];
        let mut found: Vec<_> =
            places.iter().filter_map(|path| self.at(path)).flat_map(|all| all.0).collect();
        if found.is_empty() {
            found.extend(self.at(&["mcp"]).into_iter().flat_map(|all| all.0));
        }
        // Claude Code keeps those of each project apart.
        for (_, project) in self.at(&["projects"]).into_iter().flat_map(|all| all.0) {
            let project: Self = serde_json::from_str(project.get()).unwrap_or_default();
            found.extend(project.at(&["mcpServers"]).into_iter().flat_map(|all| all.0));
        }
        found
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// The name made valid, and different from all before it.
fn valid_name(old: &str, servers: &Servers) -> String {
    let mut name = String::new();
    for c in old.to_lowercase().chars() {
        let c = if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        // No `__`, and no `--` where there were many odd characters.
        if !(matches!(c, '_' | '-') && (name.is_empty() || name.ends_with(c))) {
            name.push(c);
        }
    }
    name.truncate(60);
    let name = name.trim_end_matches(['-', '_']);
    let name = if is_server_name(old) {
        old
    } else if name.is_empty() {
        "server"
    } else {
        name
    };
    let mut all = std::iter::once(name.to_owned())
        .chain((2..).map(|n| format!("{}-{n}", &name.get(..60).unwrap_or(name))));
    all.find(|name| servers.get(name).is_none()).unwrap_or_default()
}

/// The import of one server.
struct Import<'a> {
    name: &'a str,
    notes: &'a mut Vec<Note>,
}

impl Import<'_> {
    fn note(&mut self, message: impl Into<String>) {
        self.notes.push(Note { server: self.name.to_owned(), message: message.into() });
    }

    /// The server, or `None` with a note if it cannot be one.
    fn server(&mut self, entry: &RawValue) -> Option<Server> {
        let made = serde_json::from_str::<BTreeMap<String, Value>>(entry.get())
            .map_err(|_| "expected an object".to_owned())
            .and_then(|fields| self.read(Fields(fields)));
        made.map_err(|why| self.note(format!("left out: {why}"))).ok()
    }

    fn read(&mut self, mut fields: Fields) -> Result<Server, String> {
        let mut server = Server::default();
        let nested = fields.0.get("command").is_some_and(Value::is_object);
        if nested && let Some(Value::Object(command)) = fields.0.remove("command") {
            // Zed: `command` is `{ path, args, env }`.
            fields.0.extend(command.into_iter().map(|(key, value)| {
                (if key == "path" { "command".to_owned() } else { key }, value)
            }));
        }
        let mut words = fields.program()?;
        let args = fields.words(&["args"])?;
        let urls = ["url", "serverUrl", "httpUrl", "uri", "endpoint"];
        let url = fields.text(&urls)?;
        let kind = fields.text(&["type", "transport", "transportType"])?;
        let is_remote = kind.as_deref().is_some_and(|kind| !matches!(kind, "stdio" | "local"));
        if words.is_empty() && !args.is_empty() {
            if url.is_none() {
                return Err("args without a command".into());
            }
            self.note("left out: args without a command");
        } else {
            words.extend(args);
        }
        match (words.is_empty(), url) {
            (true, None) => return Err("neither a command nor a URL".into()),
            (true, Some(url)) => server.url = Some(self.references(&url)),
            (false, Some(url)) if is_remote => {
                self.note("has a command and a URL; its type says the URL");
                server.url = Some(self.references(&url));
            }
            (false, url) => {
                if url.is_some() {
                    self.note("has a command and a URL; the command is kept");
                }
                self.command(&mut server, &words);
            }
        }
        let secrets = |import: &mut Self, key: &str, all: BTreeMap<String, String>| {
            all.into_iter()
                .map(|(name, value)| {
                    let value = import.references(&value);
                    import.recommend(key, &name, &value);
                    (name, Secret::new(value))
                })
                .collect::<BTreeMap<_, _>>()
        };
        let env = fields.table(&["env", "environment"])?;
        let headers = fields.table(&["headers", "requestInit.headers"])?;
        let cwd = fields.text(&["cwd", "workingDirectory"])?;
        if server.url.is_some() {
            server.headers = secrets(self, "headers", headers);
        } else {
            server.env = secrets(self, "env", env);
            server.cwd = cwd.map(|cwd| self.references(&cwd).into());
        }
        server.disabled =
            fields.flag("disabled") == Some(true) || fields.flag("enabled") == Some(false);
        server.tools.allow = fields.words(&["includeTools", "enabledTools", "enabled_tools"])?;
        server.tools.deny = fields.words(&["excludeTools", "disabledTools", "disabled_tools"])?;
        for key in fields.0.into_keys() {
            self.note(format!("left out: `{key}`, for which there is no setting"));
        }
        Ok(server)
    }

    /// Takes the program and its arguments.
    fn command(&mut self, server: &mut Server, words: &[String]) {
        let mut words = words.to_vec();
        if let [line] = words.as_slice()
            && line.contains(' ')
            && !line.contains(['/', '\\', '"', '\''])
        {
            words = line.split_whitespace().map(str::to_owned).collect();
        }
        let mut words =
            words.into_iter().map(|word| self.references(&word)).collect::<Vec<_>>().into_iter();
        server.command = words.next();
        server.args = words.collect();
        let remote =
            server.args.iter().any(|arg| arg == "mcp-remote" || arg.starts_with("mcp-remote@"));
        if remote && let Some(url) = server.args.iter().find(|arg| arg.starts_with("http")) {
            let note =
                format!("`mcp-remote` is not needed: `url = \"{url}\"` reaches the server itself");
            self.note(note);
        }
        if server.args.iter().any(|arg| looks_secret(arg)) {
            self.note("an argument looks like a secret: put `${NAME}` there instead: every process can see arguments");
        }
    }

    /// References the way they are written here, and every other `$` as itself.
    fn references(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('$') {
            out.push_str(before);
            if let Some(after) = behind.strip_prefix('$') {
                out.push_str("$$$$");
                rest = after;
                continue;
            }
            let reference = behind.strip_prefix('{').and_then(|behind| behind.split_once('}'));
            rest = match reference {
                Some((reference, after)) => {
                    out.push_str(&self.reference(reference));
                    after
                }
                None if behind.starts_with('{') => {
                    out.push_str("$$");
                    behind
                }
                None => {
                    out.push('$');
                    behind
                }
            };
        }
        out + rest
    }

    /// What stands for `${reference}` here.
    fn reference(&mut self, reference: &str) -> String {
        let plain = reference.strip_prefix("env:").unwrap_or(reference);
        let variable = plain.split(":-").next().unwrap_or_default();
        if let Some(input) = reference.strip_prefix("input:") {
            let name = variable_name(input);
            self.note(format!(
                "asked for `{input}` at its start: set the environment variable `{name}`"
            ));
            return format!("${{{name}}}");
        }
        match reference {
            "userHome" => "${HOME}".into(),
            "/" | "pathSeparator" => std::path::MAIN_SEPARATOR_STR.into(),
            "workspaceFolder" | "workspaceRoot" | "workspaceFolderBasename" => {
                let name = variable_name(reference);
                self.note(format!("`${{{reference}}}` is not known to a gateway: set the environment variable `{name}`"));
                format!("${{{name}}}")
            }
            _ if is_variable(variable) => format!("${{{plain}}}"),
            _ => {
                self.note(format!("`${{{reference}}}` has no meaning here and is kept as it is"));
                format!("$${{{reference}}}")
            }
        }
    }

    /// Recommends a variable for what looks like a secret.
    fn recommend(&mut self, table: &str, name: &str, value: &str) {
        const TELLING: [&str; 9] = [
            "TOKEN",
            "SECRET",
            "PASSWORD",
            "PASSWD",
            "API_KEY",
            "APIKEY",
            "AUTH",
            "CREDENTIAL",
            "PRIVATE",
        ];
        let variable = variable_name(name);
        let telling =
            TELLING.iter().any(|word| variable.contains(word)) || variable.ends_with("_KEY");
        if !value.is_empty() && !value.contains("${") && (telling || looks_secret(value)) {
            self.note(format!("`{table}.{name}` looks like a secret: write `${{{variable}}}` and set that environment variable"));
        }
    }
}

/// Whether this begins the way the tokens of well-known services do.
fn looks_secret(value: &str) -> bool {
    let value = value.rsplit(['=', ' ']).next().unwrap_or_default();
    let known =
        ["sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "AIza", "eyJ"];
    value.len() >= 16 && known.iter().any(|prefix| value.starts_with(prefix))
}

/// `apiKey`, `api-key` and `api key` as `API_KEY`.
fn variable_name(text: &str) -> String {
    let mut name = String::new();
    let mut last_is_lower = false;
    for c in text.chars() {
        if c.is_ascii_uppercase() && last_is_lower {
            name.push('_');
        }
        last_is_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        name.push(if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    }
    if is_variable(&name) { name } else { format!("MCP_{name}") }
}

/// What an entry has that has not been taken yet.
struct Fields(BTreeMap<String, Value>);

impl Fields {
    /// The first of these keys that is there and not null. None of them is left.
    fn take(&mut self, keys: &[&str]) -> Option<(String, Value)> {
        let taken = keys.iter().filter_map(|key| self.0.remove_entry(*key)).collect::<Vec<_>>();
        taken.into_iter().find(|(_, value)| !value.is_null())
    }

    fn text(&mut self, keys: &[&str]) -> Result<Option<String>, String> {
        let Some((key, value)) = self.take(keys) else { return Ok(None) };
        scalar(&value).map(Some).ok_or_else(|| format!("`{key}` is not a string"))
    }

    /// The words of `command`, of which the first must be a string.
    fn program(&mut self) -> Result<Vec<String>, String> {
        let first = match self.0.get("command") {
            Some(Value::Array(words)) => words.first(),
            one => one,
        };
        if matches!(first, Some(Value::Number(_) | Value::Bool(_))) {
            return Err("`command` is not a string".into());
        }
        self.words(&["command"])
    }

    /// A string, or a list of them.
    fn words(&mut self, keys: &[&str]) -> Result<Vec<String>, String> {
        let Some((key, value)) = self.take(keys) else { return Ok(Vec::new()) };
        let words = match &value {
            Value::Array(all) => all.iter().map(scalar).collect(),
            one => scalar(one).map(|word| vec![word]),
        };
        words.ok_or_else(|| format!("`{key}` is not a list of strings"))
    }

    fn table(&mut self, keys: &[&str]) -> Result<BTreeMap<String, String>, String> {
        let Some((key, value)) = self.take(keys) else { return Ok(BTreeMap::new()) };
        let Value::Object(all) = value else { return Err(format!("`{key}` is not an object")) };
        let entries = all.into_iter().filter(|(_, value)| !value.is_null());
        let entries = entries.map(|(name, value)| Some((name, scalar(&value)?)));
        entries
            .collect::<Option<_>>()
            .ok_or_else(|| format!("`{key}` has a value that is not a string"))
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        self.0.remove(key)?.as_bool()
    }
}

/// A string, or what people write without quotes.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
