//! What a server speaks, as far as the file says.
#![allow(clippy::exhaustive_enums, reason = "part of the settings, which callers match and build")]

use std::{
    borrow::Cow,
    fmt::{self, Display, Formatter},
    str::FromStr,
};

use mcplane::proto::version::{Era, Revision};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::units::Words;

/// What a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Speaks {
    /// The server is asked, once.
    #[default]
    Auto,
    /// Any revision with the `initialize` handshake; which one is agreed in it.
    Legacy,
    /// This revision.
    Revision(Revision),
}

impl Speaks {
    /// The era, if the file says it.
    pub const fn era(self) -> Option<Era> {
        match self {
            Self::Auto => None,
            Self::Legacy => Some(Era::Legacy),
            Self::Revision(revision) => Some(revision.era()),
        }
    }
}

impl FromStr for Speaks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, Revision::parse(text)) {
            ("auto", _) => Ok(Self::Auto),
            ("legacy", _) => Ok(Self::Legacy),
            (_, Some(revision)) => Ok(Self::Revision(revision)),
            _ => {
                let known =
                    Revision::ALL.map(|of| format!("\"{of}\"", of = of.as_str())).join(", ");
                Err(format!("`{text}` is none of \"auto\", \"legacy\", {known}"))
            }
        }
    }
}

impl Display for Speaks {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Legacy => "legacy",
            Self::Revision(revision) => revision.as_str(),
        })
    }
}

impl Serialize for Speaks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Speaks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "\"auto\", \"legacy\" or a revision such as \"2025-11-25\" as a string";
        deserializer.deserialize_any(Words { expected, of_number: |_| None })
    }
}

impl JsonSchema for Speaks {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Speaks".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = ["auto", "legacy"].into_iter().chain(Revision::ALL.map(Revision::as_str));
        json_schema!({ "type": "string", "enum": names.collect::<Vec<_>>() })
    }
}
