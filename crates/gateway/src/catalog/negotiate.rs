//! Which servers cover what a client needs: ranked one by one, and a few together when it takes
//! several.
#![allow(
    clippy::exhaustive_structs,
    clippy::exhaustive_enums,
    reason = "plain data that the caller builds and reads"
)]

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use mcplane::proto::uri_template::UriTemplate;
use serde::Serialize;

use super::need::{Candidate, Health, Item, Need, NeedError};
use super::version::Version;

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// In one word.
    pub outcome: Outcome,
    /// The one server to use, if one covers everything.
    pub best: Option<String>,
    /// Who does what: one share if one server covers everything, else several, each of a server that
    /// is needed. When something is missing, they cover the rest. Fewer servers might do.
    pub plan: Vec<Share>,
    /// What no server that may be used has.
    pub missing: Vec<Missing>,
    /// Every server, the best first.
    pub ranked: Vec<Rank>,
}

/// Whether the need can be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// By one server.
    Covered,
    /// By several together.
    Split,
    /// Not at all.
    Missing,
}

/// What one server does in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The server.
    pub server: String,
    /// What it is used for.
    pub items: Vec<Item>,
}

/// Something that nobody has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// What it is.
    #[serde(flatten)]
    pub item: Item,
    /// Servers that have it and may not be used: `ranked` says why.
    pub unfit: Vec<String>,
}

/// How one server does against the need, with the numbers behind its rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rank {
    /// The server.
    pub server: String,
    /// Why it may not be used; empty if it may.
    pub unfit: Vec<Unfit>,
    /// The share of the needed things that it has, from 0 to 1.
    pub coverage: f64,
    /// How many it has.
    pub has: usize,
    /// How many are needed.
    pub of: usize,
    /// What it lacks.
    pub missing: Vec<Item>,
    /// How its version suits.
    pub version_fit: VersionFit,
    /// Its version.
    pub version: Option<String>,
    /// How it is.
    pub health: Health,
    /// How busy it is, from 0 to 1.
    pub load: f64,
}

/// How a version suits a minimum; the better first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionFit {
    /// No minimum, or met within its major version.
    Meets,
    /// Met by a later major version, which may have broken with the older ones.
    LaterMajor,
    /// Not met.
    TooOld,
    /// The server does not say a version that can be compared.
    Unknown,
}

/// Why a server may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unfit {
    /// It does not run.
    Down,
    /// It gets no calls at the moment.
    Quarantined,
    /// Nobody knows yet what it offers.
    NotListed,
    /// Its version is below the minimum.
    VersionTooOld,
    /// There is a minimum and its version cannot be compared with it.
    VersionUnknown,
    /// Its revision is older than the one needed.
    RevisionTooOld,
    /// A revision is needed and nobody knows the server's.
    RevisionUnknown,
}

/// Holds the servers against a need. The same need and servers give the same answer, in whatever
/// order they come.
///
/// # Errors
/// A need that says nothing definite: too long, a minimum that is not a version, a minimum for a
/// server that does not exist.
pub fn negotiate(need: &Need, servers: &[Candidate]) -> Result<Verdict, NeedError> {
    let items = need.items()?;
    let minimum = Minimum::of(need, servers)?;
    let mut rated: Vec<Rated> =
        servers.iter().map(|server| rate(server, &items, need, &minimum)).collect();
    rated.sort_by(|one, other| one.rank.cmp_better_first(&other.rank));

    let fit: Vec<&Rated> = rated.iter().filter(|rated| rated.rank.unfit.is_empty()).collect();
    let single = fit.iter().find(|rated| rated.rank.missing.is_empty());
    let chosen = single.map_or_else(|| cover(&fit), |single| vec![*single]);
    let missing = missing(&items, &rated);
    let outcome = match (single, missing.is_empty() && !fit.is_empty()) {
        (Some(_), _) => Outcome::Covered,
        (None, true) => Outcome::Split,
        (None, false) => Outcome::Missing,
    };
    Ok(Verdict {
        outcome,
        best: single.map(|single| single.rank.server.clone()),
        plan: plan(&items, &chosen),
        missing,
        ranked: rated.into_iter().map(|rated| rated.rank).collect(),
    })
}

struct Rated {
    rank: Rank,
    /// The needed things that it has, by their place.
    has: BTreeSet<usize>,
}

/// Servers that together have all that any of these has: always the one that adds most, of equals
/// the better ranked one; and then without those that the others make needless. Ranked as these are.
fn cover<'a>(fit: &[&'a Rated]) -> Vec<&'a Rated> {
    let mut open: BTreeSet<usize> = fit.iter().flat_map(|rated| &rated.has).copied().collect();
    let gains = fit.iter().enumerate().map(|(rank, rated)| (rated.has.len(), Reverse(rank)));
    let mut gains: BinaryHeap<_> = gains.collect();
    let mut chosen: Vec<&Rated> = Vec::new();
    while !open.is_empty()
        && let Some((gain, Reverse(rank))) = gains.pop()
        && let Some(rated) = fit.get(rank)
    {
        // What it adds can only have become less.
        let left = rated.has.intersection(&open).count();
        if left < gain {
            gains.push((left, Reverse(rank)));
            continue;
        }
        open.retain(|item| !rated.has.contains(item));
        chosen.push(rated);
    }
    let mut at = 0;
    while let Some(one) = chosen.get(at) {
        let others = chosen.iter().enumerate().filter(|(place, _)| *place != at);
        let is_elsewhere = |item| others.clone().any(|(_, other)| other.has.contains(item));
        if one.has.iter().all(is_elsewhere) {
            chosen.remove(at);
        } else {
            at += 1;
        }
    }
    chosen.sort_by(|one, other| one.rank.cmp_better_first(&other.rank));
    chosen
}

