//! Which server a URI leads to.
//!
//! A URI stands in results and arguments that nobody here rewrites, so it cannot be told apart by a
//! prefix. It belongs to the first server in the order of the settings that lists it or has a
//! template for it: a server takes nothing from those before it, whatever it offers and whenever it
//! comes. A template that does not say which scheme it is for would take everything: it is looked
//! at when nobody else has the URI.

use std::collections::HashMap;
use std::sync::Arc;

use mcplane::proto::uri_template::UriTemplate;

use super::names::Named;
use super::offer::Kind;
use super::snapshot::{Route, Row, Shadowed, Snapshot};

/// Most bytes that are looked at to learn which listed URIs are other servers', some 20 ms for one
/// catalog. What is beyond is listed, and leads to its owner all the same.
const LOOKED_AT_MAX: usize = 16 << 20;

impl Snapshot {
    /// Where a resource is read: the first server that lists it or has a template that fits, else
    /// the only server with resources, since not every resource has to be listed: many SDKs declare
    /// them for servers that have none. Never a server whose rules hide the URI.
    #[must_use]
    pub fn resource(&self, uri: &str) -> Option<&Route> {
        let shown = |server: usize| self.shows(server, Kind::Resources, uri).then_some(server);
        let listed = self.resources.get(uri).copied();
        let claimed = || self.claimed(uri, listed, &mut { usize::MAX });
        let fitting = || {
            let fits = |(template, _): &&(UriTemplate, usize)| template.fits(uri);
            self.templates.iter().filter(fits).find_map(|&(_, server)| shown(server))
        };
        let only = || self.only_with_resources.and_then(shown);
        self.plain.get(claimed().or(listed).or_else(fitting).or_else(only)?)
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

    /// The first server before another one that has a template of its scheme for a URI. `None` as
    /// well when `cost` does not suffice to tell.
    fn claimed(&self, uri: &str, before: Option<usize>, cost: &mut usize) -> Option<usize> {
        let is_before =
            |(_, server): &&(UriTemplate, usize)| before.is_none_or(|end| *server < end);
        for (template, server) in self.templates.iter().take_while(is_before) {
            *cost = cost.checked_sub(template.cost(uri))?;
            let claims = template.fixes_scheme() && template.fits(uri);
            if claims && self.shows(*server, Kind::Resources, uri) {
                return Some(*server);
            }
        }
        None
    }

    pub(super) fn merge_templates(&mut self) -> Vec<Row> {
        let (rows, _) = self.merge_addressed(Kind::Templates);
        let parsed = |row: &Row| (UriTemplate::parse(&row.original), row.server);
        self.templates = rows.iter().map(parsed).collect();
        rows
    }

    /// After the templates.
    pub(super) fn merge_resources(&mut self) -> Vec<Row> {
        let (rows, owners) = self.merge_addressed(Kind::Resources);
        self.resources = owners;
        rows
    }

    /// What is shown, and whose each of all is.
    fn merge_addressed(&mut self, kind: Kind) -> (Vec<Row>, HashMap<Arc<str>, usize>) {
        let (mut rows, mut owners) = (Vec::new(), HashMap::new());
        let mut cost = LOOKED_AT_MAX;
        for Named { server, at, original, base } in self.shown(kind).0 {
            let by = *owners.entry(Arc::clone(&original)).or_insert_with(|| {
                match kind {
                    Kind::Resources => self.claimed(&original, Some(server), &mut cost),
                    _ => None,
                }
                .unwrap_or(server)
            });
            if by == server {
                rows.push(Row { server, at, exposed: Arc::clone(&original), original, base });
            } else {
                self.shadowed.extend(self.hidden(kind, original, server, by));
            }
        }
        (rows, owners)
    }

    fn hidden(&self, kind: Kind, name: Arc<str>, server: usize, by: usize) -> Option<Shadowed> {
        let by = Arc::clone(&self.servers.get(by)?.name);
        Some(Shadowed { kind, name, server, by, exposed: None })
    }
}
