//! What a schema may cost, decided before it is compiled.
//!
//! A schema can come from a peer, and a short one can be made to cost any amount of time: two
//! references to the next definition, in a chain of sixty, are visited 2^60 times.

use std::{collections::HashMap, ptr::from_ref};

use serde_json::{Map, Value};

use super::SchemaError;

/// Most subschemas in one schema. The largest published tool schemas hold several hundred.
const SUBSCHEMAS_MAX: usize = 4096;

/// Longest regular expression, in bytes: long enough for a date-time or a URI written out.
const PATTERN_BYTES_MAX: usize = 1024;

/// Most regular expressions. Each compiles to at most `PATTERN_COMPILED_BYTES_MAX`.
const PATTERNS_MAX: usize = 128;

/// Most subschemas once every reference is replaced by its target: what one visit may cost.
const EXPANDED_MAX: u64 = 100_000;

/// Longest chain of subschemas through references and containers; the validator recurses along it.
const CHAIN_MAX: usize = 256;

/// Longest chain that stays at one place of the instance (`$ref`, `allOf`, `if` …). A recursive
/// schema walks it at every level of the instance, on the stack.
const IN_PLACE_MAX: usize = 16;

const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// How a keyword holds subschemas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    One,
    List,
    Named,
}

/// Every keyword with subschemas, of all supported dialects: whether it applies them at all, and
/// whether to the same place of the instance.
const APPLICATORS: [(&str, Held, Applies); 23] = {
    use {Applies::*, Held::*};
    [
        ("$defs", Named, Never),
        ("definitions", Named, Never),
        ("contentSchema", One, Never),
        ("allOf", List, Here),
        ("anyOf", List, Here),
        ("oneOf", List, Here),
        ("not", One, Here),
        ("if", One, Here),
        ("then", One, Here),
        ("else", One, Here),
        ("dependentSchemas", Named, Here),
        ("dependencies", Named, Here),
        ("properties", Named, Below),
        ("patternProperties", Named, Below),
        ("additionalProperties", One, Below),
        ("propertyNames", One, Below),
        ("unevaluatedProperties", One, Below),
        ("prefixItems", List, Below),
        ("items", One, Below),
        ("items", List, Below),
        ("additionalItems", One, Below),
        ("unevaluatedItems", One, Below),
        ("contains", One, Below),
    ]
};

/// Where a keyword applies its subschemas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Applies {
    Never,
    Here,
    Below,
}

/// Checks that compiling `schema`, and validating with it, stays within the bounds above.
pub(super) fn survey(schema: &Value) -> Result<(), SchemaError> {
    let mut survey = Survey { root: schema, anchors: HashMap::new(), subschemas: 0, patterns: 0 };
    survey.walk(schema, "")?;
    Scale { survey: &survey, known: HashMap::new() }.weigh(schema, 0).map(drop)
}

struct Survey<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    subschemas: usize,
    patterns: usize,
}

