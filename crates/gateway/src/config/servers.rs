//! The servers by name, in the order of the file.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt::{self, Debug, Formatter},
};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, Visitor},
};

use super::model::Server;

/// Servers by name, in the order of the file, which is the order of lists.
///
/// Few enough that a search from the front is the fastest: [`super::SERVERS_MAX`].
#[derive(Clone, Default, PartialEq)]
pub struct Servers(Vec<(String, Server)>);

impl Servers {
    /// No server.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The server of this name.
    pub fn get(&self, name: &str) -> Option<&Server> {
        self.iter().find_map(|(of, server)| (of == name).then_some(server))
    }

    /// Puts a server behind the others, or in the place of the one that had its name, which is
    /// returned.
    pub fn insert(&mut self, name: impl Into<String>, server: Server) -> Option<Server> {
        let name = name.into();
        match self.0.iter_mut().find(|(of, _)| *of == name) {
            Some((_, old)) => Some(std::mem::replace(old, server)),
            None => {
                self.0.push((name, server));
                None
            }
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Server)> {
        self.0.iter().map(|(name, server)| (name.as_str(), server))
    }

    /// All of them to change, in order.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&str, &mut Server)> {
        self.0.iter_mut().map(|(name, server)| (name.as_str(), server))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts them in the order that `place` gives.
    pub(super) fn sort_by_place(&mut self, place: impl Fn(&str) -> usize) {
        self.0.sort_by_key(|(name, _)| place(name));
    }
}

impl FromIterator<(String, Server)> for Servers {
    fn from_iter<I: IntoIterator<Item = (String, Server)>>(all: I) -> Self {
        let mut servers = Self::new();
        for (name, server) in all {
            servers.insert(name, server);
        }
        servers
    }
}

impl Debug for Servers {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Servers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Servers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Servers;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a table of servers by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Servers, A::Error> {
        let mut servers = Servers::new();
        while let Some((name, server)) = map.next_entry::<String, Server>()? {
            if servers.get(&name).is_some() {
                return Err(A::Error::custom(format!("two servers are called `{name}`")));
            }
            servers.insert(name, server);
        }
        Ok(servers)
    }
}

impl JsonSchema for Servers {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Servers".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = BTreeMap::<String, Server>::json_schema(generator);
        schema.insert(
            "propertyNames".into(),
            serde_json::json!({ "pattern": "^(?!.*__)[a-z0-9][a-z0-9_-]{0,63}$" }),
        );
        schema
    }
}
