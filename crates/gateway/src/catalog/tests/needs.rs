//! Negotiation: examples for each rule, plans of random servers, and a market of servers.

use std::collections::BTreeSet;

use mcplane::proto::version::Revision;
use serde_json::json;

use super::super::need::{ITEMS_MAX, Item};
use super::super::negotiate::{Unfit, VersionFit};
use super::super::{Candidate, Health, Need, NeedError, Outcome, Verdict, negotiate};
use super::random::{Random, for_seeds};
use crate::config::SERVERS_MAX;

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn candidate(name: &str, version: &str, tools: &[&str]) -> Candidate {
    Candidate {
        name: name.into(),
        version: Some(version.into()),
        revision: Some(Revision::V2025_06_18),
        known: true,
        tools: strings(tools),
        ..Candidate::default()
    }
}

fn need(tools: &[&str]) -> Need {
    Need { tools: strings(tools), ..Need::default() }
}

fn ranking(verdict: &Verdict) -> Vec<&str> {
    verdict.ranked.iter().map(|rank| rank.server.as_str()).collect()
}

fn plan(verdict: &Verdict) -> Vec<(&str, usize)> {
    verdict.plan.iter().map(|share| (share.server.as_str(), share.items.len())).collect()
}

#[test]
fn ranks_go_by_coverage_version_health_load() {
    let with = |name, version, health, load| Candidate {
        health,
        load,
        ..candidate(name, version, &["a", "b"])
    };
    let servers = [
        with("busy", "1.10", Health::Healthy, 0.9),
        with("later", "2.0", Health::Healthy, 0.0),
        with("ill", "1.10", Health::Degraded, 0.0),
        with("best", "1.10.1", Health::Healthy, 0.1),
        with("old", "1.9", Health::Healthy, 0.0),
        with("strange", "latest", Health::Healthy, 0.0),
        with("down", "1.10", Health::Down, 0.0),
        with("odd", "1.10", Health::Healthy, f64::NAN),
        candidate("half", "1.10", &["b"]),
    ];
    let need = Need { min_version: Some("1.10".into()), ..need(&["a", "b"]) };
    let verdict = negotiate(&need, &servers).unwrap();
    let expected = ["best", "busy", "odd", "ill", "later", "half", "down", "old", "strange"];
    assert_eq!(ranking(&verdict), expected);
    assert_eq!((verdict.outcome, verdict.best.as_deref()), (Outcome::Covered, Some("best")));
    assert_eq!(plan(&verdict), [("best", 2)]);
    let unfit: Vec<_> = verdict.ranked.iter().flat_map(|rank| rank.unfit.clone()).collect();
    assert_eq!(unfit, [Unfit::Down, Unfit::VersionTooOld, Unfit::VersionUnknown]);
    let half = &verdict.ranked[5];
    assert_eq!((half.coverage, half.has, half.of), (0.5, 1, 2));
    assert_eq!(half.missing, [Item::Tool("a".into())]);
    assert_eq!(verdict.ranked[4].version_fit, VersionFit::LaterMajor);
}

#[test]
fn several_servers_share_what_no_one_has() {
    // `wide` adds most, and the two that have the rest make it needless.
    let servers = [
        candidate("wide", "1", &["b", "c", "d", "e"]),
        candidate("left", "1", &["a", "b", "c"]),
        candidate("right", "1", &["d", "e", "f"]),
    ];
    let verdict = negotiate(&need(&["a", "b", "c", "d", "e", "f", "a"]), &servers).unwrap();
    assert_eq!((verdict.outcome, verdict.best.as_deref()), (Outcome::Split, None));
    assert_eq!(plan(&verdict), [("left", 3), ("right", 3)]);
    assert!(verdict.missing.is_empty());
}

#[test]
fn what_is_missing_is_named_with_who_would_have_it() {
    let servers = [
        candidate("a", "1", &["x"]),
        Candidate { health: Health::Quarantined, ..candidate("b", "1", &["y"]) },
        Candidate { known: false, ..candidate("c", "1", &["z"]) },
        Candidate { revision: None, ..candidate("d", "1", &["y"]) },
    ];
    let need = Need { revision: Some(Revision::V2025_03_26), ..need(&["x", "y", "z"]) };
    let verdict = negotiate(&need, &servers).unwrap();
    assert_eq!((verdict.outcome, plan(&verdict)), (Outcome::Missing, vec![("a", 1)]));
    let json = serde_json::to_value(&verdict).unwrap();
    assert_eq!(
        json["missing"],
        json!([
            {"kind": "tool", "name": "y", "unfit": ["d", "b"]},
            {"kind": "tool", "name": "z", "unfit": []},
        ])
    );
    assert_eq!(json["outcome"], "missing");
    let unfit: Vec<_> = verdict.ranked.iter().map(|rank| rank.unfit.clone()).collect();
    assert_eq!(unfit[1..], [[Unfit::RevisionUnknown], [Unfit::Quarantined], [Unfit::NotListed]]);

    let later = Need { revision: Some(Revision::LATEST), ..Need::default() };
    let verdict = negotiate(&later, &servers[..1]).unwrap();
    assert_eq!(verdict.ranked[0].unfit, [Unfit::RevisionTooOld]);
    assert_eq!(verdict.outcome, Outcome::Missing);
    assert_eq!(negotiate(&Need::default(), &[]).unwrap().outcome, Outcome::Missing);
    let any = negotiate(&Need::default(), &servers).unwrap();
    assert_eq!((any.outcome, any.best.as_deref()), (Outcome::Covered, Some("a")));
}