impl<'a> Survey<'a> {
    fn walk(&mut self, schema: &'a Value, at: &str) -> Result<(), SchemaError> {
        self.subschemas += 1;
        if self.subschemas > SUBSCHEMAS_MAX {
            return Err(SchemaError::new(
                at,
                format!("there are more than {SUBSCHEMAS_MAX} subschemas"),
            ));
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        self.local(keywords, at)?;
        if let Some(pattern) = keywords.get("pattern").and_then(Value::as_str) {
            self.pattern(pattern, at)?;
        }
        if let Some(Value::Object(patterns)) = keywords.get("patternProperties") {
            patterns.keys().try_for_each(|pattern| self.pattern(pattern, at))?;
        }
        for name in ["$anchor", "$dynamicAnchor"] {
            if let Some(anchor) = keywords.get(name).and_then(Value::as_str) {
                self.anchors.insert(anchor, schema);
            }
        }
        children(keywords)
            .into_iter()
            .try_for_each(|child| self.walk(child.schema, &format!("{at}/{}", child.location())))
    }

    /// Nothing is fetched, so every reference must stay inside; one dialect and one base hold for
    /// the whole schema, so that a reference means what it says.
    fn local(&self, keywords: &Map<String, Value>, at: &str) -> Result<(), SchemaError> {
        for name in REFERENCES {
            if let Some(target) = keywords.get(name).and_then(Value::as_str)
                && !target.starts_with('#')
            {
                let reason = format!(
                    "{name} leaves this schema, and nothing is fetched: {target:?}; \
                     copy the target into $defs and refer to it as \"#/$defs/name\""
                );
                return Err(SchemaError::new(at, reason));
            }
        }
        for name in ["$id", "$schema"] {
            if !at.is_empty() && keywords.get(name).is_some_and(Value::is_string) {
                return Err(SchemaError::new(at, format!("{name} is supported at the root only")));
            }
        }
        Ok(())
    }

    fn pattern(&mut self, pattern: &str, at: &str) -> Result<(), SchemaError> {
        self.patterns += 1;
        let reason = if pattern.len() > PATTERN_BYTES_MAX {
            format!("a pattern is longer than {PATTERN_BYTES_MAX} bytes")
        } else if self.patterns > PATTERNS_MAX {
            format!("there are more than {PATTERNS_MAX} patterns")
        } else {
            return Ok(());
        };
        Err(SchemaError::new(at, reason))
    }

    /// The target of a local reference. An unknown one is reported when the schema is compiled.
    fn target(&self, reference: &str) -> Option<&'a Value> {
        let fragment = percent_decoded(reference.strip_prefix('#')?);
        if fragment.is_empty() || fragment.starts_with('/') {
            self.root.pointer(&fragment)
        } else {
            self.anchors.get(fragment.as_str()).copied()
        }
    }
}

/// What one subschema costs, its references followed.
#[derive(Clone, Copy, Default)]
struct Cost {
    expanded: u64,
    /// Longest chain at one place of the instance.
    in_place: usize,
}

struct Scale<'s, 'a> {
    survey: &'s Survey<'a>,
    /// By address: the cost of what was weighed. Zero while it is being weighed, so that a
    /// recursive reference costs nothing more: the instance's depth bounds it.
    known: HashMap<*const Value, Cost>,
}

impl<'a> Scale<'_, 'a> {
    fn weigh(&mut self, schema: &'a Value, chain: usize) -> Result<Cost, SchemaError> {
        if let Some(cost) = self.known.get(&from_ref(schema)) {
            return Ok(*cost);
        }
        if chain > CHAIN_MAX {
            return Err(SchemaError::new(
                "",
                format!("references chain more than {CHAIN_MAX} subschemas"),
            ));
        }
        self.known.insert(from_ref(schema), Cost::default());
        let mut cost = Cost { expanded: 1, in_place: 0 };
        if let Value::Object(keywords) = schema {
            for (next, applies) in self.applied(keywords) {
                let child = self.weigh(next, chain + 1)?;
                cost.expanded = cost.expanded.saturating_add(child.expanded);
                if applies == Applies::Here {
                    cost.in_place = cost.in_place.max(child.in_place + 1);
                }
            }
        }
        if cost.expanded > EXPANDED_MAX {
            let reason = format!("references expand to more than {EXPANDED_MAX} subschemas");
            return Err(SchemaError::new("", reason));
        }
        if cost.in_place > IN_PLACE_MAX {
            let reason = format!(
                "more than {IN_PLACE_MAX} of $ref, allOf, anyOf, oneOf, not and if are nested \
                 around one value"
            );
            return Err(SchemaError::new("", reason));
        }
        self.known.insert(from_ref(schema), cost);
        Ok(cost)
    }

    fn applied(&self, keywords: &'a Map<String, Value>) -> Vec<(&'a Value, Applies)> {
        let targets = REFERENCES
            .iter()
            .filter_map(|name| self.survey.target(keywords.get(*name)?.as_str()?))
            .map(|target| (target, Applies::Here));
        let held = children(keywords).into_iter().map(|child| (child.schema, child.applies));
        targets.chain(held).filter(|(_, applies)| *applies != Applies::Never).collect()
    }
}

struct Child<'a> {
    keyword: &'static str,
    name: Option<String>,
    schema: &'a Value,
    applies: Applies,
}

