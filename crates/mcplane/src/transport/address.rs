//! Where a server is, or where one listens, as text and back: the table of the transports.
//!
//! Whoever adds a transport with an address adds a variant and what the compiler then asks for here,
//! and a row to `SCHEMES`. One that is listened on has its arms in `listen::socket`, too.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The address of a server, whatever it is reached through: what a `Dialer` connects to, and a
/// `Listener` listens on.
///
/// | text | transport |
/// |---|---|
/// | `http://HOST[:PORT]/PATH`, `https://…` | Streamable HTTP, or HTTP+SSE (feature `http`) |
/// | `ws://HOST[:PORT]/PATH`, `wss://…` | WebSocket (feature `websocket`) |
/// | `tcp://HOST:PORT`, `HOST:PORT` | a TCP socket, one message per line |
/// | `unix:PATH`, `unix:///PATH` | a Unix socket, one message per line |
/// | `stdio` | standard input and output of this process |
/// | no text: `Address::from(Command::new("…"))` | a program that is started |
///
/// ```
/// use mcplane::transport::Address;
///
/// let address: Address = "[::1]:8765".parse()?;
/// assert_eq!(address, Address::Tcp { host: "::1".into(), port: 8765 });
/// let error = "tcp://localhost".parse::<Address>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`tcp://localhost` is not an address: the port is missing; write tcp://HOST:PORT"
/// );
/// # mcplane::Result::<()>::Ok(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// This `http` or `https` URL.
    Http(String),
    /// This `ws` or `wss` URL.
    WebSocket(String),
    /// A TCP port. Port 0, to listen on, lets the system choose one.
    Tcp {
        /// A name or an IP address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// The file of a Unix socket.
    Unix(PathBuf),
    /// Standard input and output of this process.
    Stdio,
    /// A program that is started, and spoken to over its standard input and output.
    #[cfg(feature = "client")]
    Process(Box<mcplane_process::Command>),
}

/// How the addresses of a transport are written.
struct Scheme {
    /// What stands before the first `:`.
    name: &'static str,
    form: &'static str,
    /// Reads the whole text, and what is behind the first `:`.
    read: fn(&str, &str) -> Result<Address, String>,
}

const SCHEMES: [Scheme; 7] = [
    Scheme { name: "http", form: "http://HOST[:PORT]/PATH", read: http },
    Scheme { name: "https", form: "https://HOST[:PORT]/PATH", read: http },
    Scheme { name: "ws", form: "ws://HOST[:PORT]/PATH", read: websocket },
    Scheme { name: "wss", form: "wss://HOST[:PORT]/PATH", read: websocket },
    Scheme { name: "tcp", form: "tcp://HOST:PORT", read: |_, rest| tcp(rest) },
    Scheme { name: "unix", form: "unix:PATH", read: |_, rest| unix(rest) },
    Scheme { name: "stdio", form: "stdio", read: |_, _| Err("nothing follows `stdio`".into()) },
];

impl Address {
    /// As [`FromStr`], for whoever names a server: the scheme has to be there. What has none is most
    /// likely meant for HTTP, and not for TCP.
    ///
    /// # Errors
    /// [`Error::is_misuse`]: what is wrong with the text, and how addresses are written. What may be
    /// secret in it is left out.
    pub fn with_scheme(text: &str) -> Result<Self> {
        if scheme(text).is_some() || text.contains("://") || text == "stdio" {
            return text.parse();
        }
        Err(wrong(text, "the scheme is missing", &forms()))
    }

