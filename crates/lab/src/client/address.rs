//! Addresses of servers: `http(s)://`, `ws(s)://`, `tcp://HOST:PORT`, `unix:/path`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use url::{Host, Url};

use crate::listener::{self, Socket};
use crate::results;

/// How messages travel to a server that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// Streamable HTTP, either era.
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// WebSocket, one message per text frame.
    WebSocket,
    /// TCP, one message per line.
    Tcp,
    /// A Unix socket, one message per line.
    Unix,
}

impl Transport {
    /// The word for it, on the command line and in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        results::Transport::from(self).as_str()
    }
}

impl From<Transport> for results::Transport {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Http => Self::Http,
            Transport::Sse => Self::Sse,
            Transport::WebSocket => Self::WebSocket,
            Transport::Tcp => Self::Tcp,
            Transport::Unix => Self::Unix,
        }
    }
}

/// Where a server listens, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Address {
    pub(crate) transport: Transport,
    /// As it was given, without what must not be shown.
    text: String,
    pub(crate) place: Place,
}

/// What to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Net {
        /// As the resolver wants it: without brackets.
        host: String,
        port: u16,
        tls: bool,
        /// The value of `Host`.
        authority: String,
        /// Path and query; empty for TCP.
        path: String,
    },
    Unix(PathBuf),
}

impl Address {
    /// Reads an address. `sse` asks for HTTP+SSE behind an `http` or `https` URL.
    ///
    /// # Errors
    /// A sentence that names the address and what is wrong with it.
    pub fn parse(text: &str, sse: bool) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path {
                "" => Err(format!("{text}: a path is missing, as in unix:/run/server.sock")),
                path => Ok(Self {
                    transport: Transport::Unix,
                    text: text.to_owned(),
                    place: Place::Unix(path.into()),
                }),
            };
        }
        let url = Url::parse(text).map_err(|error| match Self::is_written(text) {
            true => format!("{text}: {error}"),
            false => format!("{text}: {error}; to measure a command: mcplane bench -- {text}"),
        })?;
        let (transport, tls) = match url.scheme() {
            "http" => (Transport::Http, false),
            "https" => (Transport::Http, true),
            "ws" => (Transport::WebSocket, false),
            "wss" => (Transport::WebSocket, true),
            "tcp" => (Transport::Tcp, false),
            scheme => {
                return Err(format!(
                    "{text}: {scheme} is not spoken; http, https, ws, wss, tcp and unix are"
                ));
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            let shown = url.host_str().unwrap_or_default();
            return Err(format!(
                "{shown}: no credentials in an address; --header 'Authorization: …' carries them"
            ));
        }
        let transport = match (transport, sse) {
            (Transport::Http, true) => Transport::Sse,
            (other, true) => {
                return Err(format!("{text}: {} is not HTTP, so no --transport", other.as_str()));
            }
            (other, false) => other,
        };
        let place = net(&url, tls, transport).map_err(|what| format!("{text}: {what}"))?;
        Ok(Self { transport, text: text.to_owned(), place })
    }

    /// Whether a word is meant as an address, and not as a command or a file.
    #[must_use]
    pub fn is_written(word: &str) -> bool {
        word.contains("://") || word.starts_with("unix:")
    }

    /// How messages travel.
    #[must_use]
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// Whether the server is on this machine as far as the address tells.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match &self.place {
            Place::Unix(_) => true,
            Place::Net { host, .. } => {
                host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            }
        }
    }

    /// The process that listens there, if that can be seen from here.
    pub(crate) fn process(&self) -> Option<u32> {
        let socket = match &self.place {
            Place::Unix(path) => Socket::Path(path),
            Place::Net { port, .. } if self.is_loopback() => Socket::Port(*port),
            Place::Net { .. } => return None,
        };
        listener::process(socket)
    }

    /// Whether the way is encrypted.
    pub(crate) const fn is_tls(&self) -> bool {
        matches!(self.place, Place::Net { tls: true, .. })
    }

    /// The same server over HTTP+SSE; `None` if it is not reached over HTTP.
    pub(crate) fn over_sse(&self) -> Option<Self> {
        (self.transport == Transport::Http)
            .then(|| Self { transport: Transport::Sse, ..self.clone() })
    }

    /// The address of an endpoint that the server named: relative, or absolute on the same origin.
    pub(crate) fn join(&self, reference: &str) -> Result<String, String> {
        let base = Url::parse(&self.text).map_err(|error| error.to_string())?;
        let url = base.join(reference).map_err(|error| format!("{reference}: {error}"))?;
        if url.origin() != base.origin() {
            return Err(format!("its endpoint {reference} is on another origin"));
        }
        Ok(request_target(&url))
    }
}

