//! What servers offer, merged: whatever the entries are, each name that clients see leads to one
//! server, a name with a server's own in front leads to that server, and every page of every list is
//! one line of JSON in every revision.

use std::collections::BTreeSet;
use std::sync::Arc;

use mcplane_gateway::catalog::{Kind, Naming, Offer, Server, Snapshot};
use mcplane_proto::types::{Cache, ServerCapabilities};
use mcplane_proto::version::Revision;
use serde_json::Value;
use serde_json::value::RawValue;

/// The servers.
const NAMES: [&str; 2] = ["a", "b"];

/// Any bytes: lines, each an entry of a list of a server, as its first byte says.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let modern = text.len() % 2 == 0;
    let revision = if modern { Revision::LATEST } else { Revision::LATEST_LEGACY };
    let mut offers = NAMES.map(|_| Offer::new(Some(revision), ServerCapabilities::new()));
    for line in text.lines().take(64) {
        let Some(choice) = line.bytes().next().filter(u8::is_ascii) else { continue };
        let kind = Kind::ALL[usize::from(choice) % 4];
        let page = format!("{{{:?}:[{}]}}", kind.member(), &line[1..]);
        // What is no list is no entry.
        let _ = offers[usize::from(choice) / 4 % 2].add_page(kind.method(), page.as_bytes());
    }
    offers.iter().for_each(entries);
    let servers = NAMES
        .into_iter()
        .zip(offers)
        .map(|(name, offer)| Server { name: name.into(), offer: Some(Arc::new(offer)) });
    let snapshot = Snapshot::build(servers.collect(), &Naming::default());
    routes(&snapshot);
    for kind in Kind::ALL {
        for revision in Revision::ALL {
            pages(&snapshot, kind, revision);
        }
        // A cursor is ours, or none.
        let mut out = Vec::new();
        let found = list(&snapshot, kind, Some(text), Revision::LATEST, &mut out);
        assert!(!found && out.is_empty(), "{text:?} is no cursor");
    }
}

fn entries(offer: &Offer) {
    for kind in Kind::ALL {
        let mut names = BTreeSet::new();
        for entry in offer.entries(kind) {
            assert!(!entry.name.is_empty() && names.insert(&entry.name), "{:?}", entry.name);
            assert!(!entry.raw.get().contains(['\n', '\r']), "{}", entry.raw);
        }
    }
}

fn routes(snapshot: &Snapshot) {
    for (kind, is_tool) in [(Kind::Tools, true), (Kind::Prompts, false)] {
        let mut seen = BTreeSet::new();
        for (exposed, server) in snapshot.exposed(kind) {
            assert!(seen.insert(exposed), "{exposed:?} twice");
            let route = if is_tool { snapshot.tool(exposed) } else { snapshot.prompt(exposed) };
            let route = route.unwrap_or_else(|| panic!("{exposed:?} leads nowhere"));
            assert_eq!(route.server, server, "{exposed:?}");
            for (owner, name) in NAMES.into_iter().enumerate() {
                let fronted = exposed.to_ascii_lowercase().starts_with(&format!("{name}__"));
                assert!(!fronted || owner == server, "{exposed:?} is of {}", NAMES[server]);
            }
        }
    }
}

/// Every page, to the last.
fn pages(snapshot: &Snapshot, kind: Kind, revision: Revision) {
    let (mut count, mut cursor) = (0, None::<String>);
    loop {
        let mut out = Vec::new();
        assert!(list(snapshot, kind, cursor.as_deref(), revision, &mut out), "{cursor:?}");
        assert!(!out.contains(&b'\n') && !out.contains(&b'\r'), "one line");
        let page: &RawValue = serde_json::from_slice(&out).expect("a page is JSON");
        // A number beyond f64 or half a surrogate pair is syntax, but no `Value`.
        let Ok(page) = serde_json::from_str::<Value>(page.get()) else { return };
        count += page[kind.member()].as_array().expect("a list").len();
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(count, snapshot.exposed(kind).count(), "every entry once");
}

fn list(
    snapshot: &Snapshot,
    kind: Kind,
    cursor: Option<&str>,
    revision: Revision,
    out: &mut Vec<u8>,
) -> bool {
    let page = snapshot.page(kind, cursor, revision);
    page.map(|page| page.write(&Cache::default(), None, out)).is_ok()
}
