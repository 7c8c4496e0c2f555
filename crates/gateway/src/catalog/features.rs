//! What the gateway can do, since somebody behind it can.

use std::fmt::Write as _;

use mcplane::proto::types::{Entries, ServerCapabilities};
use serde_json::value::RawValue;

use super::clean::{member, on_one_line};
use super::offer::{Kind, Offer};
use super::snapshot::{Server, Snapshot};

/// What the servers can do together. One whose offer nobody knows yet counts as able to do
/// everything: a client that was told otherwise would never ask again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "plain data")]
pub struct Features {
    /// Tools.
    pub tools: bool,
    /// Prompts.
    pub prompts: bool,
    /// Resources.
    pub resources: bool,
    /// Changes of resources can be watched.
    pub subscribe: bool,
    /// Arguments are completed.
    pub completions: bool,
    /// Log messages are sent.
    pub logging: bool,
}

impl Features {
    const ALL: Self = Self {
        tools: true,
        prompts: true,
        resources: true,
        subscribe: true,
        completions: true,
        logging: true,
    };

    /// Those of one server: what it declares, or lists all the same.
    #[must_use]
    pub fn of(offer: Option<&Offer>) -> Self {
        let Some(offer) = offer else { return Self::ALL };
        let has = |kind| !offer.entries(kind).is_empty();
        let declared = &offer.capabilities;
        Self {
            tools: declared.tools() || has(Kind::Tools),
            prompts: declared.prompts() || has(Kind::Prompts),
            resources: declared.resources() || has(Kind::Resources) || has(Kind::Templates),
            subscribe: declared.resources_subscribe(),
            completions: declared.completions(),
            logging: declared.logging(),
        }
    }

    const fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            prompts: self.prompts || other.prompts,
            resources: self.resources || other.resources,
            subscribe: self.subscribe || other.subscribe,
            completions: self.completions || other.completions,
            logging: self.logging || other.logging,
        }
    }
}

impl Snapshot {
    /// What all servers can do together.
    #[must_use]
    pub fn features(&self) -> Features {
        self.features.iter().copied().fold(Features::default(), Features::or)
    }

    /// The capabilities to declare. Lists always say that they change, since servers come and go.
    /// Extensions, experimental and unknown capabilities of the servers are passed on; where two
    /// differ, the first server wins. `tasks` of 2025-11-25 are not.
    #[must_use]
    pub fn capabilities(&self) -> ServerCapabilities {
        let has = self.features();
        let mut all = ServerCapabilities::new();
        if has.tools {
            all = all.with_tools(true);
        }
        if has.prompts {
            all = all.with_prompts(true);
        }
        if has.resources {
            all = all.with_resources(true, has.subscribe);
        }
        if has.completions {
            all = all.with_completions();
        }
        if has.logging {
            all = all.with_logging();
        }
        self.with_unknown(&all).unwrap_or(all)
    }

    /// The same with what the servers declare beyond our own words.
    fn with_unknown(&self, own: &ServerCapabilities) -> Option<ServerCapabilities> {
        let mut members: Vec<(String, String)> = Vec::new();
        let mut maps = [("experimental", Entries::new()), ("extensions", Entries::new())];
        for offer in self.servers.iter().filter_map(|server| server.offer.as_deref()) {
            let declared = on_one_line(offer.capabilities.raw());
            let declared: Entries<&RawValue> = serde_json::from_str(declared.get()).ok()?;
            for (key, value) in declared.iter().filter(|(_, value)| value.get() != "null") {
                if let Some((_, map)) = maps.iter_mut().find(|(name, _)| *name == key) {
                    merge(map, value);
                } else if !OWN.contains(&key) && members.iter().all(|(known, _)| known != key) {
                    members.push((key.to_owned(), value.get().to_owned()));
                }
            }
        }
        let maps = maps.into_iter().filter(|(_, map)| !map.is_empty());
        members.extend(
            maps.filter_map(|(key, map)| Some((key.to_owned(), serde_json::to_string(&map).ok()?))),
        );
        let own: Entries<&RawValue> = serde_json::from_str(own.raw().get()).ok()?;
        let mut out = b"{".to_vec();
        own.iter().for_each(|(key, value)| member(key, value.get(), &mut out));
        members.iter().for_each(|(key, value)| member(key, value, &mut out));
        out.push(b'}');
        serde_json::from_slice(&out).ok()
    }

    /// How to use the servers, for the model: one server's own words as they are, those of several
    /// under their names.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        let said = |server: &'_ Server| {
            let text = server.offer.as_ref()?.instructions.clone()?;
            (!text.trim().is_empty()).then(|| (server.name.clone(), text))
        };
        let mut all: Vec<_> = self.servers.iter().filter_map(said).collect();
        if self.servers.len() == 1 {
            return all.pop().map(|(_, text)| text);
        }
        let mut merged = String::new();
        for (name, text) in &all {
            let gap = if merged.is_empty() { "" } else { "\n\n" };
            // Writing into a string cannot fail.
            let _ = write!(merged, "{gap}# {name}\n\n{}", text.trim());
        }
        (!merged.is_empty()).then_some(merged)
    }
}

/// Capabilities that are ours to declare, and the one that is not passed on.
const OWN: [&str; 6] = ["tools", "prompts", "resources", "completions", "logging", "tasks"];

fn merge(map: &mut Entries<Box<RawValue>>, more: &RawValue) {
    let Ok(more) = serde_json::from_str::<Entries<Box<RawValue>>>(more.get()) else { return };
    for (key, value) in more {
        if map.get(&key).is_none() {
            map.push(key, value);
        }
    }
}

/// The one server that may have any resource that no list has, if there is only one.
pub(super) fn only_with_resources(servers: &[Server], features: &[Features]) -> Option<usize> {
    let offers = servers.iter().map(|server| server.offer.as_deref());
    let all = offers.zip(features).enumerate().filter(|(_, (_, has))| has.resources);
    let with: Vec<_> = all.map(|(server, (offer, _))| (server, offer)).collect();
    let has = |offer: &Offer, kind| !offer.entries(kind).is_empty();
    let lists = |offer: &Offer| has(offer, Kind::Resources) || has(offer, Kind::Templates);
    let listing: Vec<_> = with.iter().filter(|(_, offer)| offer.is_none_or(lists)).collect();
    match (with.as_slice(), listing.as_slice()) {
        ([(only, _)], _) | (_, [(only, _)]) => Some(*only),
        _ => None,
    }
}
