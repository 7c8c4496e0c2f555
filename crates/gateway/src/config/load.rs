//! From text to settings that keep every rule, or to all the errors at once.

use std::{
    env,
    fmt::{self, Formatter},
    fs,
    io::Read,
    ops::Range,
    path::{self, Path, PathBuf},
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IntoDeserializer, SeqAccess, Visitor},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    address::Listen,
    error::{ConfigError, FAULTS_MAX, Faults, Finding, Reason, nearest},
    expand::{Environment, expand, secret_lines, secrets, written_args},
    model::{Config, Mode, Server},
    rules,
    tree::{Place, Places, remove, written},
};

/// Most bytes of a file of settings: far more than its servers can need.
const FILE_BYTES_MAX: u64 = 4 << 20;

impl Config {
    /// Reads a file of settings.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let cannot = |source| Reason::Read { path: path.to_owned(), source };
        let file = fs::File::open(path).map_err(cannot)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let (path, bytes) = (path.to_owned(), bytes.len() as u64);
            return Err(Reason::Large { path, bytes, max: FILE_BYTES_MAX }.into());
        }
        let name = path.display().to_string();
        match str::from_utf8(&bytes) {
            Ok(text) => Self::parse(text.strip_prefix('\u{feff}').unwrap_or(text), &name),
            Err(error) => {
                let at = error.valid_up_to();
                let text = String::from_utf8_lossy(&bytes);
                let message = "this is not UTF-8, which TOML must be".to_owned();
                Err(faults(
                    &name,
                    &text,
                    vec![Finding { span: at..at, key: String::new(), message, help: None }],
                    &[],
                ))
            }
        }
    }

    /// Reads settings from text. `file` is the file's name in errors, and relative paths start at
    /// its folder.
    ///
    /// # Errors
    /// Something in the text is wrong.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        Self::parse_in(text, file, &|name| env::var(name).ok())
    }

    pub(super) fn parse_in(
        text: &str,
        file: &str,
        environment: Environment<'_>,
    ) -> Result<Self, ConfigError> {
        let (mut root, syntax) = DeTable::parse_recoverable(text);
        let mut masked = secrets(root.get_mut());
        if !syntax.is_empty() {
            masked.extend(secret_lines(text));
            return Err(faults(file, text, against_syntax(text, &syntax), &masked));
        }
        let folder = Path::new(file).parent().unwrap_or_else(|| Path::new(""));
        let written = written_args(root.get_mut());
        let places = Places::of(root.get_ref());
        let mut findings = expand(root.get_mut(), environment, folder);
        let config = read(root, &places, &mut findings);
        let mut config = config.unwrap_or_default();
        rules::check(&config, &places, &mut findings);
        if !findings.is_empty() {
            findings.truncate(FAULTS_MAX);
            return Err(faults(file, text, findings, &masked));
        }
        config.servers.sort_by_place(|name| {
            places.get(&["servers", name]).map_or(usize::MAX, |place| place.key.start)
        });
        for (name, args) in written {
            let server = config.servers.iter_mut().find(|(of, _)| *of == name);
            if let Some((_, server)) = server.filter(|(_, server)| server.args != args) {
                server.written_args = Some(args);
            }
        }
        config.settle(folder);
        Ok(config)
    }

    /// The settings for one server without a file: `mcplane serve -- COMMAND ARGS…`. `command` is
    /// the program and its arguments; it gets the whole environment of the gateway.
    ///
    /// # Errors
    /// The command, the name or the number of workers breaks a rule.
    pub fn of_command(
        name: &str,
        command: &[String],
        mode: Mode,
        workers: u32,
    ) -> Result<Self, ConfigError> {
        let (program, args) = match command {
            [program, args @ ..] => (Some(program.clone()), args.to_vec()),
            [] => (None, Vec::new()),
        };
        // Whoever types a command expects it to run as if it had been typed alone.
        let inherit_env = vec!["*".to_owned()];
        let server =
            Server { command: program, args, inherit_env, mode, workers, ..Server::default() };
        let config =
            Self { servers: [(name.to_owned(), server)].into_iter().collect(), ..Self::default() };
        config.check("command line")?;
        Ok(config)
    }

    /// Checks settings that were made without a file. `origin` stands where errors name the file.
    ///
    /// # Errors
    /// A rule is broken.
    pub fn check(&self, origin: &str) -> Result<(), ConfigError> {
        let mut findings = Vec::new();
        rules::check(self, &Places::default(), &mut findings);
        if findings.is_empty() { Ok(()) } else { Err(faults(origin, "", findings, &[])) }
    }

    /// Makes relative paths absolute, from the folder of the file.
    fn settle(&mut self, folder: &Path) {
        let settle = |path: &Path| -> PathBuf {
            let path = folder.join(path);
            path::absolute(&path).unwrap_or(path)
        };
        self.gateway.state_dir = self.gateway.state_dir.as_deref().map(settle);
        for (_, server) in self.servers.iter_mut() {
            server.cwd = server.cwd.as_deref().map(settle);
            // A bare name is looked for in PATH; a path is not.
            let is_path = |command: &&mut String| command.contains(['/', path::MAIN_SEPARATOR]);
            if let Some(command) = server.command.as_mut().filter(is_path)
                && let Ok(settled) =
                    settle(Path::new(command.as_str())).into_os_string().into_string()
            {
                *command = settled;
            }
        }
    }
}