    /// The address with its scheme, as [`Address::with_scheme`] reads it. Of a program its command
    /// line, with `…` for what is secret in it.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Tcp { .. } => format!("tcp://{self}"),
            _ => self.to_string(),
        }
    }

    /// The host, without brackets, and the port of what is reached through TCP.
    #[cfg(feature = "server")]
    pub(crate) fn authority(&self) -> Option<(String, u16)> {
        match self {
            Self::Tcp { host, port } => Some((host.clone(), *port)),
            #[cfg(feature = "http")]
            Self::Http(url) | Self::WebSocket(url) => {
                super::http::authority(&super::http::absolute(url).ok()?)
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp { host: address.ip().to_string(), port: address.port() }
    }
}

#[cfg(feature = "client")]
impl From<mcplane_process::Command> for Address {
    fn from(command: mcplane_process::Command) -> Self {
        Self::Process(Box::new(command))
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(scheme) = scheme(text) {
            let rest = text.get(scheme.name.len() + 1..).unwrap_or_default();
            return (scheme.read)(text, rest).map_err(|why| wrong(text, &why, scheme.form));
        }
        match text.split_once("://") {
            Some((scheme, _)) => {
                Err(wrong(text, &format!("the scheme `{scheme}` is unknown"), &forms()))
            }
            None if text == "stdio" => Ok(Self::Stdio),
            None => tcp(text).map_err(|why| {
                wrong(text, &why, "127.0.0.1:8765, [::1]:8765 or unix:/path/to.sock")
            }),
        }
    }
}

/// The scheme that a text begins with. A name before a port is not a scheme.
fn scheme(text: &str) -> Option<&'static Scheme> {
    let (name, rest) = text.split_once(':')?;
    let is_port = !name.eq_ignore_ascii_case("unix")
        && !rest.is_empty()
        && rest.bytes().all(|byte| byte.is_ascii_digit());
    SCHEMES.iter().find(|scheme| name.eq_ignore_ascii_case(scheme.name) && !is_port)
}

fn forms() -> String {
    SCHEMES.map(|scheme| scheme.form).join(", ")
}

fn wrong(text: &str, why: &str, form: &str) -> Error {
    // Keys are found in URLs.
    #[cfg(feature = "client")]
    let text = mcplane_process::mask_urls(text);
    Error::misuse(format!("`{text}` is not an address: {why}; write {form}"))
}

fn http(text: &str, _: &str) -> Result<Address, String> {
    if !cfg!(feature = "http") {
        return Err("that needs the feature `http` of mcplane".to_owned());
    }
    whole(text).map(|()| Address::Http(text.to_owned()))
}

fn websocket(text: &str, _: &str) -> Result<Address, String> {
    if !cfg!(feature = "websocket") {
        return Err("that needs the feature `websocket` of mcplane".to_owned());
    }
    whole(text).map(|()| Address::WebSocket(text.to_owned()))
}

/// Whether a URL is one.
fn whole(text: &str) -> Result<(), String> {
    #[cfg(feature = "http")]
    super::http::absolute(text)?;
    let _ = text;
    Ok(())
}

/// `HOST:PORT`, perhaps with slashes before it.
fn tcp(text: &str) -> Result<Address, String> {
    let text = text.strip_prefix("//").unwrap_or(text);
    let (host, port) = text.rsplit_once(':').ok_or("the port is missing")?;
    let port = port.parse().map_err(|_| "the port is not a number up to 65535")?;
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) if matches!(host.parse(), Ok(IpAddr::V6(_))) => host,
        Some(_) => return Err("between brackets belongs an IPv6 address".into()),
        None if host.contains(':') => return Err("an IPv6 address needs brackets".into()),
        None => host,
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || "/@?#[]".contains(c)) {
        return Err("the host is missing or has characters that no name has".into());
    }
    Ok(Address::Tcp { host: host.to_owned(), port })
}

/// `PATH`, or `///PATH` as URLs have it.
fn unix(text: &str) -> Result<Address, String> {
    match text.strip_prefix("//").unwrap_or(text) {
        "" => Err("the path is missing".into()),
        path => Ok(Address::Unix(path.into())),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(url) | Self::WebSocket(url) => f.write_str(url),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Stdio => f.write_str("stdio"),
            #[cfg(feature = "client")]
            Self::Process(command) => command.fmt(f),
        }
    }
}