#[test]
fn prompts_and_resources_count_too() {
    let server = Candidate {
        prompts: strings(&["p"]),
        resources: strings(&["x:1"]),
        templates: strings(&["y:{id}"]),
        ..candidate("a", "1", &["t"])
    };
    let need = Need {
        prompts: strings(&["p", "t"]),
        resources: strings(&["x:1", "y:2", "y:a/b"]),
        ..need(&["t"])
    };
    let verdict = negotiate(&need, &[server]).unwrap();
    let missing: Vec<_> = verdict.missing.iter().map(|missing| &missing.item).collect();
    assert_eq!(missing, [&Item::Prompt("t".into()), &Item::Resource("y:a/b".into())]);
    assert_eq!(verdict.ranked[0].has, 4);
}

#[test]
fn needs_that_say_nothing_definite_are_refused() {
    let servers = [candidate("a", "1", &[])];
    let minimum = |name: &str, text: &str| Need {
        min_versions: [(name.to_owned(), text.to_owned())].into(),
        ..Need::default()
    };
    let error = |need: &Need| negotiate(need, &servers).unwrap_err();
    assert_eq!(error(&minimum("b", "1")), NeedError::NoSuchServer { name: "b".into() });
    assert_eq!(error(&minimum("a", "new")), NeedError::Version { text: "new".into() });
    let many: Vec<String> = (0..=ITEMS_MAX).map(|index| index.to_string()).collect();
    let many = Need { tools: many, ..Need::default() };
    assert!(error(&many).to_string().contains("1025 things"));
    let own = Need { min_version: Some("9".into()), ..minimum("a", "0.9") };
    assert_eq!(negotiate(&own, &servers).unwrap().outcome, Outcome::Covered);
}

