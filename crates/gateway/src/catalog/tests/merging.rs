//! Several servers as one: routes, changes, capabilities, instructions, and what holds for all.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mcplane::proto::types::ServerCapabilities;
use mcplane::proto::version::Revision;
use serde_json::{Value, json};

use super::super::names::NAME_BYTES_MAX;
use super::super::{Features, Health, Prefix, Rules, ServerNaming};
use super::random::{Random, for_seeds};
use super::{
    Kind, Naming, Offer, Server, Snapshot, add, offer, pages, resource, server, snapshot, template,
    tool,
};

#[test]
fn routes_lead_to_the_servers_own_names() {
    let mut rules = ServerNaming::default();
    rules.tools.rename.insert("old".into(), "new".into());
    rules.tools.deny.push("secret*".into());
    let naming = Naming { servers: HashMap::from([("a".into(), rules)]), ..Naming::default() };
    let servers = vec![
        server("a", offer(&["old", "secret_1", "both"])),
        server("b", offer(&["both", "new2"])),
    ];
    let merged = Snapshot::build(servers, &naming);
    let route = |name: &str| merged.tool(name).map(|r| (r.server, r.original.as_deref()));
    assert_eq!(route("new"), Some((0, Some("old"))));
    assert_eq!(route("a__both"), Some((0, Some("both"))));
    assert_eq!(route("b__both"), Some((1, Some("both"))));
    assert_eq!(route("new2"), Some((1, None)));
    for hidden in ["old", "secret_1", "both", "a__secret_1"] {
        assert_eq!(route(hidden), None, "{hidden}");
    }
    assert_eq!((merged.owners("both"), merged.owners("old")), (&[0, 1][..], &[0][..]));
    assert_eq!((merged.owners("new"), merged.owners("none")), (&[0][..], &[][..]));
    assert!(merged.prompt("new").is_none());
}

#[test]
fn a_tool_keeps_its_name_if_the_other_one_is_taken() {
    let mut rules = ServerNaming::default();
    rules.tools.rename = [("echo", "sleep"), ("add", "hidden")]
        .map(|(old, new)| (old.to_owned(), new.to_owned()))
        .into();
    rules.tools.deny.push("hidden".into());
    let naming = Naming { servers: HashMap::from([("a".into(), rules)]), ..Naming::default() };
    let servers = vec![server("a", offer(&["echo", "sleep", "add", "hidden"]))];
    let merged = Snapshot::build(servers, &naming);
    let names: Vec<&str> = merged.exposed(Kind::Tools).map(|(name, _)| &**name).collect();
    assert_eq!(names, ["echo", "sleep", "hidden"]);
    let route = |name: &str| merged.tool(name).unwrap().original.as_deref();
    assert_eq!((route("echo"), route("sleep"), route("hidden")), (None, None, Some("add")));
    let [clash] = merged.clashes() else { panic!("{:?}", merged.clashes()) };
    assert_eq!((clash.server, &*clash.tool, &*clash.wanted), (0, "echo", "sleep"));
}

#[test]
fn hints_and_headers_are_on_the_route() {
    let mut all = Offer::new(Some(Revision::LATEST), ServerCapabilities::new());
    let text = r#"{"name":"t","annotations":{"readOnlyHint":false,"idempotentHint":true},
        "inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}"#;
    add(&mut all, Kind::Tools, [text.into()]);
    let all = snapshot([("a", all)]);
    let route = all.tool("t").unwrap();
    assert!(!route.read_only && route.idempotent && !route.wraps_output);
    assert_eq!(route.mirrored.as_deref().unwrap()[0].path, ["a"]);
}

