//! The merged catalog at one moment. Immutable: a change makes a new one, and requests in flight
//! finish on the old one.

use std::collections::HashMap;
use std::sync::Arc;

use mcplane::proto::headers::ParamHeader;
use mcplane::proto::uri_template::UriTemplate;

use super::Fingerprint;
use super::features::{Features, only_with_resources};
use super::names::{Named, Naming, Reserved, Rules, ServerNaming, exposed, without_clashes};
use super::need::{Candidate, Health};
use super::offer::{Entry, Kind, Offer};
use super::pages::Rendered;

/// One upstream, as [`Snapshot::build`] takes it.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Server {
    /// Its name in the settings.
    pub name: Arc<str>,
    /// What it offers; `None` as long as nobody knows.
    pub offer: Option<Arc<Offer>>,
}

/// Where a name leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Route {
    /// The server's place among those that the snapshot was built from.
    pub server: usize,
    /// The server's own name for it, if it is another one.
    pub original: Option<Arc<str>>,
    /// The tool changes nothing.
    pub read_only: bool,
    /// A second call of the tool changes nothing more.
    pub idempotent: bool,
    /// 2025-06-18 and 2025-11-25 see the tool's structured result as `{"result": …}`.
    pub wraps_output: bool,
    /// The arguments that clients mirror in headers.
    pub mirrored: Option<Arc<[ParamHeader]>>,
}

/// Something that clients do not see under its own name or URI, since that is another server's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shadowed {
    /// What it is.
    pub kind: Kind,
    /// Its name, URI or template.
    pub name: Arc<str>,
    /// The server that offers it.
    pub server: usize,
    /// The server that the name or URI belongs to.
    pub by: Arc<str>,
    /// What clients see it as; `None` if they do not see it.
    pub exposed: Option<Arc<str>>,
}

/// A tool that keeps its own name, since another tool of its server has the one it was to get.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Clash {
    /// The server.
    pub server: usize,
    /// The name of the tool.
    pub tool: Arc<str>,
    /// The one it was to get.
    pub wanted: Arc<str>,
}

/// Which lists differ between two snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// `notifications/tools/list_changed` is due.
    pub tools: bool,
    /// `notifications/prompts/list_changed` is due.
    pub prompts: bool,
    /// `notifications/resources/list_changed` is due: resources or templates.
    pub resources: bool,
}

impl Changes {
    /// Both together.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            prompts: self.prompts || other.prompts,
            resources: self.resources || other.resources,
        }
    }

    /// Whether any list differs.
    #[must_use]
    pub const fn any(self) -> bool {
        self.tools || self.prompts || self.resources
    }
}

/// The merged catalog.
#[derive(Debug)]
pub struct Snapshot {
    pub(super) servers: Vec<Server>,
    rules: Vec<ServerNaming>,
    tools: HashMap<Arc<str>, Route>,
    prompts: HashMap<Arc<str>, Route>,
    /// The servers that have a tool, under its own name and under its other one.
    owners: HashMap<Arc<str>, Vec<usize>>,
    reserved: Reserved,
    pub(super) resources: HashMap<Arc<str>, usize>,
    pub(super) templates: Vec<(UriTemplate, usize)>,
    /// The only server that has resources, or may have some; else the only one that lists some.
    pub(super) only_with_resources: Option<usize>,
    pub(super) features: Vec<Features>,
    /// A route to each server, for what has no more to say.
    pub(super) plain: Vec<Route>,
    pub(super) rows: [Rows; 4],
    pub(super) shadowed: Vec<Shadowed>,
    clashes: Vec<Clash>,
}

/// One merged list.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    /// Of all that clients see.
    pub(super) fingerprint: u64,
    pub(super) rendered: Rendered,
}

/// One entry of a merged list.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) server: usize,
    pub(super) at: usize,
    pub(super) original: Arc<str>,
    /// After a rename, before any prefix.
    pub(super) base: Arc<str>,
    pub(super) exposed: Arc<str>,
}

impl Snapshot {
    /// Merges what the servers offer. The order is that of `servers`, then that of each list: it
    /// does not depend on which server answered first.
    #[must_use]
    pub fn build(servers: Vec<Server>, naming: &Naming) -> Self {
        let names: Vec<Arc<str>> = servers.iter().map(|server| Arc::clone(&server.name)).collect();
        let rules: Vec<ServerNaming> = names
            .iter()
            .map(|name| naming.servers.get(name).cloned().unwrap_or_default())
            .collect();
        let features: Vec<Features> =
            servers.iter().map(|server| Features::of(server.offer.as_deref())).collect();
        let only_with_resources = only_with_resources(&servers, &features);
        let plain = (0..names.len()).map(|server| Route { server, ..Route::default() }).collect();
        let mut snapshot = Self {
            servers,
            rules,
            tools: HashMap::new(),
            prompts: HashMap::new(),
            owners: HashMap::new(),
            reserved: Reserved::of(names.iter().chain(&naming.absent)),
            resources: HashMap::new(),
            templates: Vec::new(),
            only_with_resources,
            features,
            plain,
            rows: Default::default(),
            shadowed: Vec::new(),
            clashes: Vec::new(),
        };
        // They decide whose a resource is.
        let mut templates = snapshot.merge_templates();
        snapshot.rows = Kind::ALL.map(|kind| {
            let rows = match kind {
                Kind::Tools | Kind::Prompts => snapshot.merge_named(kind, &names, naming),
                Kind::Resources => snapshot.merge_resources(),
                Kind::Templates => std::mem::take(&mut templates),
            };
            let fingerprint = snapshot.fingerprint(kind, &rows);
            Rows { rows, fingerprint, rendered: Rendered::default() }
        });
        snapshot
    }

