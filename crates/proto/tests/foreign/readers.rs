//! Parsers that are not ours, as small as they can be: what each of them sees in a message.
//!
//! The tokens come from `serde_json`, one object level at a time, in order and with every duplicate.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// How a parser finds the member of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reader {
    /// The first one: most streaming readers that stop when they have what they want.
    First,
    /// The last one: JavaScript, Python, `serde_json::Value`.
    Last,
    /// All of them: readers that keep duplicates, and validators that look at each.
    Every,
    /// The last one whose key is the same but for case, by Unicode's simple folding, in every
    /// object of that name: Go.
    Folding,
    /// The last one whose key is the same up to a NUL: C.
    Terminated,
    /// The last one whose key is the same without its control characters: readers that clean up.
    Cleaning,
}

pub(crate) const READERS: [Reader; 6] = [
    Reader::First,
    Reader::Last,
    Reader::Every,
    Reader::Folding,
    Reader::Terminated,
    Reader::Cleaning,
];

impl Reader {
    /// The values that this reader may see at a path, as JSON text. A sound message has one or none.
    pub(crate) fn read(self, message: &str, path: &[&str]) -> Vec<String> {
        let mut found = vec![message.to_owned()];
        for name in path {
            found = found.iter().flat_map(|object| self.members(object, name)).collect();
            match self {
                Self::First => found.truncate(1),
                // An object that comes twice is read into the same place.
                Self::Folding | Self::Every => {}
                Self::Last | Self::Terminated | Self::Cleaning => {
                    found.drain(..found.len().saturating_sub(1));
                }
            }
        }
        if matches!(self, Self::Folding) {
            found.drain(..found.len().saturating_sub(1));
        }
        found
    }

    fn members(self, object: &str, name: &str) -> Vec<String> {
        let Ok(Members(members)) = serde_json::from_str(object) else { return Vec::new() };
        let fits = |(key, _): &(String, String)| match self {
            Self::First | Self::Last | Self::Every => key == name,
            Self::Folding => key.chars().map(fold).eq(name.chars().map(fold)),
            Self::Terminated => key.split('\0').next() == Some(name),
            Self::Cleaning => key.chars().filter(|letter| !letter.is_control()).eq(name.chars()),
        };
        members.into_iter().filter(fits).map(|(_, value)| value).collect()
    }
}

/// The smallest letter of those that fold together, as `unicode.SimpleFold` of Go has them.
fn fold(letter: char) -> char {
    match letter {
        'ſ' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    }
}

/// The members of an object in order, duplicates and all.
struct Members(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    members.push((key, value.get().to_owned()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}

/// What decides where a message goes and what it does there.
pub(crate) const DECIDES: [&[&str]; 8] = [
    &["id"],
    &["method"],
    &["params", "name"],
    &["params", "uri"],
    &["params", "ref", "type"],
    &["params", "ref", "name"],
    &["params", "ref", "uri"],
    &["params", "_meta", "progressToken"],
];

/// Every reader sees at each deciding path what `ours` says is there: one value, or none.
pub(crate) fn agree(
    message: &[u8],
    ours: impl Fn(&[&str]) -> Option<String>,
) -> Result<(), String> {
    let text = std::str::from_utf8(message).map_err(|error| error.to_string())?;
    let value = |json: &str| serde_json::from_str::<serde_json::Value>(json).ok();
    for path in DECIDES {
        let expected = ours(path);
        let expected: Vec<_> = expected.iter().map(|json| value(json)).collect();
        for reader in READERS {
            let found = reader.read(text, path);
            let found: Vec<_> = found.iter().map(|json| value(json)).collect();
            if found != expected {
                return Err(format!("{reader:?} at {path:?}: {found:?}, not {expected:?}: {text}"));
            }
        }
    }
    Ok(())
}