/// As `Display`, with `…` for what may be secret in a URL, too.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.to_string();
        #[cfg(feature = "client")]
        let text = mcplane_process::mask_urls(&text);
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_be_a_number() {
        assert_eq!(read("unix:8080"), Address::Unix("8080".into()));
    }

    #[cfg(feature = "client")]
    #[test]
    fn nothing_secret_is_shown_to_whoever_debugs() {
        let command = mcplane_process::Command::new("x").args(["--token", "hunter2"]);
        let shown = format!("{:?}", Address::from(command.env("API_KEY", "s3cret")));
        assert!(!shown.contains("hunter2") && !shown.contains("s3cret"), "{shown}");
        let shown = format!("{:?}", Address::Http("https://h/mcp?key=hunter2".into()));
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    fn read(text: &str) -> Address {
        text.parse().unwrap()
    }

    fn why(read: Result<Address>) -> String {
        let error = read.unwrap_err();
        assert!(error.is_misuse());
        error.to_string()
    }

    #[test]
    fn addresses_are_read_and_written() {
        for text in [
            "127.0.0.1:0",
            "localhost:8765",
            "tcp:80",
            "[::1]:80",
            "unix:/run/a b.sock",
            "unix:x",
            "stdio",
        ] {
            assert_eq!(read(text).to_string(), text);
            let url = read(text).url();
            assert_eq!(Address::with_scheme(&url).unwrap(), read(text), "{url}");
        }
        assert_eq!(read("tcp://[::1]:7"), Address::Tcp { host: "::1".into(), port: 7 });
        assert_eq!(read("tcp://[::1]:7").url(), "tcp://[::1]:7");
        assert_eq!(read("unix:///run/x"), Address::Unix("/run/x".into()));
        assert_eq!(Address::from(SocketAddr::from(([127, 0, 0, 1], 9))), read("127.0.0.1:9"));
    }

    #[cfg(feature = "websocket")]
    #[test]
    fn urls_stay_as_they_are() {
        for text in ["http://localhost:80", "HTTPS://example.org/mcp?key=1"] {
            assert_eq!(read(text), Address::Http(text.into()));
            assert_eq!(read(text).url(), text);
        }
        for text in ["ws://[::1]:80/mcp", "wss://example.org"] {
            assert_eq!(read(text), Address::WebSocket(text.into()));
        }
        for (text, said) in [
            ("http:/x", "`//` is missing"),
            ("https://", "empty host"),
            ("http://h:x/", "invalid port"),
            ("wss://me:hunter2@h/", "credentials belong in a header"),
        ] {
            let error = why(text.parse());
            assert!(error.contains(said) && !error.contains("hunter2"), "{text}: {error}");
        }
    }

    #[cfg(not(feature = "http"))]
    #[test]
    fn a_transport_that_is_not_compiled_is_named() {
        let error = why("https://example.org/mcp".parse());
        assert!(error.contains("the feature `http`"), "{error}");
    }

    #[test]
    fn what_is_no_address_says_why() {
        for (text, said) in [
            ("8765", "the port is missing"),
            ("localhost", "the port is missing"),
            ("localhost:", "not a number"),
            ("localhost:65536", "up to 65535"),
            ("::1:80", "needs brackets"),
            ("[localhost]:80", "an IPv6 address"),
            (":80", "the host is missing"),
            ("a/b:80", "characters that no name has"),
            ("unix:", "the path is missing; write unix:PATH"),
            ("tcp://x", "the port is missing; write tcp://HOST:PORT"),
            ("stdio:1a", "nothing follows"),
            ("gopher://h:70", "the scheme `gopher` is unknown; write http://HOST"),
        ] {
            let error = why(text.parse());
            assert!(error.contains(said), "{text}: {error}");
        }
        assert_eq!(why(Address::with_scheme("a://b")), why("a://b".parse()));
        for text in ["localhost:80", "x", "", "tcp:80"] {
            let error = why(Address::with_scheme(text));
            assert!(error.contains("the scheme is missing; write http://"), "{text}: {error}");
        }
    }

    #[cfg(feature = "client")]
    #[test]
    fn a_program_is_shown_without_its_secrets() {
        let command = mcplane_process::Command::new("run").args(["--token", "hunter2"]);
        let address = Address::from(command);
        assert_eq!(address.url(), "run --token …");
    }
}
