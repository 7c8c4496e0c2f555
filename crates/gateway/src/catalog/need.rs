//! What a client needs, and the servers that may have it.
#![allow(
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "plain data that the caller builds and reads"
)]

use std::collections::{BTreeMap, BTreeSet};

use mcplane::proto::version::Revision;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// Most things that one client can need; further ones are an error of the caller's.
pub const ITEMS_MAX: usize = 1024;

/// What a client needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Need {
    /// Tools, by name.
    pub tools: Vec<String>,
    /// Prompts, by name.
    pub prompts: Vec<String>,
    /// Resources, by URI.
    pub resources: Vec<String>,
    /// The oldest revision that will do.
    #[serde(serialize_with = "revision_out", deserialize_with = "revision_in")]
    pub revision: Option<Revision>,
    /// The oldest version of any server that will do.
    pub min_version: Option<String>,
    /// The same for one server by its name, instead of `min_version`.
    pub min_versions: BTreeMap<String, String>,
}

/// How a server is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// It answers.
    #[default]
    Healthy,
    /// It answers, but not always or not in time.
    Degraded,
    /// It gets probes, no calls.
    Quarantined,
    /// It does not run.
    Down,
}

/// A server that may do.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// The version that it says it has.
    pub version: Option<String>,
    /// The revision that it speaks.
    #[serde(serialize_with = "revision_out", deserialize_with = "revision_in")]
    pub revision: Option<Revision>,
    /// How it is.
    pub health: Health,
    /// How busy it is: 0 is idle, 1 is full. Anything that is not a number counts as full.
    pub load: f64,
    /// Whether its lists are known. If not, it offers nothing that could be counted on.
    pub known: bool,
    /// Its tools.
    pub tools: Vec<String>,
    /// Its prompts.
    pub prompts: Vec<String>,
    /// The URIs of its resources.
    pub resources: Vec<String>,
    /// Its URI templates.
    pub templates: Vec<String>,
}

/// One thing that is needed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Item {
    /// A tool.
    Tool(String),
    /// A prompt.
    Prompt(String),
    /// A resource.
    Resource(String),
}

/// Why a need cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NeedError {
    /// Too many things.
    #[error("{found} things are needed; at most {ITEMS_MAX} can be asked for at a time")]
    TooMany {
        /// How many.
        found: usize,
    },
    /// A minimum that is not a version.
    #[error("{text:?} is not a version: write it as in `1.2` or `1.2.3-rc.1`")]
    Version {
        /// What was written.
        text: String,
    },
    /// A minimum for a server that is not there.
    #[error("a minimum version is set for server {name:?}, and no server has this name")]
    NoSuchServer {
        /// The name.
        name: String,
    },
}

impl Need {
    /// Each thing once, in a fixed order.
    pub(super) fn items(&self) -> Result<Vec<Item>, NeedError> {
        let tools = self.tools.iter().cloned().map(Item::Tool);
        let prompts = self.prompts.iter().cloned().map(Item::Prompt);
        let resources = self.resources.iter().cloned().map(Item::Resource);
        let items: BTreeSet<Item> = tools.chain(prompts).chain(resources).collect();
        if items.len() > ITEMS_MAX {
            return Err(NeedError::TooMany { found: items.len() });
        }
        Ok(items.into_iter().collect())
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde wants")]
fn revision_out<S: Serializer>(
    revision: &Option<Revision>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    revision.map(Revision::as_str).serialize(serializer)
}

fn revision_in<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Revision>, D::Error> {
    let Some(name) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let known = Revision::ALL.map(Revision::as_str).join(", ");
    let unknown = || D::Error::custom(format!("unknown revision {name:?}: there are {known}"));
    Revision::parse(&name).map(Some).ok_or_else(unknown)
}