fn faults(file: &str, text: &str, findings: Vec<Finding>, masked: &[Range<usize>]) -> ConfigError {
    Reason::from(Faults::new(file, text, findings, masked)).into()
}

/// What TOML does not allow. A server that is there a second time is told once, and not again for
/// each of its keys.
fn against_syntax(text: &str, errors: &[toml::de::Error]) -> Vec<Finding> {
    let (headers, mut findings) = (headers(text), Vec::new());
    let mut doubled: Option<&[String]> = None;
    for error in errors.iter().take(FAULTS_MAX) {
        let span = error.span().unwrap_or_default();
        let (mut key, mut message) = (String::new(), error.message().to_owned());
        let above = headers.iter().rev().find(|(place, _)| place.start <= span.start);
        if let Some((place, path)) = above.filter(|_| message == "duplicate key") {
            let first = headers.iter().find(|(_, other)| other == path);
            let is_server = matches!(path.as_slice(), [table, _] if table == "servers");
            if let Some((first, _)) = first.filter(|_| is_server && span.start < place.end) {
                let line = text.get(..first.start).unwrap_or_default().matches('\n').count() + 1;
                message = format!(
                    "a second server of this name (the first is on line {line}); expected another \
                     name"
                );
                (key, doubled) = (written(path), Some(path.as_slice()));
            } else if doubled.is_some_and(|server| path.starts_with(server)) {
                continue;
            }
        }
        findings.push(Finding { span, key, message, help: None });
    }
    findings
}

/// The lines that begin a table: their places, and the paths of the tables.
fn headers(text: &str) -> Vec<(Range<usize>, Vec<String>)> {
    let mut start = 0;
    let header = |line: &str| {
        let place = start..start + line.len();
        start = place.end;
        let is_header = line.trim_start().starts_with('[');
        let root = is_header.then(|| DeTable::parse(line).ok()).flatten()?.into_inner();
        let (mut path, mut table) = (Vec::new(), &root);
        while let Some((key, value)) = table.iter().next() {
            path.push(key.get_ref().to_string());
            let DeValue::Table(inner) = value.get_ref() else { break };
            table = inner;
        }
        Some((place, path))
    };
    text.split_inclusive('\n').filter_map(header).collect()
}

/// Reads the tree into the model. The key of each error is taken out and the rest read again, so
/// that all of them are found; `None` if what is left cannot be read either.
fn read(
    mut root: Spanned<DeTable<'_>>,
    places: &Places,
    findings: &mut Vec<Finding>,
) -> Option<Config> {
    while findings.len() < FAULTS_MAX {
        let error = match Config::deserialize(toml::de::Deserializer::from(root.clone())) {
            Ok(config) => return Some(config),
            Err(error) => error,
        };
        let span = error.span().unwrap_or_default();
        let Some((path, place)) = places.covering(&span) else {
            let message = error.message().to_owned();
            findings.push(Finding { span, key: String::new(), message, help: None });
            return None;
        };
        findings.push(finding(path, place, span, error.message()));
        if !remove(root.get_mut(), path) {
            return None;
        }
    }
    None
}

/// What serde says, in the words of the file.
fn finding(path: &[String], place: &Place, span: Range<usize>, message: &str) -> Finding {
    let key = written(path);
    // "unknown field `a`, expected one of `b`, `c`", and the same for variants: what is wrong, and
    // what would not be.
    let mut quoted = message.split('`').skip(1).step_by(2);
    let known = |mut quoted: Vec<&str>| {
        quoted.sort_unstable();
        quoted.join(", ")
    };
    if message.starts_with("unknown field") {
        let wrong = quoted.next().unwrap_or_default();
        let names: Vec<&str> = quoted.collect();
        let meant = nearest(wrong, names.iter().copied());
        let help = meant.map(|meant| format!("did you mean `{meant}`?"));
        let message = match help {
            Some(_) => "unknown key".to_owned(),
            None => format!("unknown key; expected one of {}", known(names)),
        };
        return Finding { span: place.key.clone(), key, message, help };
    }
    if message.starts_with("unknown variant") {
        let wrong = quoted.next().unwrap_or_default().to_owned();
        let names: Vec<&str> = quoted.collect();
        let help = nearest(&wrong, names.iter().copied());
        let help = help.map(|meant| format!("did you mean `{meant}`?"));
        let message = format!("`{wrong}` is unknown; expected one of {}", known(names));
        return Finding { span, key, message, help };
    }
    Finding { span, key, message: message.to_owned(), help: None }
}

/// One address or a list of them.
pub(super) fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Listen>, D::Error> {
    struct OneOrMore;

    impl<'de> Visitor<'de> for OneOrMore {
        type Value = Vec<Listen>;

        fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
            f.write_str("an address to listen on such as \"127.0.0.1:8765\", or a list of them")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<Listen>, E> {
            Ok(vec![Listen::deserialize(text.into_deserializer())?])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Listen>, A::Error> {
            let mut all = Vec::new();
            while let Some(one) = list.next_element()? {
                all.push(one);
            }
            Ok(all)
        }
    }

    from.deserialize_any(OneOrMore)
}
