//! Values with a unit, and values that nobody may see.
//!
//! Each reads what a person writes (`"250ms"`, `"512MiB"`) and shows it the same way.

use std::{
    borrow::Cow,
    fmt::{self, Debug, Display, Formatter},
    str::FromStr,
    time::Duration,
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

/// Longest period: 366 days. Longer means "never", which is written `"0s"`, and would overflow a
/// clock.
const PERIOD_HOURS_MAX: u64 = 366 * 24;

/// A length of time: `"250ms"`, `"10s"`, `"5m"` or `"1h"`; resolution 1 ms.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period {
    ms: u64,
}

impl Period {
    /// No time at all, which most settings read as "no limit".
    pub const ZERO: Self = Self { ms: 0 };

    /// So many milliseconds.
    pub const fn of_ms(ms: u64) -> Self {
        Self { ms }
    }

    /// So many seconds.
    pub const fn of_s(s: u64) -> Self {
        Self { ms: s * 1000 }
    }

    /// The time itself.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.ms)
    }

    /// The time as a limit: `None` for `"0s"`, where that means "never".
    pub const fn limit(self) -> Option<Duration> {
        if self.ms == 0 { None } else { Some(self.duration()) }
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.ms == 0
    }
}

/// Milliseconds of each unit, longest first.
const PERIODS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a duration such as \"250ms\", \"10s\" or \"5m\"");
        let (number, unit) = split(text);
        let each = match (unit, number) {
            ("", "0") => 1,
            _ => PERIODS.iter().find(|(name, _)| *name == unit).map(|of| of.1).ok_or_else(wrong)?,
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        match number.checked_mul(each) {
            Some(ms) if ms <= PERIOD_HOURS_MAX * 3_600_000 => Ok(Self { ms }),
            _ => Err(format!("`{text}` is too long: at most {PERIOD_HOURS_MAX}h")),
        }
    }
}

impl Display for Period {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match PERIODS.iter().find(|(_, each)| self.ms != 0 && self.ms.is_multiple_of(*each)) {
            Some((unit, each)) => write!(f, "{}{unit}", self.ms / each),
            None => f.write_str("0s"),
        }
    }
}

/// An amount of memory: `"512MiB"`, `"1GiB"`, or a plain number of bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size {
    bytes: u64,
}

impl Size {
    /// So many bytes.
    pub const fn of_bytes(bytes: u64) -> Self {
        Self { bytes }
    }

    /// How many bytes.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }
}

/// Bytes of each unit; those that are shown come first, largest first.
const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a size such as \"512MiB\", \"1GiB\" or 1048576");
        let (number, unit) = split(text);
        let unit = if unit.is_empty() { "B" } else { unit };
        let each = SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let each = each.ok_or_else(wrong)?.1;
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(each));
        Ok(Self { bytes: bytes.ok_or_else(wrong)? })
    }
}

impl Display for Size {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match SIZES.iter().find(|(_, each)| self.bytes != 0 && self.bytes.is_multiple_of(*each)) {
            Some((unit, each)) => write!(f, "{}{unit}", self.bytes / each),
            None => f.write_str("0B"),
        }
    }
}

/// The digits in front, and the unit behind them.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// Words that nobody may see: neither `Debug` nor `Serialize` shows more than `…`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps these words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }

    /// The words themselves, for the one who they are meant for.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Debug for Secret {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("…")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Reads a value from text with its [`FromStr`], or from a number if it takes one.
pub(super) struct Words<T> {
    pub(super) expected: &'static str,
    pub(super) of_number: fn(u64) -> Option<T>,
}

impl<T: FromStr<Err = String>> Visitor<'_> for Words<T> {
    type Value = T;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        let value = u64::try_from(number).ok().and_then(self.of_number);
        value.ok_or_else(|| E::invalid_type(serde::de::Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        let value = (self.of_number)(number);
        value.ok_or_else(|| E::invalid_type(serde::de::Unexpected::Unsigned(number), &self))
    }
}

macro_rules! in_words {
    ($type:ident, $expected:literal, $of_number:expr, $schema:tt) => {
        impl Debug for $type {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                Display::fmt(self, f)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Words { expected: $expected, of_number: $of_number })
            }
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

in_words!(Period, "a duration such as \"250ms\", \"10s\" or \"5m\"", |number| {
    (number == 0).then_some(Period::ZERO)
}, { "type": "string", "pattern": "^[0-9]+ ?(ms|s|m|h)$" });
in_words!(Size, "a size such as \"512MiB\" or a number of bytes", |number| {
    Some(Size::of_bytes(number))
}, {
    "oneOf": [
        { "type": "string", "pattern": "^[0-9]+ ?([kKmMgGtT][iI]?)?[bB]?$" },
        { "type": "integer", "minimum": 0 },
    ]
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_read_what_they_show() {
        for (text, ms) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("0s", 0),
            ("1500ms", 1500),
        ] {
            let period: Period = text.parse().unwrap();
            assert_eq!(
                (period.duration(), period.to_string()),
                (Duration::from_millis(ms), text.into())
            );
        }
        assert_eq!("0".parse(), Ok(Period::ZERO));
        assert_eq!("60 s".parse::<Period>().unwrap().to_string(), "1m");
        assert_eq!(Period::ZERO.limit(), None);
        for text in ["", "10", "s", "-1s", "1.5s", "1m30s", "10 sec", "9999999999999h", "8785h"] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_read_what_they_show() {
        for (text, bytes) in
            [("512MiB", 512 << 20), ("1GiB", 1 << 30), ("1KiB", 1024), ("1000B", 1000), ("0B", 0)]
        {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.bytes(), size.to_string()), (bytes, text.into()));
        }
        assert_eq!("2gb".parse(), Ok(Size::of_bytes(2_000_000_000)));
        assert_eq!("4096".parse(), Ok(Size::of_bytes(4096)));
        for text in ["", "MiB", "1.5GiB", "-1", "1XB", "99999999999TiB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_secret_is_shown_to_nobody() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?} {:#?}", vec![&secret]).find("hunter2"), None);
        assert_eq!(serde_json::to_string(&secret).unwrap(), r#""…""#);
        assert_eq!(secret.expose(), "hunter2");
    }
}
