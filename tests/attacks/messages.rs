//! Messages that mean one thing here and another elsewhere, or that no server should think about for
//! long: each at every listener of every target, in every era. None is carried out, and whoever
//! comes next is served.

use serde_json::Value;

use crate::{
    door::{Door, Era, Talk},
    target::{Name, Target},
};

/// What a tool would say that ran.
const ECHO: &str = "this was carried out";

/// A change to a good call: what stands in it, and what stands there instead.
struct Change {
    name: &'static str,
    make: fn(&str) -> Vec<u8>,
}

/// With this in the place of the first of these words.
fn with(call: &str, old: &str, new: &str) -> Vec<u8> {
    assert!(call.contains(old), "no {old} in {call}");
    call.replacen(old, new, 1).into_bytes()
}

/// With more members in the envelope.
fn envelope(call: &str, members: &str) -> Vec<u8> {
    with(call, "{", &format!("{{{members},"))
}

/// With more members in the parameters.
fn params(call: &str, members: &str) -> Vec<u8> {
    with(call, "\"params\":{", &format!("\"params\":{{{members},"))
}

fn deep(open: &str, close: &str) -> String {
    open.repeat(100_000) + "1" + &close.repeat(100_000)
}

macro_rules! changes {
    ($($name:literal: |$call:ident| $make:expr,)*) => {
        &[$(Change { name: $name, make: |$call| $make }),*]
    };
}

