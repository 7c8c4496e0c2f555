//! Where the gateway listens, as text: `"127.0.0.1:8765"`, `"tcp://…"`, `"unix:…"`, `"stdio"`.

use std::{
    borrow::Cow,
    fmt::{self, Debug, Display, Formatter},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
};

use mcplane::transport::Address;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::units::Words;

/// An address to listen on: one of the library's, without a name that somebody has to be asked for,
/// and without TLS.
///
/// * `"127.0.0.1:8765"`: Streamable HTTP, HTTP+SSE and WebSocket on one port. Port 0 picks one.
/// * `"tcp://127.0.0.1:9000"`: messages in lines over TCP. Carries no token.
/// * `"unix:/run/mcplane.sock"`: messages in lines over a Unix socket. Guarded by the rights of the
///   file.
/// * `"stdio"`: messages in lines over standard input and output, for one client that spawned the
///   gateway.
#[derive(Clone, PartialEq, Eq)]
pub struct Listen {
    address: Address,
    /// Where it can be reached over a network.
    socket: Option<SocketAddr>,
}

impl Listen {
    /// What is listened on.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Where it can be reached over a network, if it can.
    pub(super) const fn socket(&self) -> Option<SocketAddr> {
        self.socket
    }

    /// Whether other machines can reach it.
    pub fn is_public(&self) -> bool {
        self.socket.is_some_and(|socket| !socket.ip().is_loopback())
    }
}

impl From<SocketAddr> for Listen {
    /// HTTP and WebSocket.
    fn from(socket: SocketAddr) -> Self {
        Self { address: Address::Http(format!("http://{socket}")), socket: Some(socket) }
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
        let named = |text: &str| socket(text).ok_or_else(wrong);
        // What names no scheme is HTTP here.
        let Ok(address) = Address::with_scheme(text) else { return named(text).map(Self::from) };
        if let Address::Http(url) = &address
            && let Some(host) = url.strip_prefix("http://")
        {
            return named(host.strip_suffix('/').unwrap_or(host)).map(Self::from);
        }
        match &address {
            Address::Http(_) | Address::WebSocket(_) => Err(format!(
                "`{text}` cannot be listened on: write HOST:PORT, which serves HTTP and WebSocket, \
                 and put TLS in front of it"
            )),
            Address::Tcp { .. } => {
                let socket = named(&address.to_string())?;
                Ok(Self { address: socket.into(), socket: Some(socket) })
            }
            _ => Ok(Self { address, socket: None }),
        }
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
        match (&self.address, self.socket) {
            (Address::Http(_), Some(socket)) => Display::fmt(&socket, f),
            _ => f.write_str(&self.address.url()),
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
            "http://127.0.0.1",
            "http://127.0.0.1:80/mcp",
            "tcp://example.org:80",
            "stdio:1",
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
