//! Where to listen or to connect, as text and back.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::Error;

/// `127.0.0.1:0`, `localhost:8765`, `[::1]:8765` or `unix:/run/mcp.sock`. With port 0, the system
/// chooses one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// A TCP port.
    Tcp {
        /// A name or an IP address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// The file of a Unix socket.
    Unix(PathBuf),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp { host: address.ip().to_string(), port: address.port() }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Error::misuse(format!(
                "`{text}` is not an address: {why}; write `127.0.0.1:8765`, `[::1]:8765` or \
                 `unix:/path/to.sock`"
            ))
        };
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///path` is what a URL looks like.
            let path = path.strip_prefix("//").unwrap_or(path);
            let path = if path.is_empty() { Err(wrong("the path is missing")) } else { Ok(path) };
            return Ok(Self::Unix(path?.into()));
        }
        let text = text.strip_prefix("tcp://").unwrap_or(text);
        let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("the port is missing"))?;
        let port = port.parse().map_err(|_| wrong("the port is not a number up to 65535"))?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(host) if matches!(host.parse(), Ok(IpAddr::V6(_))) => host,
            Some(_) => return Err(wrong("between brackets belongs an IPv6 address")),
            None if host.contains(':') => return Err(wrong("an IPv6 address needs brackets")),
            None => host,
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || "/@?#[]".contains(c)) {
            return Err(wrong("the host is missing or has characters that no name has"));
        }
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["127.0.0.1:0", "localhost:8765", "[::1]:80", "unix:/run/a b.sock", "unix:x"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let read = |text: &str| text.parse::<Address>().unwrap();
        assert_eq!(read("tcp://[::1]:7"), Address::Tcp { host: "::1".into(), port: 7 });
        assert_eq!(read("unix:///run/x"), Address::Unix("/run/x".into()));
        assert_eq!(Address::from(SocketAddr::from(([127, 0, 0, 1], 9))), read("127.0.0.1:9"));
    }

    #[test]
    fn what_is_no_address_says_why() {
        for (text, why) in [
            ("8765", "the port is missing"),
            ("localhost", "the port is missing"),
            ("localhost:", "not a number"),
            ("localhost:65536", "up to 65535"),
            ("::1:80", "needs brackets"),
            ("[localhost]:80", "an IPv6 address"),
            (":80", "the host is missing"),
            ("http://localhost:80", "needs brackets"),
            ("a/b:80", "characters that no name has"),
            ("unix:", "the path is missing"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.is_misuse() && error.to_string().contains(why), "{text}: {error}");
        }
    }
}
