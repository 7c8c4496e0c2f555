//! Where the gateway listens, as text: `"127.0.0.1:8765"`, `"tcp://…"`, `"unix:…"`, `"stdio"`.
#![allow(clippy::exhaustive_enums, reason = "part of the settings, which callers match and build")]

use std::{
    borrow::Cow,
    fmt::{self, Debug, Display, Formatter},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::units::Words;

/// An address to listen on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Listen {
    /// Streamable HTTP, HTTP+SSE and WebSocket on one port: `"127.0.0.1:8765"`. Port 0 picks one.
    Http(SocketAddr),
    /// Messages in lines over TCP: `"tcp://127.0.0.1:9000"`. Carries no token.
    Tcp(SocketAddr),
    /// Messages in lines over a Unix socket: `"unix:/run/mcplane.sock"`. Guarded by the rights of
    /// the file.
    Unix(PathBuf),
    /// Messages in lines over standard input and output, for one client that spawned the gateway.
    Stdio,
}

impl Listen {
    /// Whether other machines can reach it.
    pub fn is_public(&self) -> bool {
        match self {
            Self::Http(address) | Self::Tcp(address) => !address.ip().is_loopback(),
            Self::Unix(_) | Self::Stdio => false,
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not an address to listen on such as \"127.0.0.1:8765\", \
                 \"tcp://127.0.0.1:9000\", \"unix:/run/mcplane.sock\" or \"stdio\""
            )
        };
        if text == "stdio" {
            return Ok(Self::Stdio);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            // Both `unix:/path` and `unix:///path` are in use.
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(wrong()) } else { Ok(Self::Unix(path.into())) };
        }
        if let Some(address) = text.strip_prefix("tcp://") {
            return socket(address).map(Self::Tcp).ok_or_else(wrong);
        }
        if let Some(scheme) =
            ["https", "wss", "ws"].iter().find(|of| text.starts_with(&format!("{of}://")))
        {
            return Err(format!(
                "`{scheme}://` cannot be listened on: write HOST:PORT, which serves HTTP and \
                 WebSocket, and put TLS in front of it"
            ));
        }
        let address = text.strip_prefix("http://").unwrap_or(text);
        socket(address.strip_suffix('/').unwrap_or(address)).map(Self::Http).ok_or_else(wrong)
    }
}

/// An IP address with its port; the one name that is known without asking anybody is `localhost`.
fn socket(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port.parse().ok()?)),
        None => text.parse().ok(),
    }
}

impl Display for Listen {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(address) => Display::fmt(address, f),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Stdio => f.write_str("stdio"),
        }
    }
}

impl Debug for Listen {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "an address to listen on such as \"127.0.0.1:8765\"";
        deserializer.deserialize_any(Words { expected, of_number: |_| None })
    }
}

impl JsonSchema for Listen {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Listen".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_what_they_show() {
        for text in
            ["127.0.0.1:8765", "[::1]:0", "tcp://0.0.0.0:9000", "unix:/run/mcplane.sock", "stdio"]
        {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for (text, shown) in [
            ("localhost:80", "127.0.0.1:80"),
            ("http://127.0.0.1:80/", "127.0.0.1:80"),
            ("unix:///run/a", "unix:/run/a"),
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            ":8765",
            "8765",
            "example.org:80",
            "127.0.0.1",
            "127.0.0.1:99999",
            "unix:",
            "ftp://a",
        ] {
            assert!(text.parse::<Listen>().unwrap_err().contains("such as"), "{text}");
        }
        assert!("wss://127.0.0.1:1".parse::<Listen>().unwrap_err().contains("TLS in front"));
    }

    #[test]
    fn what_others_can_reach_is_public() {
        for (text, public) in [
            ("127.0.0.1:1", false),
            ("[::1]:1", false),
            ("0.0.0.0:1", true),
            ("[::]:1", true),
            ("tcp://10.0.0.1:1", true),
            ("unix:/a", false),
            ("stdio", false),
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().is_public(), public, "{text}");
        }
    }
}
