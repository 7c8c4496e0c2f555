//! What both sides of the opening handshake have in common (RFC 6455 §4).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AsHeaderName;

/// What is spoken once the connection is open.
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
pub(super) fn key() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(STANDARD.encode(bytes))
}

/// Whether this is a challenge.
pub(super) fn is_key(key: &str) -> bool {
    STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16)
}

/// The answer to a challenge (§4.2.2 step 5).
pub(super) fn accept(key: &str) -> String {
    let challenge = [key, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"].concat();
    STANDARD.encode(sha1(challenge.as_bytes()))
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

/// SHA-1 (RFC 3174). The handshake proves with it that the peer speaks WebSocket, and nothing else:
/// nobody's security rests on it.
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());

    let mut state: [u32; 5] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0];
    for block in padded.as_chunks::<64>().0 {
        let mut schedule =
            block.as_chunks::<4>().0.iter().map(|b| u32::from_be_bytes(*b)).collect();
        extend(&mut schedule);
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (round, word) in schedule.into_iter().enumerate() {
            let (mix, constant) = match round {
                0..20 => (b & c | !b & d, 0x5A82_7999),
                20..40 => (b ^ c ^ d, 0x6ED9_EBA1),
                40..60 => (b & c | b & d | c & d, 0x8F1B_BCDC),
                _ => (b ^ c ^ d, 0xCA62_C1D6_u32),
            };
            let sum = a.rotate_left(5).wrapping_add(mix).wrapping_add(e);
            (e, d, c, b) = (d, c, b.rotate_left(30), a);
            a = sum.wrapping_add(constant).wrapping_add(word);
        }
        for (state, add) in state.iter_mut().zip([a, b, c, d, e]) {
            *state = state.wrapping_add(add);
        }
    }
    let mut digest = [0; 20];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    digest
}

/// The 16 words of a block become the 80 of its rounds.
fn extend(schedule: &mut Vec<u32>) {
    while let Some([a, _, c, _, _, _, _, _, i, _, _, _, _, n, _, _]) = schedule.last_chunk()
        && schedule.len() < 80
    {
        schedule.push((a ^ c ^ i ^ n).rotate_left(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(digest: [u8; 20]) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_vectors_of_rfc_3174() {
        for (message, digest) in [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
            ),
            (&"a".repeat(1_000_000), "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
        ] {
            assert_eq!(hex(sha1(message.as_bytes())), digest);
        }
    }

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
