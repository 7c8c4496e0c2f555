//! What both sides of the opening handshake share (RFC 6455 §4).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AsHeaderName;
use sha1_smol::Sha1;

/// The subprotocol of an open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// `mcp`: one message in JSON per text frame.
    Json,
    /// `mcp.msgpack`: one message in MessagePack per binary frame.
    #[cfg(feature = "msgpack")]
    MessagePack,
}

impl Protocol {
    /// The name in `Sec-WebSocket-Protocol`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "mcp",
            #[cfg(feature = "msgpack")]
            Self::MessagePack => "mcp.msgpack",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "mcp" => Some(Self::Json),
            #[cfg(feature = "msgpack")]
            "mcp.msgpack" => Some(Self::MessagePack),
            _ => None,
        }
    }
}

/// A client's challenge: 16 random bytes.
pub(super) fn key() -> crate::Result<String> {
    let mut bytes = [0; 16];
    crate::random::fill(&mut bytes, "a WebSocket key")?;
    Ok(STANDARD.encode(bytes))
}

/// Whether this is a challenge.
pub(super) fn is_key(key: &str) -> bool {
    STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16)
}

/// The answer to a challenge (§4.2.2 step 5).
pub(super) fn accept(key: &str) -> String {
    let challenge = [key, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"].concat();
    STANDARD.encode(Sha1::from(challenge).digest().bytes())
}

/// The elements of a header that is a list, over all its lines.
pub(super) fn list(headers: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|element| !element.is_empty())
}

/// Whether a header that is a list has this element, in any case.
pub(super) fn has(headers: &HeaderMap, name: impl AsHeaderName, element: &str) -> bool {
    list(headers, name).any(|found| found.eq_ignore_ascii_case(element))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handshake_of_section_1_3() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(is_key("dGhlIHNhbXBsZSBub25jZQ==") && is_key(&key().unwrap()));
        assert!(!is_key("dGhlIHNhbXBsZSBub25j") && !is_key("???") && !is_key(""));
    }

    #[test]
    fn lists_span_lines_and_ignore_case() {
        let mut headers = HeaderMap::new();
        headers.append("connection", "keep-alive, Upgrade".parse().unwrap());
        headers.append("connection", " x ,,y".parse().unwrap());
        assert!(has(&headers, "connection", "upgrade"));
        assert!(!has(&headers, "connection", "up"));
        let all: Vec<_> = list(&headers, "connection").collect();
        assert_eq!(all, ["keep-alive", "Upgrade", "x", "y"]);
    }
}