fn net(url: &Url, tls: bool, transport: Transport) -> Result<Place, String> {
    let host = match url.host() {
        Some(Host::Ipv6(ip)) => ip.to_string(),
        Some(host) => host.to_string(),
        None => return Err("a host is missing".to_owned()),
    };
    let port = url.port_or_known_default().ok_or("a port is missing, as in tcp://HOST:PORT")?;
    let shown = url.host_str().unwrap_or_default();
    let authority = url.port().map_or_else(|| shown.to_owned(), |port| format!("{shown}:{port}"));
    let path = match transport {
        Transport::Tcp if !matches!(url.path(), "" | "/") => {
            return Err("an address of TCP has no path".to_owned());
        }
        Transport::Tcp => String::new(),
        _ => request_target(url),
    };
    Ok(Place::Net { host, port, tls, authority, path })
}

fn request_target(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

impl fmt::Display for Address {
    /// As it was given. Addresses with credentials are refused, so that there are none to show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net_of(text: &str) -> (String, u16, bool, String, String) {
        match Address::parse(text, false).unwrap().place {
            Place::Net { host, port, tls, authority, path } => (host, port, tls, authority, path),
            Place::Unix(path) => panic!("{path:?}"),
        }
    }

    #[test]
    fn addresses_are_taken_apart() {
        for (text, host, port, tls, authority, path) in [
            ("http://a.b/mcp", "a.b", 80, false, "a.b", "/mcp"),
            ("https://a.b:8443/m?x=1#f", "a.b", 8443, true, "a.b:8443", "/m?x=1"),
            ("ws://[::1]:7/x", "::1", 7, false, "[::1]:7", "/x"),
            ("wss://a", "a", 443, true, "a", "/"),
            ("tcp://127.0.0.1:9", "127.0.0.1", 9, false, "127.0.0.1:9", ""),
        ] {
            let want = (host.into(), port, tls, authority.into(), path.into());
            assert_eq!(net_of(text), want, "{text}");
        }
        let unix = Address::parse("unix:/tmp/a b", false).unwrap();
        assert_eq!(unix.place, Place::Unix("/tmp/a b".into()));
        assert_eq!(Address::parse("http://a", true).unwrap().transport(), Transport::Sse);
    }

    #[test]
    fn what_cannot_be_spoken_to_is_refused() {
        for (text, part) in [
            ("ftp://a", "ftp is not spoken"),
            ("server", "mcplane bench -- server"),
            ("tcp://a", "a port is missing"),
            ("tcp://a:1/x", "no path"),
            ("unix:", "a path is missing"),
            ("http://", "empty host"),
        ] {
            let error = Address::parse(text, false).unwrap_err();
            assert!(error.contains(part) && error.contains(text), "{error}");
        }
        let malformed = Address::parse("http://", false).unwrap_err();
        assert!(!malformed.contains("--"), "that is not a command: {malformed}");
        assert!(Address::parse("ws://a", true).unwrap_err().contains("--transport"));
        let secret = Address::parse("http://me:hunter2@a/", false).unwrap_err();
        assert!(secret.contains("--header") && !secret.contains("hunter2"), "{secret}");
    }

    #[test]
    fn an_endpoint_stays_on_its_origin() {
        let address = Address::parse("http://a:1/x/sse", true).unwrap();
        assert_eq!(address.join("/messages?s=1"), Ok("/messages?s=1".to_owned()));
        assert_eq!(address.join("messages"), Ok("/x/messages".to_owned()));
        assert_eq!(address.join("http://a:1/m"), Ok("/m".to_owned()));
        assert!(address.join("http://b:1/m").unwrap_err().contains("another origin"));
    }

    #[test]
    fn loopback_is_known() {
        for (text, want) in [
            ("http://127.0.0.1/", true),
            ("http://localhost:1/", true),
            ("ws://[::1]/", true),
            ("unix:/x", true),
            ("http://192.0.2.1/", false),
            ("http://localhost.example/", false),
        ] {
            assert_eq!(Address::parse(text, false).unwrap().is_loopback(), want, "{text}");
        }
    }
}
