//! What we accept means the same to parsers that are not ours, before and after a splice: a case
//! folding one, one that takes the first or the last of several, one that keeps them all, and those
//! that cut keys at a NUL or clean them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod readers;

use mcplane_proto::message::{Kind, Message, Part};
use mcplane_proto::translate::{self, Onward};
use mcplane_proto::version::Revision;
use proptest::prelude::*;
use readers::{READERS, Reader, agree};

/// The names of all members that decide something, and one that does not.
const NAMES: [&str; 16] = [
    "jsonrpc",
    "id",
    "method",
    "params",
    "name",
    "uri",
    "arguments",
    "_meta",
    "ref",
    "type",
    "progressToken",
    "requestState",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "task",
    "other",
];

/// A key near one of them: in another case, with letters that fold, with control characters, escaped.
fn key(name: impl Strategy<Value = &'static str>) -> impl Strategy<Value = String> {
    (name, 0..14_u8, any::<prop::sample::Index>()).prop_map(|(name, how, at)| {
        let at = at.index(name.len());
        let (before, after) = name.split_at(at);
        let letter = after.as_bytes()[0];
        let rest = &after[1..];
        match how {
            0 => name.to_uppercase(),
            1 => format!("{before}{}{rest}", char::from(letter.to_ascii_uppercase())),
            2 => name.replacen('s', "ſ", 1),
            3 => name.replacen('k', "\u{212a}", 1),
            4 => format!("{name}\\u0000"),
            5 => format!("{name}\\u0000x"),
            6 => format!("{before}\\u0001{after}"),
            7 => format!("{before}\u{7f}{after}"),
            8 => format!("{before}\\u{:04x}{rest}", u32::from(letter)),
            9 => format!("{before}\\u{:04X}{rest}", u32::from(letter.to_ascii_uppercase())),
            _ => name.to_owned(),
        }
    })
}

fn any_key() -> impl Strategy<Value = String> {
    key(prop::sample::select(&NAMES[..]))
}

fn scalar() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "1",
        "2",
        "\"a\"",
        "\"b\"",
        "\"tools/call\"",
        "\"n\\u0061\"",
        "{}",
        "null",
    ])
    .prop_map(str::to_owned)
}

fn object(members: Vec<(String, String)>) -> String {
    let members: Vec<_> =
        members.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

/// Members that are there, and now and then some that are near them, in any order.
fn around(real: Vec<(&'static str, BoxedStrategy<String>)>) -> impl Strategy<Value = String> {
    let names: Vec<_> = real.iter().map(|(name, _)| *name).collect();
    let real: Vec<_> = real
        .into_iter()
        .map(|(name, value)| {
            (prop_oneof![30 => Just(name.to_owned()), 1 => key(Just(name))], value)
        })
        .collect();
    let near = (prop_oneof![key(prop::sample::select(names)), any_key()], scalar()).boxed();
    (real, prop_oneof![3 => Just(0..1_usize), 1 => Just(1..3)])
        .prop_flat_map(move |(real, count)| {
            let more = prop::collection::vec(near.clone(), count);
            more.prop_map(move |more| [real.clone(), more].concat())
        })
        .prop_shuffle()
        .prop_map(object)
}

fn request() -> impl Strategy<Value = String> {
    let text = || scalar().boxed();
    let meta = around(vec![
        ("progressToken", text()),
        ("io.modelcontextprotocol/protocolVersion", Just("\"2026-07-28\"".to_owned()).boxed()),
        ("io.modelcontextprotocol/clientCapabilities", Just("{}".to_owned()).boxed()),
    ]);
    let reference = around(vec![
        (
            "type",
            prop::sample::select(vec!["\"ref/prompt\"", "\"ref/resource\""])
                .prop_map(str::to_owned)
                .boxed(),
        ),
        ("name", text()),
        ("uri", text()),
    ]);
    let params = around(vec![
        ("name", text()),
        ("uri", text()),
        ("arguments", around(vec![("name", text()), ("id", text())]).boxed()),
        ("_meta", meta.boxed()),
        ("ref", reference.boxed()),
    ]);
    let methods =
        ["\"tools/call\"", "\"tools\\/call\"", "\"resources/read\"", "\"completion/complete\""];
    around(vec![
        ("jsonrpc", Just("\"2.0\"".to_owned()).boxed()),
        ("id", prop::sample::select(vec!["1", "\"x\""]).prop_map(str::to_owned).boxed()),
        ("method", prop::sample::select(methods.to_vec()).prop_map(str::to_owned).boxed()),
        ("params", params.boxed()),
    ])
}

/// What our own scan says is at a path.
fn ours(message: &Message, path: &[&str]) -> Option<String> {
    let part = match path {
        ["id"] => Part::Id,
        ["method"] => Part::Method,
        ["params", "name"] => Part::Name,
        ["params", "uri"] => Part::Uri,
        ["params", "ref", "type"] => Part::RefType,
        ["params", "ref", "name"] => Part::RefName,
        ["params", "ref", "uri"] => Part::RefUri,
        ["params", "_meta", "progressToken"] => Part::ProgressToken,
        other => panic!("{other:?} is no deciding path"),
    };
    Some(String::from_utf8(message.part(part)?.to_vec()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn every_reader_sees_the_same_request(text in request()) {
        let Ok(message) = Message::scan(text.clone()) else { return Ok(()) };
        prop_assume!(message.kind() == Kind::Request);
        let all = agree(text.as_bytes(), |path| ours(&message, path));
        prop_assert!(all.is_ok(), "{}", all.unwrap_err());
        for from in [Revision::V2025_11_25, Revision::LATEST] {
            for to in [Revision::V2025_11_25, Revision::LATEST] {
                let mut onward = Onward::new(to, 77);
                onward.name = Some("renamed");
                let mut out = Vec::new();
                translate::request(&message, from, &onward, &mut out);
                let sent = Message::scan(out.clone()).unwrap();
                let all = agree(&out, |path| ours(&sent, path));
                prop_assert!(all.is_ok(), "{}", all.unwrap_err());
                prop_assert_eq!(sent.part(Part::Id), Some(&b"77"[..]));
                prop_assert_eq!(sent.method(), message.method());
            }
        }
    }
}

/// The generator makes what it is for: of each thousand some are refused and some are not.
#[test]
fn the_generator_makes_both() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..1_000 {
        let text = request().new_tree(&mut runner).unwrap().current();
        match Message::scan(text) {
            Ok(_) => accepted += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 50 && refused > 50, "{accepted} accepted, {refused} refused");
}

/// Each reader reads as it says.
#[test]
fn readers_differ_where_they_should() {
    let text = r#"{"a":{"x":1},"A":{"x":2,"X":3},"a\u0000":{"x":4},"\u0001a":{"x":5},"a":{"x":6}}"#;
    let seen = READERS.map(|reader| reader.read(text, &["a", "x"]).join(" "));
    assert_eq!(seen, ["1", "6", "1 6", "6", "6", "6"]);
    assert_eq!(Reader::Folding.read(text, &["a"]).len(), 1);
    let at_end = r#"{"a":1,"A":2,"a\u0000b":3,"a\u0001":4}"#;
    let seen = READERS.map(|reader| reader.read(at_end, &["a"]).join(" "));
    assert_eq!(seen, ["1", "1", "1", "2", "3", "4"]);
}
