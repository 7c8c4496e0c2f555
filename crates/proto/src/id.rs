//! Request ids and progress tokens: an integer or a string, and never the one for the other.

use std::fmt;

use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A JSON-RPC request id, or a progress token, which has the same form.
///
/// The JSON type is part of the identity: `1` and `"1"` are two ids (JSON-RPC 2.0 §4; MCP basic
/// §Requests: string or integer, never null).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Id {
    /// A JSON integer.
    Integer(i64),
    /// A JSON string.
    String(Box<str>),
}

impl Id {
    /// Reads an id from its JSON text. `None` for anything but an integer of 64 bits or a string.
    #[must_use]
    pub fn from_json(json: &[u8]) -> Option<Self> {
        match json.first()? {
            b'"' => serde_json::from_slice::<Box<str>>(json).ok().map(Self::String),
            b'-' | b'0'..=b'9' => std::str::from_utf8(json).ok()?.parse().ok().map(Self::Integer),
            _ => None,
        }
    }

    /// Appends the id as JSON text.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Integer(number) => {
                out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes());
            }
            Self::String(text) => crate::message::write_string(out, text),
        }
    }
}

impl From<i64> for Id {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Id {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::String(text) => write!(f, "{text:?}"),
        }
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Integer(number) => serializer.serialize_i64(*number),
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer or a string")
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Id, E> {
        Ok(Id::Integer(number))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Id, E> {
        i64::try_from(number).map(Id::Integer).map_err(|_| E::custom("id is beyond 64 bits"))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Id, E> {
        Ok(Id::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(id: &Id) -> String {
        let mut out = Vec::new();
        id.write_json(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn text_round_trips_and_keeps_its_type() {
        for text in ["0", "-1", "7", "9223372036854775807", "-9223372036854775808", "\"1\"", "\"\""]
        {
            let id = Id::from_json(text.as_bytes()).unwrap();
            assert_eq!(json(&id), text);
            assert_eq!(serde_json::to_string(&id).unwrap(), text);
            assert_eq!(serde_json::from_str::<Id>(text).unwrap(), id);
        }
        assert_ne!(Id::from(1), Id::from("1"));
    }

    #[test]
    fn everything_else_is_refused() {
        for text in ["null", "1.0", "1e3", "true", "[1]", "{}", "", "9223372036854775808"] {
            assert_eq!(Id::from_json(text.as_bytes()), None, "{text}");
        }
    }
}