impl Rank {
    /// Whatever may be used comes first; then coverage, version, health, load, and the name.
    fn cmp_better_first(&self, other: &Self) -> Ordering {
        (!self.unfit.is_empty())
            .cmp(&!other.unfit.is_empty())
            .then(other.has.cmp(&self.has))
            .then(self.version_fit.cmp(&other.version_fit))
            .then(self.health.cmp(&other.health))
            .then(self.load.total_cmp(&other.load))
            .then_with(|| self.server.cmp(&other.server))
    }
}

/// The minimum versions, parsed.
struct Minimum<'a> {
    all: Option<Version>,
    one: BTreeMap<&'a str, Version>,
}

impl<'a> Minimum<'a> {
    fn of(need: &'a Need, servers: &[Candidate]) -> Result<Self, NeedError> {
        let parse = |text: &String| {
            Version::parse(text).ok_or_else(|| NeedError::Version { text: text.clone() })
        };
        let all = need.min_version.as_ref().map(parse).transpose()?;
        let one = need.min_versions.iter().map(|(name, text)| {
            if servers.iter().all(|server| server.name != *name) {
                return Err(NeedError::NoSuchServer { name: name.clone() });
            }
            Ok((name.as_str(), parse(text)?))
        });
        Ok(Self { all, one: one.collect::<Result<_, _>>()? })
    }

    fn fit(&self, server: &Candidate) -> VersionFit {
        let minimum = self.one.get(server.name.as_str()).or(self.all.as_ref());
        let Some(minimum) = minimum else { return VersionFit::Meets };
        let version = server.version.as_deref().and_then(Version::parse);
        match version {
            None => VersionFit::Unknown,
            Some(version) if version < *minimum => VersionFit::TooOld,
            Some(version) if version.major() > minimum.major() => VersionFit::LaterMajor,
            Some(_) => VersionFit::Meets,
        }
    }
}

fn rate(server: &Candidate, items: &[Item], need: &Need, minimum: &Minimum<'_>) -> Rated {
    let version_fit = minimum.fit(server);
    let unfit = [
        (server.health == Health::Down).then_some(Unfit::Down),
        (server.health == Health::Quarantined).then_some(Unfit::Quarantined),
        (!server.known).then_some(Unfit::NotListed),
        (version_fit == VersionFit::TooOld).then_some(Unfit::VersionTooOld),
        (version_fit == VersionFit::Unknown).then_some(Unfit::VersionUnknown),
        match (need.revision, server.revision) {
            (Some(_), None) => Some(Unfit::RevisionUnknown),
            (Some(oldest), Some(found)) if found < oldest => Some(Unfit::RevisionTooOld),
            _ => None,
        },
    ];
    let offered = Offered::of(server);
    let (has, lacks): (Vec<_>, Vec<_>) =
        items.iter().enumerate().partition(|(_, item)| server.known && offered.has(item));
    let coverage = if items.is_empty() { 1.0 } else { has.len() as f64 / items.len() as f64 };
    let load = if server.load.is_nan() { 1.0 } else { server.load.clamp(0.0, 1.0) };
    let rank = Rank {
        server: server.name.clone(),
        unfit: unfit.into_iter().flatten().collect(),
        coverage,
        has: has.len(),
        of: items.len(),
        missing: lacks.into_iter().map(|(_, item)| item.clone()).collect(),
        version_fit,
        version: server.version.clone(),
        health: server.health,
        load,
    };
    Rated { rank, has: has.into_iter().map(|(at, _)| at).collect() }
}

/// What a server has, quick to ask.
struct Offered<'a> {
    tools: BTreeSet<&'a str>,
    prompts: BTreeSet<&'a str>,
    resources: BTreeSet<&'a str>,
    templates: Vec<UriTemplate>,
}

impl<'a> Offered<'a> {
    fn of(server: &'a Candidate) -> Self {
        let set = |names: &'a [String]| names.iter().map(String::as_str).collect();
        Self {
            tools: set(&server.tools),
            prompts: set(&server.prompts),
            resources: set(&server.resources),
            templates: server.templates.iter().map(|text| UriTemplate::parse(text)).collect(),
        }
    }

    fn has(&self, item: &Item) -> bool {
        match item {
            Item::Tool(name) => self.tools.contains(name.as_str()),
            Item::Prompt(name) => self.prompts.contains(name.as_str()),
            Item::Resource(uri) => {
                self.resources.contains(uri.as_str())
                    || self.templates.iter().any(|template| template.fits(uri))
            }
        }
    }
}

/// Each thing goes to the first of the chosen that has it.
fn plan(items: &[Item], chosen: &[&Rated]) -> Vec<Share> {
    let first = |at: usize| chosen.iter().position(|rated| rated.has.contains(&at));
    let share = |(place, rated): (usize, &&Rated)| {
        let own = items.iter().enumerate().filter(|(at, _)| first(*at) == Some(place));
        Share {
            server: rated.rank.server.clone(),
            items: own.map(|(_, item)| item.clone()).collect(),
        }
    };
    chosen.iter().enumerate().map(share).collect()
}

fn missing(items: &[Item], rated: &[Rated]) -> Vec<Missing> {
    let each = items.iter().enumerate().filter_map(|(at, item)| {
        let mut holders = rated.iter().filter(|rated| rated.has.contains(&at)).peekable();
        let unfit: Vec<&Rated> = holders.by_ref().collect();
        let nobody = unfit.iter().all(|rated| !rated.rank.unfit.is_empty());
        nobody.then(|| Missing {
            item: item.clone(),
            unfit: unfit.iter().map(|rated| rated.rank.server.clone()).collect(),
        })
    });
    each.collect()
}
