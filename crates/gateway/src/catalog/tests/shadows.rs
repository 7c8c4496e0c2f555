//! No server takes another one's name or URI, whatever it offers and whenever it comes.

use std::sync::Arc;

use mcplane::proto::version::Revision;

use super::random::{Random, for_seeds};
use super::{
    Kind, Naming, Offer, Server, Snapshot, add, names, offer, page, resource, server, snapshot,
    template,
};
use crate::catalog::{Health, Prefix};

fn prompt(name: &str) -> String {
    format!(r#"{{"name":{name:?}}}"#)
}

#[test]
fn a_servers_name_in_front_is_its_own() {
    let hostile = || offer(&["echo", "a__echo", "a__other"]);
    for servers in [
        vec![server("a", offer(&["echo"])), server("b", hostile())],
        vec![server("b", hostile()), server("a", offer(&["echo"]))],
    ] {
        let a = servers.iter().position(|server| &*server.name == "a").unwrap();
        let merged = Snapshot::build(servers, &Naming::default());
        assert_eq!(merged.tool("a__echo").map(|route| route.server), Some(a));
        assert_eq!(merged.tool("a__other"), None);
        let other = merged.tool("b__a__other").unwrap();
        assert_eq!((other.server, other.original.as_deref()), (1 - a, Some("a__other")));
        // Who needs `a__other` is not sent to `b` either.
        assert_eq!(merged.owners("a__other"), &[] as &[usize]);
        let candidates = merged.candidates(|_| (Health::Healthy, 0.0));
        assert!(!candidates[1 - a].tools.contains(&"a__other".to_owned()));
        let told: Vec<_> = merged.shadowed().iter().map(|s| (&*s.name, &*s.by)).collect();
        assert_eq!(told, [("a__echo", "a"), ("a__other", "a")]);
    }
}

#[test]
fn a_server_that_is_not_there_keeps_its_names() {
    let alone = vec![server("b", offer(&["a__echo"]))];
    let absent = Naming { absent: vec!["a".into()], ..Naming::default() };
    assert!(Snapshot::build(alone.clone(), &absent).tool("a__echo").is_none());
    // Nobody is called that.
    assert!(Snapshot::build(alone, &Naming::default()).tool("a__echo").is_some());
}

#[test]
fn a_listed_uri_takes_nothing_from_a_template_before_it() {
    let listing = |uri: &str| {
        let mut all = offer(&[]);
        add(&mut all, Kind::Resources, [resource(uri)]);
        all
    };
    let templated = |text: &str| {
        let mut all = offer(&[]);
        add(&mut all, Kind::Templates, [template(text)]);
        all
    };
    let owner = |merged: &Snapshot, uri: &str| merged.resource(uri).map(|route| route.server);
    let merged =
        snapshot([("a", templated("file:///{+path}")), ("b", listing("file:///etc/passwd"))]);
    assert_eq!(owner(&merged, "file:///etc/passwd"), Some(0));
    let shown = page(&merged, Kind::Resources, None, Revision::LATEST);
    assert_eq!(shown["resources"].as_array().unwrap().len(), 0);
    let [hidden] = merged.shadowed() else { panic!("{:?}", merged.shadowed()) };
    assert_eq!((&*hidden.name, hidden.server, &*hidden.by), ("file:///etc/passwd", 1, "a"));
    // Nor a template from what is listed before it.
    let merged = snapshot([("a", listing("file:///x")), ("b", templated("file:///{+path}"))]);
    assert_eq!((owner(&merged, "file:///x"), owner(&merged, "file:///y")), (Some(0), Some(1)));
    assert!(merged.shadowed().is_empty());
    // A template for everything takes what nobody else has.
    let merged = snapshot([("a", templated("{+any}")), ("b", listing("x:1"))]);
    assert_eq!((owner(&merged, "x:1"), owner(&merged, "x:2")), (Some(1), Some(0)));
}

#[test]
fn what_takes_too_long_to_compare_leads_to_its_owner_all_the_same() {
    let (mut first, mut second) = (offer(&[]), offer(&[]));
    let slow = |n: usize| template(&format!("x:{}{n}", "{+a}".repeat(20)));
    add(&mut first, Kind::Templates, (0..200).map(slow).chain([template("x:{+a}")]));
    let uri = |n: usize| format!("x:{}{n}-", "y".repeat(2000));
    add(&mut second, Kind::Resources, (0..50).map(|n| resource(&uri(n))));
    let merged = snapshot([("a", first), ("b", second)]);
    assert!(merged.shadowed().len() < 50);
    assert_eq!(merged.resource(&uri(49)).map(|route| route.server), Some(0));
}

/// Names that look like somebody else's, of all that may make trouble.
fn hostile(random: &mut Random, servers: &[&str]) -> String {
    let end = ["x", "_x", "__x", "", "a__x", &"l".repeat(130), "X", "é"];
    let server = *random.pick(servers);
    let server = if random.once_in(5) { server.to_uppercase() } else { server.to_owned() };
    format!("{}{}{}", server, random.pick(&["__", "_", "___", ""]), random.pick(&end))
}

fn random_offer(random: &mut Random, servers: &[&str]) -> Offer {
    let mut all = offer(&[]);
    let mut list = |random: &mut Random, kind, entry: fn(&str) -> String| {
        let names: Vec<_> = (0..random.below(12)).map(|_| hostile(random, servers)).collect();
        add(&mut all, kind, names.iter().filter(|name| !name.is_empty()).map(|name| entry(name)));
    };
    list(random, Kind::Tools, super::tool);
    list(random, Kind::Prompts, prompt);
    all
}

/// The server whose `name__` a name begins with: the longest, found the plain way.
fn prefix_of<'a>(servers: &[&'a str], name: &str) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    let has = |server: &&&str| name.starts_with(&format!("{server}__"));
    servers.iter().filter(has).max_by_key(|server| server.len()).copied()
}

#[test]
fn a_name_in_front_is_that_servers_or_nobodys_in_any_order() {
    const SERVERS: [&str; 6] = ["a", "a_", "ab", "b", "b-c", "z"];
    for_seeds(300, |random| {
        let mut order = SERVERS.to_vec();
        random.shuffle(&mut order);
        // Some are disabled, some are down and some are not known yet.
        let there = &order[..random.below(SERVERS.len()) + 1];
        let mut servers: Vec<Server> =
            there.iter().map(|name| Server { name: Arc::from(*name), offer: None }).collect();
        let mut naming = Naming { absent: SERVERS.map(Arc::from).to_vec(), ..Naming::default() };
        if random.once_in(3) {
            naming.prefix = Prefix::Always;
        }
        let mut arrival: Vec<usize> = (0..servers.len()).collect();
        random.shuffle(&mut arrival);
        for index in arrival {
            if random.once_in(4) {
                continue;
            }
            servers[index].offer = Some(Arc::new(random_offer(random, &SERVERS)));
            let merged = Snapshot::build(servers.clone(), &naming);
            for kind in [Kind::Tools, Kind::Prompts] {
                let listed = page(&merged, kind, None, Revision::LATEST);
                for name in names(listed[kind.member()].as_array().unwrap()) {
                    let found = match kind {
                        Kind::Tools => merged.tool(name),
                        _ => merged.prompt(name),
                    };
                    let route = found.expect("what is listed can be called");
                    let server = there[route.server];
                    let owner = prefix_of(&SERVERS, name);
                    assert!(owner.is_none_or(|owner| owner == server), "{name} is {server}'s");
                }
            }
        }
    });
}
