//! The merged catalog at one moment. Immutable: a change makes a new one, and requests in flight
//! finish on the old one.

use std::collections::HashMap;
use std::sync::Arc;

use mcplane::proto::headers::ParamHeader;

use super::Fingerprint;
use super::features::Features;
use super::names::{Named, Naming, Rules, ServerNaming, exposed, without_clashes};
use super::need::{Candidate, Health};
use super::offer::{Entry, Kind, Offer};
use super::pages::Rendered;
use super::templates::Template;

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

/// A resource or template that clients do not see, since a server before has the same URI.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shadowed {
    /// [`Kind::Resources`] or [`Kind::Templates`].
    pub kind: Kind,
    /// The URI or template.
    pub name: Arc<str>,
    /// The server whose entry is hidden.
    pub server: usize,
    /// The server whose entry is shown.
    pub by: usize,
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
    resources: HashMap<Arc<str>, usize>,
    templates: Vec<(Template, usize)>,
    /// The only server that has resources, or may have some; else the only one that lists some.
    only_with_resources: Option<usize>,
    pub(super) features: Vec<Features>,
    /// A route to each server, for what has no more to say.
    plain: Vec<Route>,
    pub(super) rows: [Rows; 4],
    shadowed: Vec<Shadowed>,
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
    base: Arc<str>,
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
            resources: HashMap::new(),
            templates: Vec::new(),
            only_with_resources,
            features,
            plain,
            rows: Default::default(),
            shadowed: Vec::new(),
            clashes: Vec::new(),
        };
        snapshot.rows = Kind::ALL.map(|kind| {
            let rows = match kind {
                Kind::Tools | Kind::Prompts => snapshot.merge_named(kind, &names, naming),
                Kind::Resources | Kind::Templates => snapshot.merge_addressed(kind),
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

    /// Where a resource is read: the server that lists it, else the first with a template that
    /// fits, else the only server with resources, since not every resource has to be listed: many
    /// SDKs declare them for servers that have none. Never a server whose rules hide the URI.
    #[must_use]
    pub fn resource(&self, uri: &str) -> Option<&Route> {
        let shown = |server: usize| self.shows(server, Kind::Resources, uri).then_some(server);
        let listed = || self.resources.get(uri).copied();
        let fitting = || {
            let fits = |(template, _): &&(Template, usize)| template.fits(uri);
            self.templates.iter().filter(fits).find_map(|&(_, server)| shown(server))
        };
        let only = || self.only_with_resources.and_then(shown);
        self.plain.get(listed().or_else(fitting).or_else(only)?)
    }

    /// Where a resource template is completed (`ref/resource` of `completion/complete`): the
    /// server that lists exactly this template, else as [`Snapshot::resource`].
    #[must_use]
    pub fn template(&self, uri_template: &str) -> Option<&Route> {
        let listed = self.templates.iter().find(|(template, _)| template.text() == uri_template);
        match listed {
            Some((_, server)) => self.plain.get(*server),
            None => self.resource(uri_template),
        }
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

    /// What is hidden behind an entry with the same URI.
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
    fn shown(&self, kind: Kind) -> (Vec<Named>, Vec<Clash>) {
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
        let exposed = exposed(&all, servers, naming.prefix);
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
                (self.tools, self.owners, self.clashes) = (routes, owners(&rows), clashes);
            }
            _ => self.prompts = routes,
        }
        rows
    }

    fn merge_addressed(&mut self, kind: Kind) -> Vec<Row> {
        let mut first: HashMap<Arc<str>, usize> = HashMap::new();
        let mut rows = Vec::new();
        for Named { server, at, original, base } in self.shown(kind).0 {
            if let Some(&by) = first.get(&original) {
                self.shadowed.push(Shadowed { kind, name: original, server, by });
                continue;
            }
            first.insert(Arc::clone(&original), server);
            rows.push(Row { server, at, exposed: Arc::clone(&original), original, base });
        }
        match kind {
            Kind::Resources => self.resources = first,
            _ => {
                let parsed = |row: &Row| (Template::parse(&row.original), row.server);
                self.templates = rows.iter().map(parsed).collect();
            }
        }
        rows
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

fn owners(rows: &[Row]) -> HashMap<Arc<str>, Vec<usize>> {
    let mut owners: HashMap<Arc<str>, Vec<usize>> = HashMap::with_capacity(rows.len());
    for row in rows {
        for name in [&row.original, &row.base] {
            let servers = owners.entry(Arc::clone(name)).or_default();
            if servers.last() != Some(&row.server) {
                servers.push(row.server);
            }
        }
    }
    owners
}

const fn rules_for(rules: &ServerNaming, kind: Kind) -> &Rules {
    match kind {
        Kind::Tools => &rules.tools,
        Kind::Prompts => &rules.prompts,
        Kind::Resources | Kind::Templates => &rules.resources,
    }
}

fn only_with_resources(servers: &[Server], features: &[Features]) -> Option<usize> {
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
