//! The catalog as a whole: examples for each rule, and properties over random catalogs.

mod lists;
mod merging;
mod needs;
mod offers;
mod random;
mod shadows;
mod store;

use std::sync::Arc;

use mcplane::proto::types::{Cache, ServerCapabilities};
use mcplane::proto::version::Revision;
use serde_json::Value;

use super::{Kind, Naming, Offer, Server, Snapshot};

/// An offer of these tools.
fn offer(tools: &[&str]) -> Offer {
    let mut offer = Offer::new(Some(Revision::LATEST_LEGACY), ServerCapabilities::new());
    add(&mut offer, Kind::Tools, tools.iter().map(|name| tool(name)));
    offer
}

fn tool(name: &str) -> String {
    format!(r#"{{"name":{name:?},"inputSchema":{{"type":"object"}}}}"#)
}

fn resource(uri: &str) -> String {
    format!(r#"{{"uri":{uri:?},"name":"r"}}"#)
}

fn template(uri: &str) -> String {
    format!(r#"{{"uriTemplate":{uri:?},"name":"t"}}"#)
}

/// Adds one page of entries.
fn add(offer: &mut Offer, kind: Kind, entries: impl IntoIterator<Item = String>) {
    let entries: Vec<String> = entries.into_iter().collect();
    let page = format!(r#"{{"{}":[{}]}}"#, kind.member(), entries.join(","));
    assert_eq!(offer.add_page(kind.method(), page.as_bytes()).unwrap(), None);
}

fn server(name: &str, offer: Offer) -> Server {
    Server { name: name.into(), offer: Some(Arc::new(offer)) }
}

fn snapshot(servers: impl IntoIterator<Item = (&'static str, Offer)>) -> Snapshot {
    let servers = servers.into_iter().map(|(name, offer)| server(name, offer)).collect();
    Snapshot::build(servers, &Naming::default())
}

/// One page as it is answered.
fn page(snapshot: &Snapshot, kind: Kind, cursor: Option<&str>, revision: Revision) -> Value {
    let mut out = Vec::new();
    let page = snapshot.page(kind, cursor, revision).unwrap();
    page.write(&Cache::default(), None, &mut out);
    serde_json::from_slice(&out).unwrap()
}

/// All entries, page after page, and how many pages there were.
fn pages(snapshot: &Snapshot, kind: Kind, revision: Revision) -> (Vec<Value>, usize) {
    let (mut all, mut count, mut cursor) = (Vec::new(), 0, None::<String>);
    loop {
        let page = page(snapshot, kind, cursor.as_deref(), revision);
        all.extend(page[kind.member()].as_array().unwrap().iter().cloned());
        count += 1;
        match page.get("nextCursor") {
            Some(next) => cursor = Some(next.as_str().unwrap().to_owned()),
            None => return (all, count),
        }
    }
}

fn names(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}
