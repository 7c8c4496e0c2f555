//! Small JSON tools for the types: ordered maps, open string sets, number forms, raw members.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A JSON object that keeps its order and its unknown keys.
#[derive(Clone, Debug)]
pub struct Entries<V>(Vec<(String, V)>);

impl<V> Entries<V> {
    /// An object without members.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The value of the first member with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&V> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Appends a member.
    pub fn push(&mut self, key: impl Into<String>, value: V) {
        self.0.push((key.into(), value));
    }

    /// The members in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// How many members there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no member.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V> Default for Entries<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Into<String>, V> FromIterator<(K, V)> for Entries<V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(members: I) -> Self {
        Self(members.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

impl<V> IntoIterator for Entries<V> {
    type Item = (String, V);
    type IntoIter = std::vec::IntoIter<(String, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<V: Serialize> Serialize for Entries<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<V> {
    type Value = Entries<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Entries(members))
    }
}

/// A string that borrows from the text when it has no escapes.
#[derive(Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// Calls `visit` with each member of a JSON object, in order. Fails when `json` is not an object.
pub(crate) fn members<'a>(
    json: &'a str,
    visit: impl FnMut(Cow<'a, str>, &'a RawValue),
) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    deserializer.deserialize_map(MembersVisitor(visit))?;
    deserializer.end()
}

struct MembersVisitor<F>(F);

impl<'de, F: FnMut(Cow<'de, str>, &'de RawValue)> Visitor<'de> for MembersVisitor<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((Text(key), value)) = map.next_entry()? {
            (self.0)(key, value);
        }
        Ok(())
    }
}

/// The member of a JSON object with this key; the last one if there are several.
pub(crate) fn member<'a>(json: &'a str, key: &str) -> Option<&'a RawValue> {
    let mut found = None;
    members(json, |name, value| {
        if name == key {
            found = Some(value);
        }
    })
    .ok()?;
    found
}

/// Whether a JSON text is an object.
pub(crate) fn is_object(json: &str) -> bool {
    json.trim_start().starts_with('{')
}

/// How many levels of arrays and objects a JSON text has.
pub(crate) fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next().filter(|byte| *byte != b'"') {
                    if byte == b'\\' {
                        bytes.next();
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

/// A raw value from JSON text that this crate wrote itself.
pub(crate) fn raw(json: String) -> Box<RawValue> {
    RawValue::from_string(json).unwrap_or_else(|error| {
        debug_assert!(false, "wrote invalid JSON: {error}");
        RawValue::NULL.to_owned()
    })
}

/// Appends `value` as JSON. Every type of this crate serialises into memory without errors.
pub(crate) fn append(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let start = out.len();
    if let Err(error) = serde_json::to_writer(&mut *out, value) {
        debug_assert!(false, "cannot serialise: {error}");
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// `deserialize_with` for a member whose `null` is a value: absent is `None`, `null` is `Some`.
pub(crate) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// `deserialize_with` for a member whose `null` means absent.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// `deserialize_with` for a duration in milliseconds: fractions are cut, anything that is no
/// number of milliseconds counts as 0. A malformed hint must not break the result (SEP-2549).
pub(crate) fn lenient_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    // A float cast saturates: negative and NaN become 0.
    Ok(raw.get().parse::<f64>().map_or(0, |number| number as u64))
}

/// `serialize_with` for a number that is an integer wherever it can be.
pub(crate) fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

/// [`number`] for an optional member.
pub(crate) fn optional_number<S: Serializer>(
    value: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// A set of strings that peers may extend: known values are variants, others are kept.
macro_rules! open_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
            /// A value that this library does not know; kept as it came.
            Other(Box<str>),
        }

        impl $name {
            /// The value on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    other => Self::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let $crate::types::json::Text(text) = serde::Deserialize::deserialize(deserializer)?;
                Ok(Self::from(&*text))
            }
        }
    };
}
pub(crate) use open_enum;

/// Builder methods for optional members.
macro_rules! setters {
    ($($name:ident: $type:ty),* $(,)?) => {
        $(
            #[doc = concat!("The same with `", stringify!($name), "`.")]
            #[must_use]
            pub fn $name(mut self, $name: impl Into<$type>) -> Self {
                self.$name = Some($name.into());
                self
            }
        )*
    };
}
pub(crate) use setters;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_order_and_bytes() {
        let text = r#"{"z":1.0,"a":{"y":1,"x":10000000000000000000000},"\"q":null}"#;
        let entries: Entries<Box<RawValue>> = serde_json::from_str(text).unwrap();
        assert_eq!(entries.len(), 3);
        assert_eq!(entries.get("\"q").unwrap().get(), "null");
        assert_eq!(serde_json::to_string(&entries).unwrap(), text);
    }

    #[test]
    fn members_of_a_non_object_fail() {
        assert!(members("[1]", |_, _| ()).is_err());
        assert!(members("{} {}", |_, _| ()).is_err());
        assert_eq!(member(r#"{"a":1,"b":[2],"a":3}"#, "a").unwrap().get(), "3");
        assert!(member(r#"{"a":1}"#, "b").is_none());
    }

    #[test]
    fn depth_counts_brackets_outside_strings() {
        assert_eq!(depth("1"), 0);
        assert_eq!(depth(r#"{"[[[\"[":[{}],"b":[]}"#), 3);
    }

    #[test]
    fn numbers_are_integers_where_they_can_be() {
        #[derive(Serialize)]
        struct Number(#[serde(serialize_with = "number")] f64);
        for (value, text) in [(1.0, "1"), (0.5, "0.5"), (-3.0, "-3"), (1e300, "1e+300")] {
            assert_eq!(serde_json::to_string(&Number(value)).unwrap(), text);
        }
    }
}
