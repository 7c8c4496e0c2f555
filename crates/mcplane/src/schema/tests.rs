//! Every keyword, what is said of a violation, and the same answers as the tree of `serde_json`.

use std::thread;

use jsonschema::{Validator, json::conformance};
use proptest::{
    collection::{btree_map, vec},
    prelude::*,
};
use serde_json::json;

use super::*;

fn raw(schema: &str) -> Box<RawValue> {
    RawValue::from_string(schema.to_owned()).unwrap()
}

fn lax(schema: &Value) -> Schema {
    Schema::compile(&raw(&schema.to_string()), Root::Any).unwrap()
}

fn refused(schema: &str, root: Root) -> String {
    Schema::compile(&raw(schema), root).unwrap_err().to_string()
}

fn wrong(schema: &Value, instance: &str) -> String {
    lax(schema).check(instance.as_bytes()).unwrap_err().to_string()
}

/// Schema, then instances that match, then instances that do not.
type Case = (&'static str, &'static [&'static str], &'static [&'static str]);

#[rustfmt::skip]
const KEYWORDS: &[Case] = &[
    ("true", &["1", "{}"], &[]),
    ("false", &[], &["1", "{}"]),
    (r#"{"type":"null"}"#, &["null"], &["0", "false", "\"\""]),
    (r#"{"type":"boolean"}"#, &["true", "false"], &["0", "\"true\""]),
    (r#"{"type":"string"}"#, &["\"\"", r#""\n""#], &["1", "null"]),
    (r#"{"type":"integer"}"#, &["1", "-1", "1.0", "1e2", "18446744073709551616", "-0"], &["1.5", "1e-1", "\"1\""]),
    (r#"{"type":"number"}"#, &["1", "1.5", "1e308"], &["\"1\"", "[]"]),
    (r#"{"type":"array"}"#, &["[]"], &["{}", "\"[]\""]),
    (r#"{"type":"object"}"#, &["{}"], &["[]"]),
    (r#"{"type":["string","null"]}"#, &["null", "\"\""], &["1"]),
    (r#"{"enum":[1,"a\n",null,[1],{"a":1}]}"#, &["1.0", r#""a\u000a""#, "null", "[1.0]", r#"{"a":1e0}"#], &["2", "\"a\"", "[]", r#"{"a":2}"#]),
    (r#"{"const":{"a":[true,false]}}"#, &[r#"{"a":[true,false]}"#, r#"{"\u0061" : [ true , false ]}"#], &[r#"{"a":[true,true]}"#, "{}", "null"]),
    (r#"{"const":9007199254740993}"#, &["9007199254740993"], &["9007199254740992", "9007199254740994"]),
    (r#"{"const":0}"#, &["0", "-0", "0.0", "0e9"], &["false", "1"]),
    (r#"{"multipleOf":0.1}"#, &["0.3", "1", "0"], &["0.35"]),
    (r#"{"multipleOf":3}"#, &["9", "-3", "9.0", "\"1\""], &["10", "9.5"]),
    (r#"{"minimum":9007199254740993}"#, &["9007199254740993", "1e300"], &["9007199254740992", "-1e300"]),
    (r#"{"maximum":1.5}"#, &["1.5", "-9"], &["1.6", "2", "18446744073709551615"]),
    (r#"{"exclusiveMinimum":0,"exclusiveMaximum":2}"#, &["1", "0.1"], &["0", "2", "2.0"]),
    (r#"{"minLength":2,"maxLength":3}"#, &["\"ab\"", "\"🦀🦀\"", r#""\ud83e\udd80\n""#, "\"éèê\""], &["\"a\"", "\"🦀\"", r#""\ud83e\udd80""#, "\"abcd\""]),
    (r#"{"pattern":"^a\\d+$"}"#, &["\"a1\"", r#""\u00611""#, "1"], &["\"a\"", "\"ba1\""]),
    (r#"{"pattern":"^(?!no)"}"#, &["\"yes\""], &["\"no\"", r#""\u006eo""#]),
    (r#"{"minItems":1,"maxItems":2}"#, &["[1]", "[[],[1,2,3]]"], &["[]", "[1,2,3]"]),
    (r#"{"uniqueItems":true}"#, &["[]", "[1,2]", r#"["a","b"]"#, r#"[1,"1",true]"#, "[[1],[2]]"], &["[1,1.0]", r#"["a","a"]"#, r#"["a","\u0061"]"#, r#"[{"a":1,"b":2},{"b":2,"a":1}]"#]),
    (r#"{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}"#, &["[]", r#"["a",1,2]"#], &["[1]", r#"["a","b"]"#]),
    (r#"{"contains":{"type":"null"},"minContains":2,"maxContains":3}"#, &["[null,1,null]"], &["[null]", "[null,null,null,null]", "[]"]),
    (r#"{"required":["a","\n"]}"#, &[r#"{"a":1,"\n":2}"#, r#"{"\u0061":1,"\u000a":2}"#, "1"], &["{}", r#"{"a":1}"#]),
    (r#"{"minProperties":1,"maxProperties":1}"#, &[r#"{"a":{"b":1,"c":2}}"#], &["{}", r#"{"a":1,"b":1}"#]),
    (r#"{"properties":{"a":{"type":"string"}},"additionalProperties":false}"#, &["{}", r#"{"a":""}"#, r#"{"\u0061":""}"#], &[r#"{"a":1}"#, r#"{"\u0061":1}"#, r#"{"b":""}"#]),
    (r#"{"patternProperties":{"^x-":{"type":"integer"}},"additionalProperties":{"type":"string"}}"#, &[r#"{"x-a":1,"b":"c"}"#], &[r#"{"x-a":""}"#, r#"{"\u0078-a":""}"#, r#"{"b":1}"#]),
    (r#"{"propertyNames":{"maxLength":2}}"#, &[r#"{"ab":1}"#, r#"{"\u0061b":1}"#, r#"{"🦀🦀":1}"#], &[r#"{"abc":1}"#]),
    (r#"{"propertyNames":{"enum":["a"]}}"#, &[r#"{"a":1}"#, "{}"], &[r#"{"b":1}"#]),
    (r##"{"propertyNames":{"$ref":"#/$defs/n"},"$defs":{"n":{"pattern":"^a"}}}"##, &[r#"{"aa":1,"ab":2}"#], &[r#"{"aa":1,"b":2}"#]),
    (r#"{"dependentRequired":{"a":["b"]}}"#, &["{}", r#"{"a":1,"b":2}"#], &[r#"{"a":1}"#]),
    (r#"{"dependentSchemas":{"a":{"required":["b"]}}}"#, &["{}", r#"{"a":1,"b":2}"#], &[r#"{"a":1}"#]),
    (r#"{"allOf":[{"minimum":1},{"maximum":2}]}"#, &["1"], &["0", "3"]),
    (r#"{"anyOf":[{"type":"string"},{"minimum":2}]}"#, &["\"\"", "2"], &["1"]),
    (r#"{"oneOf":[{"multipleOf":2},{"multipleOf":3}]}"#, &["2", "3"], &["1", "6"]),
    (r#"{"not":{"type":"string"}}"#, &["1"], &["\"\""]),
    (r#"{"if":{"required":["a"]},"then":{"required":["b"]},"else":{"required":["c"]}}"#, &[r#"{"a":1,"b":1}"#, r#"{"c":1}"#], &["{}", r#"{"a":1}"#]),
    (r#"{"unevaluatedItems":false,"prefixItems":[true],"if":{"minItems":2},"then":{"prefixItems":[true,true]}}"#, &["[1]", "[1,2]"], &["[1,2,3]"]),
    (r#"{"unevaluatedProperties":false,"allOf":[{"properties":{"a":true}}]}"#, &["{}", r#"{"a":1}"#], &[r#"{"b":1}"#, r#"{"a":1,"b":{}}"#]),
    (r##"{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"null"}}}"##, &["null"], &["1"]),
    (r##"{"$ref":"#here","$defs":{"x":{"$anchor":"here","type":"null"}}}"##, &["null"], &["1"]),
    (r##"{"$dynamicRef":"#here","$defs":{"x":{"$dynamicAnchor":"here","type":"null"}}}"##, &["null"], &["1"]),
    (r##"{"properties":{"next":{"$ref":"#"}},"additionalProperties":false}"##, &[r#"{"next":{"next":{}}}"#], &[r#"{"next":{"next":{"x":1}}}"#]),
    (r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://example.com/x","type":"null"}"#, &["null"], &["1"]),
    (r##"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"$ref":"#/definitions/n"}],"additionalItems":false,"definitions":{"n":{"type":"null"}}}"##, &["[null]", "[]"], &["[1]", "[null,null]"]),
    (r#"{"type":"string","format":"email","contentEncoding":"base64","default":1,"x-mcp-header":"A"}"#, &["\"not an address\""], &["1"]),
];

#[test]
fn every_keyword_answers_as_the_specification_says() {
    for (schema, valid, invalid) in KEYWORDS {
        let compiled = Schema::compile(&raw(schema), Root::Any).unwrap();
        for instance in *valid {
            assert_eq!(compiled.check(instance.as_bytes()), Ok(()), "{schema} {instance}");
        }
        for instance in *invalid {
            assert!(compiled.check(instance.as_bytes()).is_err(), "{schema} {instance}");
        }
    }
}

#[test]
fn a_violation_says_where_and_what() {
    let schema = json!({
        "type": "object",
        "properties": {
            "message": {"type": "string", "maxLength": 3},
            "a": {"type": "integer"},
            "to": {"anyOf": [{"$ref": "#/$defs/address"}, {"type": "null"}]},
            "unit": {"enum": ["m", "s"]},
        },
        "required": ["message"],
        "additionalProperties": false,
        "propertyNames": {"maxLength": 8},
        "$defs": {"address": {"type": "object", "required": ["street/no"]}},
    });
    for (instance, expected) in [
        ("{}", "/message: is required"),
        ("[]", r#"(root): [] is not of type "object""#),
        (r#"{"message":"abcd"}"#, r#"/message: "abcd" is longer than 3 characters"#),
        (r#"{"message":"","a":1.5}"#, r#"/a: 1.5 is not of type "integer""#),
        (r#"{"message":"","to":{}}"#, "/to/street~1no: is required"),
        (r#"{"message":"","to":7}"#, "/to: 7 matches none of the alternatives"),
        (r#"{"message":"","unit":"x"}"#, r#"/unit: "x" is not one of "m" or "s""#),
        (r#"{"message":"","b":0,"c\n":0}"#, r#"(root): "b", "c\n" are not allowed here"#),
        (
            r#"{"a":"","message":1}"#,
            "/a: \"\" is not of type \"integer\"\n/message: 1 is not of type \"string\"",
        ),
        (r#"{"message":"","a":1,"\u0061":2}"#, r#"(root): the key "a" is there twice"#),
        (
            r#"{"message":"","to":{"x/y":[{"k":1,"k":1}]}}"#,
            r#"/to/x~1y/0: the key "k" is there twice"#,
        ),
        (
            r#"{"message":"","a":1e999}"#,
            "(root): is a number beyond the range of a 64-bit float (byte 18)",
        ),
        ("{", "(root): is not one whole JSON value (byte 1)"),
    ] {
        assert_eq!(wrong(&schema, instance), expected, "{instance}");
    }
    let long = wrong(&schema, r#"{"message":"","longer than 8":1}"#);
    assert!(
        long.contains(r#"(root): the key "longer than 8" is longer than 8 characters"#),
        "{long}"
    );
    assert_eq!(
        lax(&schema).check(b"\xff").unwrap_err().to_string(),
        "(root): is not UTF-8 (byte 0)"
    );
}

#[test]
fn the_text_of_violations_is_bounded() {
    let schema = json!({"items": {"type": "string"}});
    let many = format!("[{}]", vec!["1"; 500].join(","));
    let text = wrong(&schema, &many);
    assert_eq!(text.lines().count(), 9);
    assert!(text.ends_with("\nand 492 more"), "{text}");

    let huge = format!("[{}]", vec!["1"; 200_000].join(","));
    assert_eq!(wrong(&schema, &huge), r#"/0: 1 is not of type "string""#);

    let echo = format!(r#"[{{"{0}":"{0}"}}]"#, "é".repeat(100_000));
    let text = wrong(&schema, &echo);
    assert!(text.len() < 128 && text.contains('…'), "{text}");
    let text = wrong(&json!({"items": {"additionalProperties": {"type": "null"}}}), &echo);
    assert!(text.len() < 256 && text.contains('…'), "{text}");
    let text = wrong(&json!({"items": {"additionalProperties": false}}), &echo);
    assert!(text.len() < 256 && text.contains('…'), "{text}");
    let text = wrong(&json!({"items": {"propertyNames": {"maxLength": 1}}}), &echo);
    assert!(text.len() < 256 && text.contains('…'), "{text}");
    let text = wrong(&json!({"items": {"required": ["x"]}}), &echo);
    assert_eq!(text, "/0/x: is required");
}

#[test]
fn a_duplicate_key_is_refused_at_any_size_and_depth() {
    for count in [0, 20, 100] {
        let others: String = (0..count).map(|i| format!(r#""k{i}":{{}},"#)).collect();
        let twice = format!(r#"{{"a":[{{{others}"x":1,"y":2,"\u0078":3}}]}}"#);
        assert_eq!(wrong(&json!(true), &twice), r#"/a/0: the key "x" is there twice"#);
        let once = format!(r#"{{"a":[{{{others}"x":{{"y":1}},"y":2}}]}}"#);
        assert_eq!(lax(&json!(true)).check(once.as_bytes()), Ok(()));
    }
}

#[test]
fn a_schema_that_cannot_be_used_is_refused_with_a_place_and_a_reason() {
    for (schema, root, expected) in [
        ("{}", Root::Object, r##"at #: the root must have "type": "object""##),
        ("true", Root::Object, "the root must have"),
        (r#"{"type":["object","null"]}"#, Root::Object, "the root must have"),
        (
            r#"{"$schema":"http://json-schema.org/draft-04/schema#"}"#,
            Root::Any,
            "at #/$schema: dialect \"http://json-schema.org/draft-04/schema#\" is not supported; use",
        ),
        (r#"{"$schema":1}"#, Root::Any, "dialect 1 is not supported"),
        (r#"{"properties":{"a":{"type":"text"}}}"#, Root::Any, "at #/properties/a/type: "),
        (r#"{"properties":{"a":{"minLength":-1}}}"#, Root::Any, "at #/properties/a/minLength: -1"),
        (r#"{"items":{"pattern":"("}}"#, Root::Any, "at #/items/pattern: "),
        (r##"{"$ref":"#/$defs/none"}"##, Root::Any, "/$defs/none"),
        (r##"{"$ref":"#none"}"##, Root::Any, "none"),
        (
            r#"{"items":{"$ref":"https://example.com/x"}}"#,
            Root::Any,
            "at #/items: $ref leaves this schema, and nothing is fetched",
        ),
        (r#"{"type":"object","type":"array"}"#, Root::Any, r#"holds the key "type" twice"#),
        ("7", Root::Any, "at #: 7"),
    ] {
        let error = refused(schema, root);
        assert!(error.contains(expected), "{schema}: {error}");
    }
    let long = format!(r#"{{"description":"{}"}}"#, "a".repeat(SCHEMA_BYTES_MAX));
    assert!(refused(&long, Root::Any).contains("longer than 262144 bytes"));
    let deep = format!("{}true{}", r#"{"not":"#.repeat(101), "}".repeat(101));
    assert!(refused(&deep, Root::Any).contains("nested too deep"));
    assert!(refused(r#"{"pattern":"(\\p{L}{1000}){1000}"}"#, Root::Any).contains("at #/pattern"));
}

#[test]
fn the_schema_is_kept_byte_for_byte_and_shared() {
    let text = r#"{ "type":"object", "x-y" : 1.0 }"#;
    let schema = Schema::compile(&raw(text), Root::Object).unwrap();
    assert_eq!(schema.raw().get(), text);
    fn shared<T: Send + Sync + 'static>(_: &T) {}
    shared(&schema);
    let empty = Schema::empty_object();
    assert_eq!(empty.raw().get(), EMPTY_OBJECT);
    assert_eq!(empty.check(b"{}"), Ok(()));
    assert_eq!(
        empty.check(br#"{"a":1}"#).unwrap_err().to_string(),
        r#"(root): {"a":1} is not allowed here"#
    );
}

#[test]
fn hostile_schemas_and_instances_end_soon() {
    // Two ways down at every level: 2^100 paths without a memory.
    let twice = json!({"allOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}]});
    let tree = json!({
        "$ref": "#/$defs/n",
        "$defs": {"n": {"type": ["array", "null"], "items": twice}},
    });
    let either = json!({"$defs": {"n": {"type": "array", "items": {"anyOf": [
        {"$ref": "#/$defs/n"}, {"$ref": "#/$defs/n"}, {"const": null},
    ]}}}, "$ref": "#/$defs/n"});
    for (schema, leaf, valid) in
        [(&tree, "null", true), (&tree, "1", false), (&either, "null", true), (&either, "1", false)]
    {
        let instance = format!("{}{leaf}{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(lax(schema).check(instance.as_bytes()).is_ok(), valid, "{schema} {leaf}");
    }
    // A pattern that steps back for ever is refused, not run to its end.
    let text = format!("\"{}c\"", "a".repeat(64));
    let error = wrong(&json!({"pattern": r"^(?:(a)|\1)+[bd]$"}), &text);
    assert!(error.contains("backtracking"), "{error}");
}

#[test]
fn the_longest_chain_at_the_deepest_place_fits_a_small_stack() {
    let mut node = json!({"items": {"$ref": "#"}});
    for _ in 0..15 {
        node = json!({"allOf": [node]});
    }
    let schema = lax(&node);
    let instance = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let check = move || schema.check(instance.as_bytes());
    let thread = thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(check).unwrap();
    assert_eq!(thread.join().unwrap(), Ok(()));
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any_bool(),
        (-3i64..4).prop_map(Value::from),
        prop_oneof![Just(0.5), Just(-1.0), Just(1e20), Just(2.0)].prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "[ab\"\\\\\n\u{1f980}é]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("[ab\"\n]{0,1}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_bool() -> impl Strategy<Value = Value> {
    proptest::bool::ANY.prop_map(Value::from)
}

fn schemas() -> impl Strategy<Value = Value> {
    let types = ["null", "boolean", "integer", "number", "string", "array", "object"];
    let leaf = prop_oneof![
        proptest::sample::select(types.to_vec()).prop_map(|name| json!({"type": name})),
        (-2i64..3).prop_map(|limit| json!({"minimum": limit})),
        (-2i64..3).prop_map(|limit| json!({"exclusiveMaximum": limit})),
        (1u64..4).prop_map(|step| json!({"multipleOf": step})),
        (0u64..4).prop_map(|limit| json!({"maxLength": limit})),
        (0u64..4).prop_map(|limit| json!({"minItems": limit, "maxProperties": limit})),
        Just(json!({"uniqueItems": true})),
        Just(json!({"pattern": "^a|\n"})),
        Just(json!({"required": ["a", "\n"]})),
        Just(json!({"$ref": "#"})),
        values().prop_map(|value| json!({"const": value})),
        vec(values(), 1..3).prop_map(|list| json!({"enum": list})),
        any_bool(),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let pair = (inner.clone(), inner.clone());
        prop_oneof![
            pair.clone().prop_map(|(a, b)| json!({"allOf": [a, b]})),
            pair.clone().prop_map(|(a, b)| json!({"anyOf": [a, b]})),
            pair.clone().prop_map(|(a, b)| json!({"oneOf": [a, b]})),
            pair.clone().prop_map(|(a, b)| json!({"properties": {"a": a, "\"": b}})),
            pair.clone()
                .prop_map(|(a, b)| json!({"properties": {"a": a}, "additionalProperties": b})),
            pair.clone().prop_map(
                |(a, b)| json!({"patternProperties": {"a": a}, "unevaluatedProperties": b})
            ),
            pair.clone().prop_map(|(a, b)| json!({"prefixItems": [a], "items": b})),
            pair.clone().prop_map(|(a, b)| json!({"prefixItems": [a], "unevaluatedItems": b})),
            pair.prop_map(|(a, b)| json!({"if": a, "then": b, "else": false})),
            inner.clone().prop_map(|a| json!({"not": a})),
            inner.clone().prop_map(|a| json!({"contains": a, "maxContains": 2})),
            inner.clone().prop_map(|a| json!({"items": a})),
            inner.prop_map(|a| json!({"propertyNames": a})),
        ]
    })
}

/// The same text with every letter and quote of its strings escaped.
fn escape(json: &str) -> String {
    json.replace('a', "\\u0061").replace('é', "\\u00e9").replace('\u{1f980}', "\\ud83e\\udd80")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_text_and_the_tree_agree(schema in schemas(), instance in values()) {
        let schema = json!({"allOf": [schema]});
        let Ok(compiled) = Schema::compile(&raw(&schema.to_string()), Root::Any) else {
            return Err(TestCaseError::reject("beyond a bound"));
        };
        let tree: Validator = jsonschema::options().build(&schema).unwrap();
        let expected = tree.is_valid(&instance);
        let compact = instance.to_string();
        // "false" and "null" hold an `a` or an `e` that is not a part of a string.
        let escaped = escape(&compact).replace("f\\u0061lse", "false");
        let pretty = serde_json::to_string_pretty(&instance).unwrap();
        for text in [&compact, &pretty, &escaped] {
            let answer = compiled.check(text.as_bytes());
            prop_assert_eq!(answer.is_ok(), expected, "{} {}: {:?}", schema, text, answer);
            if let Err(violations) = answer {
                prop_assert!(violations.to_string().len() < 4096);
                let generic = "there is too much of it";
                prop_assert!(!violations.to_string().contains(generic), "{}", violations);
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..64), text in "[\\[\\]{}:,\"\\\\a1e. -]{0,32}") {
        let schema = lax(&json!({"minimum": 1, "maxLength": 1, "items": true, "required": ["a"], "uniqueItems": true}));
        let _ = (schema.check(&bytes), schema.check(text.as_bytes()));
        if serde_json::from_str::<Value>(&text).is_ok() {
            prop_assert!(Tape::index(&text).is_ok());
        }
    }
}

#[test]
fn the_representation_keeps_its_contract() {
    let text = conformance::document().to_string().replace("string", "str\\u0069ng");
    let (tape, steps) = (Tape::index(&text).unwrap(), Cell::new(u64::MAX));
    conformance::assert_conformance::<Text>(&TextNode::root(&text, tape.tokens(), &steps));
}