#[test]
fn resources_are_found_by_uri_then_template_then_elimination() {
    let mut a = offer(&["only tools"]);
    let mut b = offer(&[]);
    add(&mut a, Kind::Resources, [resource("x:1")]);
    add(&mut b, Kind::Resources, [resource("x:2")]);
    add(&mut b, Kind::Templates, [template("y:{id}"), template("x:{id}")]);
    let mut rules = ServerNaming::default();
    rules.resources.deny.push("*secret".into());
    let naming = |name: &str| Naming {
        servers: HashMap::from([(name.into(), rules.clone())]),
        ..Naming::default()
    };
    let both = Snapshot::build(vec![server("a", a), server("b", b.clone())], &naming("b"));
    let found = |uri: &str| both.resource(uri).map(|route| route.server);
    assert_eq!((found("x:1"), found("x:2"), found("x:3")), (Some(0), Some(1), Some(1)));
    assert_eq!((found("y:9"), found("y:secret"), found("z:1")), (Some(1), None, None));
    assert_eq!(both.template("y:{id}").map(|route| route.server), Some(1));
    assert_eq!(both.template("z:{id}"), None);

    let one = Snapshot::build(vec![server("t", offer(&["t"])), server("b", b)], &naming("b"));
    let found = |uri: &str| one.resource(uri).map(|route| route.server);
    assert_eq!((found("z:1"), found("z:secret")), (Some(1), None));

    // An SDK that declares resources for every server is no doubt about the one that lists some.
    let mut empty = offer(&[]);
    empty.capabilities = serde_json::from_str(r#"{"resources":{}}"#).unwrap();
    let servers = |last| vec![server("t", empty.clone()), one.servers()[1].clone(), last];
    let found = |servers| Snapshot::build(servers, &Naming::default()).resource("z:1").cloned();
    let listing = found(servers(server("u", empty.clone())));
    assert_eq!(listing.map(|route| route.server), Some(1));
    assert_eq!(found(servers(Server { name: "u".into(), offer: None })), None);
}

#[test]
fn only_lists_that_differ_have_changed() {
    let with = |uri: &str| {
        let mut all = offer(&["t"]);
        add(&mut all, Kind::Templates, [template(uri)]);
        all
    };
    let old = snapshot([("a", with("x:{a}"))]);
    assert!(!snapshot([("a", with("x:{a}"))]).changes(&old).any());
    let new = snapshot([("a", with("y:{a}"))]).changes(&old);
    assert!(new.resources && !new.tools && !new.prompts);
    let mut described = offer(&[]);
    add(&mut described, Kind::Tools, [tool("t").replace('}', r#","x":1}"#)]);
    add(&mut described, Kind::Templates, [template("x:{a}")]);
    assert!(snapshot([("a", described)]).changes(&old).tools);
    // Another server's tool of that name changes both names.
    assert!(snapshot([("a", with("x:{a}")), ("b", offer(&["t"]))]).changes(&old).tools);
    assert!(!snapshot([("a", with("x:{a}")), ("b", offer(&[]))]).changes(&old).any());
}

fn declaring(capabilities: &str, instructions: Option<&str>) -> Offer {
    let mut offer = Offer::new(None, serde_json::from_str(capabilities).unwrap());
    offer.instructions = instructions.map(str::to_owned);
    offer
}

fn declared(snapshot: &Snapshot) -> Value {
    serde_json::to_value(snapshot.capabilities()).unwrap()
}

#[test]
fn capabilities_are_united() {
    let a = declaring(
        "{\"tools\":{},\"tasks\":{\"list\":{}},\n\"extensions\":{\"x/ui\":{\"v\":1}},\"odd\":[1]}",
        None,
    );
    let b = declaring(
        r#"{"resources":{"subscribe":true},"logging":{},"extensions":{"x/ui":{},"y":{}},"experimental":{"e":{}},"odd":2}"#,
        None,
    );
    let both = snapshot([("a", a.clone()), ("b", b)]);
    assert!(!both.capabilities().raw().get().contains('\n'));
    assert_eq!(
        declared(&both),
        json!({
            "tools": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true},
            "logging": {},
            "odd": [1],
            "experimental": {"e": {}},
            "extensions": {"x/ui": {"v": 1}, "y": {}},
        })
    );
    // What is listed is there, declared or not.
    assert_eq!(
        declared(&snapshot([("a", offer(&["t"]))])),
        json!({"tools": {"listChanged": true}})
    );
    let unknown = vec![server("a", a), Server { name: "b".into(), offer: None }];
    let features = Snapshot::build(unknown, &Naming::default()).features();
    assert_eq!(features, Features::of(None));
    assert!(features.prompts && features.subscribe && features.completions);
}

#[test]
fn instructions_are_kept_apart() {
    let say = |text| declaring("{}", text);
    assert_eq!(snapshot([("a", say(Some(" As is.\n")))]).instructions().unwrap(), " As is.\n");
    assert_eq!(snapshot([("a", say(None)), ("b", say(Some(" ")))]).instructions(), None);
    let both = snapshot([("a", say(Some("One.\n"))), ("b", say(None)), ("c", say(Some("Two.")))]);
    assert_eq!(both.instructions().unwrap(), "# a\n\nOne.\n\n# c\n\nTwo.");
}

#[test]
fn the_registry_knows_every_name_of_a_tool() {
    let mut a = offer(&["t"]);
    add(&mut a, Kind::Resources, [resource("x:1")]);
    let mut b = offer(&["t"]);
    add(&mut b, Kind::Resources, [resource("x:1")]);
    let candidates = snapshot([("a", a), ("b", b)])
        .candidates(|index| if index == 0 { (Health::Healthy, 0.5) } else { (Health::Down, 0.0) });
    assert_eq!(candidates[0].tools, ["a__t", "t"]);
    assert_eq!(
        (candidates[1].health, &*candidates[1].resources),
        (Health::Down, &["x:1".into()][..])
    );
    assert!(candidates[1].known && candidates[0].load == 0.5);
}

/// Servers with names that meet, rules that hide and rename, and names that look made up.
fn random_servers(random: &mut Random) -> (Vec<Server>, Naming) {
    let long = "l".repeat(125);
    let pool = ["search", "read", "b__search", "a__b", "x.y", "é t", "search_1", &long];
    let mut naming = Naming::default();
    if random.once_in(2) {
        naming.prefix = Prefix::Always;
    }
    let servers = (0..random.below(6))
        .map(|index| {
            let name: Arc<str> = ["a", "b", "a__b", "files", "Z-9", "c"][index].into();
            let mut rules = Rules::default();
            if random.once_in(3) {
                rules.deny.push("se*".into());
            }
            if random.once_in(3) {
                rules.rename.insert("read".into(), (*random.pick(&pool)).into());
            }
            let rules = ServerNaming { tools: rules, ..ServerNaming::default() };
            naming.servers.insert(Arc::clone(&name), rules);
            let mut tools = pool.to_vec();
            random.shuffle(&mut tools);
            tools.truncate(random.below(pool.len() + 1));
            let many: Vec<String> = (0..random.below(400)).map(|n| format!("many{n}")).collect();
            if random.once_in(3) {
                tools.extend(many.iter().map(String::as_str));
            }
            let known = !random.once_in(8);
            Server { name, offer: known.then(|| Arc::new(offer(&tools))) }
        })
        .collect();
    (servers, naming)
}

#[test]
fn every_listed_tool_leads_back_to_where_it_is_from() {
    for_seeds(150, |random| {
        let (servers, naming) = random_servers(random);
        let merged = Snapshot::build(servers.clone(), &naming);
        let (entries, count) = pages(&merged, Kind::Tools, *random.pick(&Revision::ALL));
        assert_eq!(count, entries.len().div_ceil(250).max(1));

        // Each thing that is shown is listed exactly once, in order, under a name of its own.
        let mut expected = Vec::new();
        for (index, server) in servers.iter().enumerate() {
            let rules = &naming.servers[&server.name].tools;
            let entries = server.offer.as_ref().map_or(&[][..], |offer| offer.entries(Kind::Tools));
            let shown = entries.iter().filter(|entry| rules.shows(&entry.name));
            expected.extend(shown.map(|entry| (index, entry.name.to_string())));
        }
        let listed = super::names(&entries);
        let found: Vec<(usize, String)> = listed
            .iter()
            .map(|name| {
                let route = merged.tool(name).unwrap();
                (route.server, route.original.as_deref().unwrap_or(name).to_owned())
            })
            .collect();
        assert_eq!(found, expected);
        assert_eq!(listed.iter().collect::<HashSet<_>>().len(), listed.len());
        let plain =
            |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
        for (name, (index, original)) in listed.iter().zip(&expected) {
            let renames = &naming.servers[&servers[*index].name].tools.rename;
            let base = renames.get(original).unwrap_or(original);
            let valid = name.len() <= NAME_BYTES_MAX && plain(name);
            assert!(valid || !plain(base), "{name} from {base}");
        }
    });
}

#[test]
fn the_order_of_arrival_makes_no_difference() {
    for_seeds(40, |random| {
        let (servers, naming) = random_servers(random);
        let merged = Snapshot::build(servers.clone(), &naming);
        // Offers come in any order; in the end the same is there.
        let mut arrived: Vec<Server> =
            servers.iter().map(|s| Server { name: Arc::clone(&s.name), offer: None }).collect();
        let mut order: Vec<usize> = (0..servers.len()).collect();
        random.shuffle(&mut order);
        for index in order {
            arrived[index].offer.clone_from(&servers[index].offer);
        }
        let other = Snapshot::build(arrived, &naming);
        assert!(!other.changes(&merged).any());
        let revision = *random.pick(&Revision::ALL);
        assert_eq!(pages(&other, Kind::Tools, revision), pages(&merged, Kind::Tools, revision));
    });
}