#[test]
fn needs_are_read_from_json() {
    let need: Need =
        serde_json::from_str(r#"{"tools":["a"],"revision":"2025-06-18","min_version":"1.2"}"#)
            .unwrap();
    assert_eq!(need.revision, Some(Revision::V2025_06_18));
    assert_eq!(serde_json::to_value(&need).unwrap()["revision"], "2025-06-18");
    let error = serde_json::from_str::<Need>(r#"{"revision":"2025"}"#).unwrap_err().to_string();
    assert!(error.contains("unknown revision \"2025\"") && error.contains("2026-07-28"), "{error}");
}

/// A plan has all that anybody has, and no server in it is needless. It may not be the smallest.
#[test]
fn plans_are_complete_and_nothing_in_them_is_needless() {
    for_seeds(300, |random| {
        let names: Vec<String> = (0..1 + random.below(80)).map(|at| at.to_string()).collect();
        let servers: Vec<Candidate> = (0..random.below(30))
            .map(|at| {
                let tools: Vec<&str> =
                    names.iter().filter(|_| random.once_in(4)).map(String::as_str).collect();
                candidate(&format!("s{at}"), "1", &tools)
            })
            .collect();
        let has = |server: &str| {
            let server = servers.iter().find(|candidate| candidate.name == server);
            server.map(|server| server.tools.iter().cloned().collect::<BTreeSet<_>>()).unwrap()
        };
        let need = Need { tools: names, ..Need::default() };
        let verdict = negotiate(&need, &servers).unwrap();
        let chosen: Vec<&str> = verdict.plan.iter().map(|share| &*share.server).collect();
        let all = |without: Option<&str>| {
            let others = chosen.iter().filter(|server| Some(**server) != without);
            others.flat_map(|server| has(server)).collect::<BTreeSet<_>>()
        };
        let anybody = servers.iter().flat_map(|server| server.tools.iter().cloned()).collect();
        assert_eq!(all(None), anybody);
        for server in &chosen {
            assert_ne!(all(Some(server)), anybody, "{server} is needed");
        }
        let ranks = chosen.iter().map(|server| ranking(&verdict).iter().position(|s| s == server));
        assert!(ranks.is_sorted(), "the better ranked first");
    });
}

/// As many servers and things as there may be, and each server is needed.
#[test]
fn the_largest_need_is_planned_for() {
    let names: Vec<String> = (0..ITEMS_MAX).map(|at| at.to_string()).collect();
    let share = ITEMS_MAX / SERVERS_MAX;
    let servers: Vec<Candidate> = (0..SERVERS_MAX)
        .map(|at| {
            let common = names.iter().step_by(2);
            let own = names.iter().skip(at * share).take(share);
            let tools: Vec<&str> = common.chain(own).map(String::as_str).collect();
            candidate(&format!("s{at}"), "1", &tools)
        })
        .collect();
    let verdict = negotiate(&Need { tools: names, ..Need::default() }, &servers).unwrap();
    assert_eq!((verdict.outcome, verdict.plan.len()), (Outcome::Split, SERVERS_MAX));
}

/// Ten servers, three quarters of them up, versions `1.x.y`, a hundred tools; a hundred clients
/// that need one to five tools and a version from 1.0 to 1.5.
fn market(random: &mut Random) -> (Vec<Candidate>, Vec<Need>) {
    let servers = (0..10)
        .map(|index| {
            let version = format!("1.{}.{}", random.below(12), random.below(10));
            let tools: Vec<String> =
                (0..25).map(|_| format!("tool_{}", random.below(100))).collect();
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            let health = if random.once_in(4) { Health::Down } else { Health::Healthy };
            let load = random.share();
            Candidate { health, load, ..candidate(&format!("server_{index}"), &version, &tools) }
        })
        .collect();
    let needs = (0..100)
        .map(|_| Need {
            tools: (0..1 + random.below(5))
                .map(|_| format!("tool_{}", random.below(100)))
                .collect(),
            min_version: Some(format!("1.{}", random.below(6))),
            ..Need::default()
        })
        .collect();
    (servers, needs)
}

#[test]
fn every_request_of_a_market_ends_in_one_true_outcome() {
    for_seeds(10, |random| {
        let (mut servers, needs) = market(random);
        let mut counts = [0; 3];
        for need in &needs {
            let verdict = negotiate(need, &servers).unwrap();
            random.shuffle(&mut servers);
            assert_eq!(verdict, negotiate(need, &servers).unwrap(), "the order does not matter");
            judge(need, &servers, &verdict);
            counts[verdict.outcome as usize] += 1;
        }
        assert_eq!(counts.iter().sum::<usize>(), needs.len());
        assert!(counts.iter().all(|&count| count > 0), "each outcome occurs: {counts:?}");
    });
}

/// Whether a verdict is true, found out another way.
fn judge(need: &Need, servers: &[Candidate], verdict: &Verdict) {
    let minor = |version: &str| version.split('.').nth(1).unwrap().parse::<u32>().unwrap();
    let oldest = minor(need.min_version.as_deref().unwrap());
    let usable: Vec<&Candidate> = servers
        .iter()
        .filter(|server| server.health == Health::Healthy)
        .filter(|server| minor(server.version.as_deref().unwrap()) >= oldest)
        .collect();
    let has_all = |server: &&&Candidate| need.tools.iter().all(|tool| server.tools.contains(tool));
    let held = |tool: &String| usable.iter().any(|server| server.tools.contains(tool));
    let expected = match (usable.iter().find(has_all), need.tools.iter().all(held)) {
        (Some(_), _) => Outcome::Covered,
        (None, true) => Outcome::Split,
        (None, false) => Outcome::Missing,
    };
    assert_eq!(verdict.outcome, expected);
    assert_eq!(verdict.best.is_some(), expected == Outcome::Covered);
    assert_eq!(verdict.missing.is_empty(), expected != Outcome::Missing);
    match expected {
        Outcome::Covered => assert_eq!(verdict.plan.len(), 1),
        Outcome::Split => assert!(verdict.plan.len() > 1),
        Outcome::Missing => {}
    }
    // Every tool is either in exactly one share, of a server that has it, or missing.
    let mut tools = need.tools.clone();
    tools.sort();
    tools.dedup();
    let mut accounted: Vec<String> = Vec::new();
    for share in &verdict.plan {
        let server = usable.iter().find(|server| server.name == share.server).unwrap();
        assert!(!share.items.is_empty());
        for item in &share.items {
            let Item::Tool(tool) = item else { panic!("only tools were asked for") };
            assert!(server.tools.contains(tool));
            accounted.push(tool.clone());
        }
    }
    for missing in &verdict.missing {
        let Item::Tool(tool) = &missing.item else { panic!("only tools were asked for") };
        let holders = servers.iter().filter(|server| server.tools.contains(tool)).count();
        assert_eq!(missing.unfit.len(), holders);
        accounted.push(tool.clone());
    }
    accounted.sort();
    assert_eq!(accounted, tools);
}