    /// Where calls of a tool go, by the name that clients know.
    #[must_use]
    pub fn tool(&self, exposed: &str) -> Option<&Route> {
        self.tools.get(exposed)
    }

    /// Where a prompt is filled in, by the name that clients know.
    #[must_use]
    pub fn prompt(&self, exposed: &str) -> Option<&Route> {
        self.prompts.get(exposed)
    }

    /// Where something goes that no list has, if all this is one server's, which has told its lists:
    /// many servers take names that they do not list. Where the settings hold names back or change
    /// them, nothing goes but what is listed: a server may take a name in other spellings.
    #[must_use]
    pub fn unlisted(&self, kind: Kind) -> Option<&Route> {
        let ([server], [rules]) = (&*self.servers, &*self.rules) else { return None };
        let Rules { allow, deny, rename } = rules_for(rules, kind);
        let is_open = allow.is_empty() && deny.is_empty() && rename.is_empty();
        server.offer.as_ref().filter(|_| is_open).and_then(|_| self.plain.first())
    }

    /// The servers, in their order.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The names that clients see, with the place of their server, in the order of the list.
    pub fn exposed(&self, kind: Kind) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.rows(kind).rows.iter().map(|row| (&row.exposed, row.server))
    }

    /// The servers that have a tool of this name, their own for it or ours: the reverse index. In
    /// their order.
    #[must_use]
    pub fn owners(&self, tool: &str) -> &[usize] {
        self.owners.get(tool).map_or(&[], Vec::as_slice)
    }

    /// Whether the rules of a server show something of this name, the server's own.
    #[must_use]
    pub fn shows(&self, server: usize, kind: Kind, original: &str) -> bool {
        self.rules.get(server).is_some_and(|rules| rules_for(rules, kind).shows(original))
    }

    /// What is hidden, or has another name, since its own is another server's.
    #[must_use]
    pub fn shadowed(&self) -> &[Shadowed] {
        &self.shadowed
    }

    /// The tools that could not be renamed.
    #[must_use]
    pub fn clashes(&self) -> &[Clash] {
        &self.clashes
    }

    /// Which lists differ from those of an older snapshot.
    #[must_use]
    pub fn changes(&self, older: &Self) -> Changes {
        let differ = |kind| self.rows(kind).fingerprint != older.rows(kind).fingerprint;
        Changes {
            tools: differ(Kind::Tools),
            prompts: differ(Kind::Prompts),
            resources: differ(Kind::Resources) || differ(Kind::Templates),
        }
    }

    /// The servers as candidates for [`negotiate`](super::negotiate()); `status` says how each one
    /// is right now. A tool counts under the server's name for it, under its other name, and under
    /// the name that clients see.
    pub fn candidates(&self, status: impl Fn(usize) -> (Health, f64)) -> Vec<Candidate> {
        let candidate = |(index, server): (usize, &Server)| {
            let offer = server.offer.as_deref();
            let (health, load) = status(index);
            let names = |kind| {
                let rows = self.rows(kind).rows.iter().filter(|row| row.server == index);
                let mut names: Vec<String> = rows
                    .flat_map(|row| [&row.original, &row.base, &row.exposed])
                    .filter(|name| self.foreign(index, name).is_none())
                    .map(ToString::to_string)
                    .collect();
                names.sort_unstable();
                names.dedup();
                names
            };
            // What another server's entry hides is there all the same.
            let own = |kind| {
                let entries = offer.map_or(&[][..], |offer| offer.entries(kind));
                let shown = entries.iter().filter(|entry| self.shows(index, kind, &entry.name));
                shown.map(|entry| entry.name.to_string()).collect()
            };
            Candidate {
                name: server.name.to_string(),
                version: offer.and_then(|offer| Some(offer.info.as_ref()?.version.clone())),
                revision: offer.and_then(|offer| offer.revision),
                health,
                load,
                known: offer.is_some(),
                tools: names(Kind::Tools),
                prompts: names(Kind::Prompts),
                resources: own(Kind::Resources),
                templates: own(Kind::Templates),
            }
        };
        self.servers.iter().enumerate().map(candidate).collect()
    }

    pub(super) const fn rows(&self, kind: Kind) -> &Rows {
        let [tools, prompts, resources, templates] = &self.rows;
        match kind {
            Kind::Tools => tools,
            Kind::Prompts => prompts,
            Kind::Resources => resources,
            Kind::Templates => templates,
        }
    }

    pub(super) fn entry(&self, kind: Kind, row: &Row) -> Option<&Entry> {
        let offer = self.servers.get(row.server)?.offer.as_deref()?;
        offer.entries(kind).get(row.at)
    }

    /// What passes the filters, in order, and what of it could not be renamed.
    pub(super) fn shown(&self, kind: Kind) -> (Vec<Named>, Vec<Clash>) {
        let mut clashes = Vec::new();
        let entries = |(server, Server { offer, .. }): (usize, &Server)| {
            let rules = self.rules.get(server).map(|rules| rules_for(rules, kind));
            let entries = offer.as_deref().map_or(&[][..], |offer| offer.entries(kind));
            let named = |(at, entry): (usize, &Entry)| {
                let rules = rules.filter(|rules| rules.shows(&entry.name))?;
                let original = Arc::clone(&entry.name);
                let renamed = rules.rename.get(&*original).filter(|_| kind.key() == "name");
                let base =
                    renamed.map_or_else(|| Arc::clone(&original), |name| name.as_str().into());
                Some(Named { server, at, original, base })
            };
            let mut shown: Vec<_> = entries.iter().enumerate().filter_map(named).collect();
            let kept = without_clashes(&mut shown).into_iter();
            clashes.extend(kept.map(|(tool, wanted)| Clash { server, tool, wanted }));
            shown
        };
        (self.servers.iter().enumerate().flat_map(entries).collect(), clashes)
    }

    fn merge_named(&mut self, kind: Kind, servers: &[Arc<str>], naming: &Naming) -> Vec<Row> {
        let (all, clashes) = self.shown(kind);
        let exposed = exposed(&all, servers, &self.reserved, naming.prefix);
        let rows: Vec<Row> = all
            .into_iter()
            .zip(exposed)
            .map(|(Named { server, at, original, base }, exposed)| Row {
                server,
                at,
                original,
                base,
                exposed,
            })
            .collect();
        let routes = rows.iter().filter_map(|row| {
            let entry = self.entry(kind, row)?;
            let renamed = (row.original != row.exposed).then(|| Arc::clone(&row.original));
            let route = Route {
                server: row.server,
                original: renamed,
                read_only: entry.read_only,
                idempotent: entry.idempotent,
                wraps_output: entry.wraps_output,
                mirrored: entry.mirrored.clone(),
            };
            Some((Arc::clone(&row.exposed), route))
        });
        let routes = routes.collect();
        match kind {
            Kind::Tools => {
                (self.tools, self.clashes) = (routes, clashes);
                self.owners = self.owners_of(&rows);
            }
            _ => self.prompts = routes,
        }
        let shadowed = rows.iter().filter_map(|row| {
            let (name, server) = (Arc::clone(&row.base), row.server);
            let by = Arc::clone(self.foreign(server, &name)?);
            Some(Shadowed { kind, name, server, by, exposed: Some(Arc::clone(&row.exposed)) })
        });
        let shadowed: Vec<_> = shadowed.collect();
        self.shadowed.extend(shadowed);
        rows
    }

    /// The other server that a name of this one belongs to.
    fn foreign(&self, server: usize, name: &str) -> Option<&Arc<str>> {
        self.reserved.foreign(&self.servers.get(server)?.name, name)
    }

    fn owners_of(&self, rows: &[Row]) -> HashMap<Arc<str>, Vec<usize>> {
        let mut owners: HashMap<Arc<str>, Vec<usize>> = HashMap::with_capacity(rows.len());
        for row in rows {
            for name in [&row.original, &row.base] {
                if self.foreign(row.server, name).is_some() {
                    continue;
                }
                let servers = owners.entry(Arc::clone(name)).or_default();
                if servers.last() != Some(&row.server) {
                    servers.push(row.server);
                }
            }
        }
        owners
    }

    /// Of all that clients see of a list.
    fn fingerprint(&self, kind: Kind, rows: &[Row]) -> u64 {
        let mut all = Fingerprint::new();
        for row in rows {
            all.add(row.exposed.as_bytes());
            let entry = self.entry(kind, row).map_or(0, |entry| entry.fingerprint);
            all.add(&entry.to_le_bytes());
        }
        all.0
    }
}

const fn rules_for(rules: &ServerNaming, kind: Kind) -> &Rules {
    match kind {
        Kind::Tools => &rules.tools,
        Kind::Prompts => &rules.prompts,
        Kind::Resources | Kind::Templates => &rules.resources,
    }
}
