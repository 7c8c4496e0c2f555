//! What a target is, from one argument.

use std::path::Path;
use std::str::FromStr;

use mcplane_process::Command;

use crate::client::{Address, Remote, Served, Speak, Target, Transport};
use crate::spec::TargetSpec;

/// Where a server's command goes in that of a gateway.
const SERVER: &str = "{server}";

/// What is measured in a run.
#[derive(Clone, Debug)]
pub(super) struct Contestant {
    /// As the user wrote it.
    pub(super) name: String,
    pub(super) target: Target,
    /// The handshake with it.
    pub(super) speak: Speak,
    /// A command that has to be started before, because it does not say where it listens.
    pub(super) service: Option<Command>,
    /// `HOST:PORT`, or the path of a Unix socket, where that command will listen.
    pub(super) place: String,
}

impl FromStr for TargetSpec {
    type Err = String;

    /// An address, or a command line over stdio.
    fn from_str(text: &str) -> Result<Self, String> {
        if Address::is_written(text) {
            return Ok(Self { url: Some(text.to_owned()), ..Self::default() });
        }
        let command = split(text)?.into_iter().map(Into::into).collect();
        Ok(Self { command, ..Self::default() })
    }
}

/// What stands behind the last `@` of a command.
enum Way {
    Stdio,
    Prints(Transport),
    Listens(Box<Remote>, String),
}

impl Contestant {
    /// Reads a server.
    ///
    /// # Errors
    /// A sentence that quotes the argument at fault.
    pub(super) fn parse(text: &str, headers: &[String]) -> Result<Self, String> {
        let words = split(text)?;
        Self::new(text, words, Way::Stdio, headers)
    }

    /// Reads a gateway, and puts the server's command where it says so.
    ///
    /// # Errors
    /// A sentence that quotes the argument at fault.
    pub(super) fn gateway(text: &str, server: &str, headers: &[String]) -> Result<Self, String> {
        let behind = split(server)?;
        if text.contains(SERVER)
            && behind.iter().any(|word| word == "@" || Address::is_written(word))
        {
            return Err(format!("{text}: {SERVER} takes a command over stdio, not `{server}`"));
        }
        let mut words = Vec::new();
        for (word, is_quoted) in parts(text)? {
            if word == SERVER && !is_quoted {
                words.extend(behind.iter().cloned());
            } else {
                words.push(word.replace(SERVER, server));
            }
        }
        Self::new(text, words, Way::Prints(Transport::Http), headers)
    }

    fn new(
        text: &str,
        mut words: Vec<String>,
        mut way: Way,
        headers: &[String],
    ) -> Result<Self, String> {
        let at = |target, service, place| {
            let (name, speak) = (text.to_owned(), Speak::default());
            Self { name, target, speak, service, place }
        };
        if let [word] = words.as_slice()
            && Address::is_written(word)
        {
            let remote = Target::Remote(Box::new(remote(word, headers)?));
            return Ok(at(remote, None, String::new()));
        }
        if let [.., sign, last] = words.as_slice()
            && sign == "@"
        {
            way = self::way(text, last, headers)?;
            words.truncate(words.len() - 2);
        }
        let Some((program, rest)) = words.split_first() else {
            return Err(format!("`{text}`: a command or an address is missing"));
        };
        let command = Command::new(program).args(rest).inherit_env(["*"]);
        Ok(match way {
            Way::Stdio => at(Target::Stdio(command), None, String::new()),
            Way::Prints(transport) => {
                at(Target::Served(Served { command, transport }), None, String::new())
            }
            Way::Listens(remote, place) => at(Target::Remote(remote), Some(command), place),
        })
    }
}

fn way(text: &str, last: &str, headers: &[String]) -> Result<Way, String> {
    Ok(match last {
        "stdio" => Way::Stdio,
        "http" => Way::Prints(Transport::Http),
        "sse" => Way::Prints(Transport::Sse),
        "ws" => Way::Prints(Transport::WebSocket),
        "tcp" => Way::Prints(Transport::Tcp),
        "unix" => Way::Prints(Transport::Unix),
        address if Address::is_written(address) => {
            let remote = remote(address, headers)?;
            Way::Listens(Box::new(remote), place(text, address)?)
        }
        other => {
            let takes = "stdio, http, sse, ws, tcp, unix, or an address";
            return Err(format!("{text}: behind @ stands `{other}`; it takes {takes}"));
        }
    })
}