/// None of these is a call.
const CHANGES: &[Change] = changes! {
    "another `Name`": |call| params(call, r#""Name":"add""#),
    "a `NAME` in capitals": |call| params(call, r#""NAME":"add""#),
    "a `name` up to a NUL": |call| params(call, r#""name\u0000":"add""#),
    "a `name` up to a NUL and more": |call| params(call, r#""name\u0000x":"add""#),
    "a `name` with a control character": |call| params(call, r#""na\u0001me":"add""#),
    "a `Name` in escapes": |call| params(call, r#""N\u0061ME":"add""#),
    "another `Arguments`": |call| params(call, r#""Arguments":{}"#),
    "another `_Meta`": |call| params(call, r#""_Meta":{}"#),
    "another `Uri`": |call| params(call, r#""uri":"a:b","Uri":"c:d""#),
    "a `taskId` with a long s": |call| params(call, "\"ta\u{17f}kId\":1"),
    "a `taskId` with the sign of Kelvin": |call| params(call, "\"tas\u{212a}Id\":1"),
    "another `Params`": |call| envelope(call, r#""Params":{"name":"add"}"#),
    "`params` with a long s": |call| envelope(call, "\"param\u{17f}\":{\"name\":\"add\"}"),
    "another `Method`": |call| envelope(call, r#""Method":"ping""#),
    "another `ID`": |call| envelope(call, r#""ID":7"#),
    "an `id` without its dot": |call| envelope(call, "\"\u{131}d\":7"),
    "an `id` up to a NUL": |call| envelope(call, r#""id\u0000":7"#),
    "an `id` with a delete": |call| envelope(call, "\"i\u{7f}d\":7"),
    "another `JSONRPC`": |call| envelope(call, r#""JSONRPC":"1.0""#),
    "two of `method`": |call| envelope(call, r#""method":"ping""#),
    "two of `id`": |call| envelope(call, r#""id":7"#),
    "two of `id`, one in escapes": |call| envelope(call, r#""\u0069d":7"#),
    "two of `params`": |call| envelope(call, r#""params":{"name":"add"}"#),
    "two of `name`": |call| params(call, r#""name":"add""#),
    "two of `name`, one in escapes": |call| params(call, r#""n\u0061me":"add""#),
    "two of `arguments`": |call| params(call, r#""arguments":{}"#),
    "no version": |call| with(call, r#""jsonrpc":"2.0""#, r#""other":"2.0""#),
    "an older version": |call| with(call, "\"2.0\"", "\"1.0\""),
    "a version that is a number": |call| with(call, "\"2.0\"", "2.0"),
    "an id that is an object": |call| with(call, "\"id\":", r#""id":{"a":1},"was":"#),
    "an id that is a list": |call| with(call, "\"id\":", r#""id":[1],"was":"#),
    "an id that is a fraction": |call| with(call, "\"id\":", r#""id":1.5,"was":"#),
    "an id that is true": |call| with(call, "\"id\":", r#""id":true,"was":"#),
    "a method that is a number": |call| with(call, "\"tools/call\"", "7"),
    "a method up to a NUL": |call| with(call, "tools/call", r"tools/call\u0000"),
    "a method over two lines": |call| with(call, "tools/call", r"tools/call\nping"),
    "a method in capitals": |call| with(call, "tools/call", "TOOLS/CALL"),
    "parameters in a list": |call| with(call, "\"params\":{", "\"params\":[],\"was\":{"),
    "parameters that are a text": |call| with(call, "\"params\":{", "\"params\":\"\",\"was\":{"),
    "a tool up to a NUL": |call| with(call, "\"echo\"", r#""echo\u0000""#),
    "a tool that clears the screen": |call| with(call, "\"echo\"", r#""\u001b[2Jecho""#),
    "a tool over two lines": |call| with(call, "\"echo\"", r#""echo\nok: echo""#),
    "a tool that reads backwards": |call| with(call, "\"echo\"", "\"\u{202e}ohce\""),
    "a tool whose name is long": |call| with(call, "\"echo\"", &format!("{:?}", "e".repeat(100_000))),
    "a tool whose name is a number": |call| with(call, "\"echo\"", "7"),
    "a raw control character": |call| with(call, ECHO, "a\u{1}b"),
    "a byte that is no UTF-8": |call| {
        let mut bytes = call.as_bytes().to_vec();
        let at = call.find(ECHO).unwrap();
        bytes[at] = 0xff;
        bytes
    },
    "a number that is none": |call| with(call, &format!("{ECHO:?}"), "NaN"),
    "a comment": |call| with(call, "{", "{/* */"),
    "a comma too many": |call| with(call, "{", "{,"),
    "text in single quotes": |call| with(call, "\"jsonrpc\"", "'jsonrpc'"),
    "a mark of byte order": |call| with(call, "{", "\u{feff}{"),
    "two calls in one": |call| [call.as_bytes(), call.as_bytes()].concat(),
    "half a call": |call| call.as_bytes()[..call.len() / 2].to_vec(),
    "a list too deep": |call| with(call, &format!("{ECHO:?}"), &deep("[", "]")),
    "an object too deep": |call| with(call, &format!("{ECHO:?}"), &deep("{\"a\":", "}")),
    "something deep that nobody reads": |call| params(call, &format!("\"x\":{}", deep("[", "]"))),
    "something deep in the envelope": |call| envelope(call, &format!("\"x\":{}", deep("[", "]"))),
    "brackets and no end": |_call| "[".repeat(1_000_000).into_bytes(),
    "no calls at once": |_call| b"[]".to_vec(),
    "one call at once": |call| format!("[{call}]").into_bytes(),
    "many calls at once": |call| format!("[{call}{}]", format!(",{call}").repeat(2_000)).into_bytes(),
    "calls at once, in one another": |call| format!("[[{call}]]").into_bytes(),
    "a message that is too long": |call| with(call, "{", &format!("{{{}", " ".repeat(17 << 20))),
    "an answer to nobody's question": |_call| {
        br#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#.to_vec()
    },
    "the end of another's call": |_call| {
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#.to_vec()
    },
    "progress of another's call": |_call| {
        br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#
            .to_vec()
    },
    "another's task": |call| with(call, "tools/call", "tasks/result"),
    "words": |_call| b"hello".to_vec(),
};

/// How often something is tried.
pub fn attempts() -> usize {
    let eras = |name: Name| name.doors().map(|door| door.eras().len()).sum::<usize>();
    CHANGES.len() * Name::ALL.into_iter().map(eras).sum::<usize>()
}

#[test]
fn no_message_fools_the_gateway() {
    fools(Name::Gateway);
}

#[test]
fn no_message_fools_the_library() {
    fools(Name::Library);
}

#[test]
fn no_message_fools_the_fixture() {
    fools(Name::Fixture);
}

fn fools(name: Name) {
    let target = Target::start(name);
    for door in name.doors() {
        let before = target.calls();
        for era in door.eras() {
            one_after_the_other(&target, door, *era);
        }
        if door != Door::Stdio {
            // One good call beside each change, and one at the end.
            let good = (CHANGES.len() + 1) * door.eras().len();
            let expected = before.map(|before| before + good as u64);
            assert_eq!(target.calls(), expected, "at {door:?} of {name:?}");
        }
    }
}

/// Each change on the same connection, as long as it lasts.
fn one_after_the_other(target: &Target, door: Door, era: Era) {
    let mut talk = target.talk(door, era);
    for (number, change) in CHANGES.iter().enumerate() {
        let name = format!("{} at {door:?}, {era:?}", change.name);
        let call = era.call("call", ECHO).to_string();
        talk.forget();
        talk.say(&(change.make)(&call));
        if is_served(&mut talk, era, number, &name) {
            continue;
        }
        talk = target.talk(door, era);
        assert!(is_served(&mut talk, era, number, &name), "{name}: {}", talk.heard());
    }
    // And this is what would have come of it.
    talk.forget();
    talk.say(era.call("call", ECHO).to_string().as_bytes());
    assert!(talk.until(&Value::from(ECHO).to_string()), "{}", talk.heard());
}

/// Whether a good call is answered, and nothing but it.
fn is_served(talk: &mut Talk, era: Era, number: usize, name: &str) -> bool {
    let well = format!("well {number}");
    talk.say(era.call("well", &well).to_string().as_bytes());
    let is_served = talk.until(&format!("\"text\":\"{well}\""));
    let heard = talk.heard();
    let results = heard.matches("\"result\":").count();
    assert_eq!(results, usize::from(is_served), "{name}: {heard}");
    assert!(!heard.contains(ECHO), "{name}: {heard}");
    is_served
}
