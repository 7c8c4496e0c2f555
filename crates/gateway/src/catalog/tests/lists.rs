//! What clients see of a list.

use mcplane::proto::types::{Cache, CacheScope};
use mcplane::proto::version::Revision;
use serde_json::{Value, json};

use super::super::pages::PAGE_SIZE;
use super::{Kind, Snapshot, add, names, offer, page, pages, resource, snapshot, template};

fn is_refused(snapshot: &Snapshot, kind: Kind, cursor: &str) -> bool {
    snapshot.page(kind, Some(cursor), Revision::LATEST).is_err()
}

#[test]
fn an_empty_list_is_one_empty_page() {
    let empty = snapshot([]);
    for kind in Kind::ALL {
        let result = page(&empty, kind, None, Revision::V2024_11_05);
        assert_eq!(result, json!({ kind.member(): [] }));
    }
}

#[test]
fn the_envelope_follows_the_revision() {
    let one = snapshot([("a", offer(&["x"]))]);
    let cache = Cache { ttl_ms: 500, scope: CacheScope::Public };
    let mut out = Vec::new();
    let info = br#"{"name":"gateway","version":"1"}"#;
    let first = one.page(Kind::Tools, None, Revision::LATEST).unwrap();
    first.write(&cache, Some(info), &mut out);
    let result: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        result,
        json!({
            "resultType": "complete",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "gateway", "version": "1"}},
            "ttlMs": 500,
            "cacheScope": "public",
            "tools": [{"name": "x", "inputSchema": {"type": "object"}}],
        })
    );
    let legacy = page(&one, Kind::Tools, None, Revision::LATEST_LEGACY);
    assert_eq!(legacy, json!({"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}));
}

#[test]
fn pages_end_and_cursors_are_ours() {
    let tools: Vec<String> = (0..2 * PAGE_SIZE + 1).map(|index| format!("t{index}")).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let with_resources = |tools: &[&str]| {
        let mut all = offer(tools);
        let uris = (0..PAGE_SIZE + 1).map(|index| resource(&format!("x:{index}")));
        add(&mut all, Kind::Resources, uris);
        snapshot([("a", all)])
    };
    let all = with_resources(&tools);
    let (entries, count) = pages(&all, Kind::Tools, Revision::LATEST);
    assert_eq!((names(&entries), count), (tools.clone(), 3));

    let cursor = page(&all, Kind::Tools, None, Revision::LATEST)["nextCursor"].clone();
    let cursor = cursor.as_str().unwrap();
    // Whoever restarts with the same lists takes its old cursors; other lists do not.
    let same = with_resources(&tools);
    let second = page(&same, Kind::Tools, Some(cursor), Revision::LATEST);
    assert_eq!(second["tools"][0]["name"], "t250");
    let changed = with_resources(&tools[1..]);
    let beyond = cursor.replace(".1", ".3");
    let first = cursor.replace(".1", ".0");
    let padded = cursor.replace(".1", ".01");
    for (snapshot, kind, cursor) in [
        (&changed, Kind::Tools, cursor),
        (&all, Kind::Resources, cursor),
        (&all, Kind::Tools, &*beyond),
        (&all, Kind::Tools, &*first),
        (&all, Kind::Tools, &*padded),
        (&all, Kind::Tools, ""),
        (&all, Kind::Tools, "t.1"),
        (&all, Kind::Tools, "99999999999999999999999"),
    ] {
        assert!(is_refused(snapshot, kind, cursor), "{cursor}");
    }
}

#[test]
fn entries_go_through_byte_for_byte_or_down_levelled() {
    let mut rich = offer(&[]);
    let tool = r#"{"z":[1.0,{"k":1e3}],"name":"t","title":"T","icons":[{"src":"i","new":1}],"inputSchema":{"b":1,"a":2},"outputSchema":{"type":"array"}}"#;
    add(&mut rich, Kind::Tools, [tool.into()]);
    let uri = r#"{"uri":"x:1","name":"n","title":"T","size":1,"q":true}"#;
    add(&mut rich, Kind::Resources, [uri.into()]);
    add(
        &mut rich,
        Kind::Templates,
        [r#"{"uriTemplate":"x:{a}","name":"n","title":"T","q":1}"#.into()],
    );
    let prompt = r#"{"name":"p","title":"T","arguments":[{"name":"a","title":"A"}],"q":1}"#;
    add(&mut rich, Kind::Prompts, [prompt.into()]);
    let rich = snapshot([("a", rich)]);

    let mut out = Vec::new();
    let first = rich.page(Kind::Tools, None, Revision::LATEST).unwrap();
    first.write(&Cache::default(), None, &mut out);
    assert!(String::from_utf8(out).unwrap().contains(tool));

    let oldest = |kind: Kind| page(&rich, kind, None, Revision::V2024_11_05)[kind.member()].clone();
    assert_eq!(
        oldest(Kind::Tools),
        json!([{"name": "t", "inputSchema": {"b": 1, "a": 2}, "z": [1.0, {"k": 1000.0}]}])
    );
    assert_eq!(oldest(Kind::Resources), json!([{"uri": "x:1", "name": "n", "size": 1, "q": true}]));
    assert_eq!(oldest(Kind::Templates), json!([{"uriTemplate": "x:{a}", "name": "n", "q": 1}]));
    assert_eq!(oldest(Kind::Prompts), json!([{"name": "p", "arguments": [{"name": "a"}], "q": 1}]));

    // 2025-11-25 cannot name an array as an output schema; calls have to be wrapped too.
    let wrapped = page(&rich, Kind::Tools, None, Revision::V2025_11_25);
    assert_eq!(wrapped["tools"][0]["outputSchema"]["required"], json!(["result"]));
    assert!(rich.tool("t").unwrap().wraps_output);
}

#[test]
fn prefixed_entries_keep_the_rest() {
    let mut a = offer(&[]);
    let tool = r#"{"q":{"name":"inner"},"name":"t","inputSchema":{}}"#;
    add(&mut a, Kind::Tools, [tool.into()]);
    let both = snapshot([("a", a), ("b", offer(&["t"]))]);
    let (entries, _) = pages(&both, Kind::Tools, Revision::LATEST);
    assert_eq!(entries[0], json!({"q": {"name": "inner"}, "name": "a__t", "inputSchema": {}}));
    assert_eq!(entries[1]["name"], "b__t");
}

#[test]
fn uris_are_listed_once() {
    let with = |uri: &str| {
        let mut all = offer(&[]);
        add(&mut all, Kind::Resources, [resource("x:same"), resource(uri)]);
        add(&mut all, Kind::Templates, [template("x:{id}")]);
        all
    };
    let both = snapshot([("a", with("x:a")), ("b", with("x:b"))]);
    let (entries, _) = pages(&both, Kind::Resources, Revision::LATEST);
    let uris: Vec<_> = entries.iter().map(|entry| entry["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["x:same", "x:a"]);
    let hidden: Vec<_> =
        both.shadowed().iter().map(|s| (s.kind, &*s.name, s.server, &*s.by)).collect();
    let expected = [
        (Kind::Templates, "x:{id}", 1, "a"),
        (Kind::Resources, "x:same", 1, "a"),
        (Kind::Resources, "x:b", 1, "a"),
    ];
    assert_eq!(hidden, expected);
}