impl Child<'_> {
    fn location(&self) -> String {
        match &self.name {
            Some(name) => {
                format!("{}/{}", self.keyword, name.replace('~', "~0").replace('/', "~1"))
            }
            None => self.keyword.to_owned(),
        }
    }
}

fn children(keywords: &Map<String, Value>) -> Vec<Child<'_>> {
    let mut found = Vec::new();
    for (keyword, held, applies) in APPLICATORS {
        let mut push = |name, schema| found.push(Child { keyword, name, schema, applies });
        match (keywords.get(keyword), held) {
            (Some(schema @ (Value::Object(_) | Value::Bool(_))), Held::One) => push(None, schema),
            (Some(Value::Array(list)), Held::List) => {
                list.iter().enumerate().for_each(|(i, schema)| push(Some(i.to_string()), schema));
            }
            (Some(Value::Object(map)), Held::Named) => {
                map.iter().for_each(|(name, schema)| push(Some(name.clone()), schema));
            }
            _ => {}
        }
    }
    found
}

fn percent_decoded(fragment: &str) -> String {
    let mut decoded = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).filter(|_| first == b'%').and_then(|hex| str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                decoded.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reason(schema: &Value) -> String {
        survey(schema).unwrap_err().to_string()
    }

    #[test]
    fn counts_and_lengths_are_bounded() {
        let many: Map<_, _> = (0..SUBSCHEMAS_MAX).map(|i| (i.to_string(), json!({}))).collect();
        assert!(reason(&json!({"properties": many})).contains("more than 4096 subschemas"));
        let long = "a".repeat(PATTERN_BYTES_MAX + 1);
        let error = reason(&json!({"properties": {"a/b": {"pattern": long}}}));
        assert!(error.contains("/properties/a~1b: a pattern is longer than 1024 bytes"), "{error}");
        assert!(reason(&json!({"patternProperties": {long: true}})).contains("longer than"));
        let patterns = vec![json!({"pattern": "a"}); PATTERNS_MAX + 1];
        assert!(reason(&json!({"prefixItems": patterns})).contains("more than 128 patterns"));
    }

    #[test]
    fn references_stay_inside() {
        for target in ["https://example.com/s", "file:///etc/passwd", "other.json#/a", "/a", ""] {
            let error = reason(&json!({"items": {"anyOf": [{"$ref": target}]}}));
            assert!(error.contains("/items/anyOf/0: $ref leaves this schema"), "{error}");
        }
        assert!(reason(&json!({"not": {"$dynamicRef": "x#y"}})).contains("$dynamicRef leaves"));
        assert!(
            reason(&json!({"not": {"$id": "http://x"}})).contains("$id is supported at the root")
        );
        let data = json!({"const": {"$ref": "http://x"}, "properties": {"$ref": {}, "$id": {}}});
        assert!(survey(&data).is_ok(), "names and data are not keywords");
    }

    #[test]
    fn doubling_references_are_refused() {
        let link = |i: usize| {
            let next = json!({"$ref": format!("#/%24defs/d{}", i + 1)});
            json!({"properties": {"a": next, "b": next}})
        };
        let mut defs: Map<_, _> = (0..20).map(|i| (format!("d{i}"), link(i))).collect();
        defs.insert("d20".into(), json!(true));
        let bomb = json!({"$ref": "#/$defs/d0", "$defs": defs});
        assert!(reason(&bomb).contains("expand to more than 100000"));
    }

    #[test]
    fn long_chains_are_refused_and_recursion_is_not() {
        let chain = |length: usize, keyword: &str| {
            let link = |i: usize| {
                let next = json!({"$ref": format!("#d{}", i + 1)});
                json!({"$anchor": format!("d{i}"), keyword: next})
            };
            let mut defs: Map<_, _> = (0..length).map(|i| (format!("d{i}"), link(i))).collect();
            defs.insert("end".into(), json!({"$anchor": format!("d{length}")}));
            json!({"$ref": "#d0", "$defs": defs})
        };
        assert!(survey(&chain(7, "not")).is_ok());
        assert!(reason(&chain(8, "not")).contains("around one value"));
        assert!(survey(&chain(100, "items")).is_ok());
        assert!(reason(&chain(130, "items")).contains("chain more than 256"));
        let node = json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}});
        assert!(survey(&node).is_ok());
    }
}