fn remote(address: &str, headers: &[String]) -> Result<Remote, String> {
    let remote = Remote::new(Address::parse(address, false)?);
    let remote = headers.iter().try_fold(remote, |remote, line| remote.header(line));
    remote.map_err(|what| format!("{address}: {what}"))
}

/// What to connect to, to see whether somebody listens.
fn place(text: &str, address: &str) -> Result<String, String> {
    if let Some(path) = address.strip_prefix("unix:") {
        return Ok(path.strip_prefix("//").unwrap_or(path).to_owned());
    }
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let place = rest.split(['/', '?']).next().unwrap_or_default();
    match place.rsplit_once(':').map(|(_, port)| port.parse::<u16>()) {
        Some(Ok(_)) => Ok(place.to_owned()),
        _ => Err(format!("{text}: {address} needs a port")),
    }
}

/// Splits a command line into words as a shell does: blanks divide; single quotes keep everything;
/// double quotes keep all but `\"` and `\\`; a backslash keeps the next character. Nothing is
/// expanded. On Windows a backslash outside of quotes is a plain one.
///
/// # Errors
/// A quote is not closed.
fn split(line: &str) -> Result<Vec<String>, String> {
    // A path with blanks that exists is one word, quoted or not.
    if line.contains(' ') && Path::new(line).is_file() {
        return Ok(vec![line.to_owned()]);
    }
    Ok(parts(line)?.into_iter().map(|(word, _)| word).collect())
}

/// The words, and whether any part of each was quoted.
fn parts(line: &str) -> Result<Vec<(String, bool)>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<(String, bool)>, None);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let escapes = c == '\\' && !cfg!(windows);
        match (quote, c) {
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '\'' | '"') => {
                word.get_or_insert_default().1 = true;
                quote = Some(c);
            }
            (Some(open), c) if c == open => quote = None,
            (Some('"'), '\\') if chars.peek().is_some_and(|c| matches!(c, '"' | '\\')) => {
                word.get_or_insert_default().0.extend(chars.next());
            }
            (None, _) if escapes => word.get_or_insert_default().0.extend(chars.next()),
            (_, c) => word.get_or_insert_default().0.push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(quote) => Err(format!("{line}: a {quote} is not closed")),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_a_shell_does() {
        for (line, words) in [
            ("a b  c", &["a", "b", "c"][..]),
            ("a 'b c' \"d e\"", &["a", "b c", "d e"]),
            (r#"a "b\"c" 'd\e' f\ g"#, &["a", "b\"c", "d\\e", "f g"]),
            ("a '' \"\"", &["a", "", ""]),
            (r#"--x='{"a": 1}'"#, &[r#"--x={"a": 1}"#]),
            ("", &[]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        assert!(split("a 'b").unwrap_err().contains("not closed"));
    }

    #[test]
    fn each_form_is_its_target() {
        let of = |text: &str| Contestant::parse(text, &[]).unwrap();
        assert_eq!(of("node a.js").target.transport(), "stdio");
        assert_eq!(of("http://127.0.0.1:9/mcp").target.transport(), "http");
        assert_eq!(of("server --x @ ws").target.transport(), "ws");
        let listens = of("server --port 9 @ http://127.0.0.1:9/mcp");
        assert_eq!(listens.service.unwrap().to_string(), "server --port 9");
        assert_eq!(listens.place, "127.0.0.1:9");
        assert_eq!(of("server @ unix:/tmp/s").place, "/tmp/s");
    }

    #[test]
    fn the_server_goes_into_the_gateway() {
        let of = |text: &str| Contestant::gateway(text, "node 'a b.js'", &[]).unwrap();
        let words = of("mcplane serve -- {server}");
        assert_eq!(words.target.transport(), "http");
        assert_eq!(
            words.target.to_string(),
            Command::new("mcplane").args(["serve", "--", "node", "a b.js"]).to_string()
        );
        let one = of("gw --stdio \"{server}\" --port 8 @ http://127.0.0.1:8/mcp").service.unwrap();
        let whole = Command::new("gw").args(["--stdio", "node 'a b.js'", "--port", "8"]);
        assert_eq!(one.to_string(), whole.to_string());
    }

    #[test]
    fn what_is_wrong_is_quoted() {
        for (text, part) in [
            ("", "missing"),
            ("@ http", "missing"),
            ("a @ ftp", "`ftp`"),
            ("a @ http://host/mcp", "needs a port"),
            ("ftp://x", "ftp is not spoken"),
        ] {
            let error = Contestant::parse(text, &[]).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let error = Contestant::gateway("gw {server}", "http://x:1", &[]).unwrap_err();
        assert!(error.contains("over stdio"), "{error}");
    }
}
