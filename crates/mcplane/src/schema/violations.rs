//! What is wrong with an instance, in words for people and models.

use std::{
    cell::Cell,
    error::Error,
    fmt::{Display, Formatter, Result as FmtResult},
};

use jsonschema::{
    ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind},
};

use super::{
    node::{Text, TextNode},
    tape::{DEPTH_MAX, Flaw, Kind, Tape},
};

/// Most violations listed. A caller mends what it can see and calls again.
const LISTED_MAX: usize = 8;

/// Longest piece of an instance quoted back, in bytes.
const QUOTED_BYTES_MAX: usize = 64;

/// Longest pointer to a violation, in bytes; its names are the caller's.
const POINTER_BYTES_MAX: usize = 128;

/// Longest text of one violation, in bytes; a schema's `enum` may be longer.
const TEXT_BYTES_MAX: usize = 256;

/// Work spent on a list, in steps: enough for some thousand violations. Each is built in full
/// before the first is shown, so that a large invalid instance would otherwise cost its size many
/// times over.
const LISTING_STEPS_MAX: u64 = 50_000;

/// Why an instance does not match its schema: at most eight violations, each a JSON pointer and
/// what was expected there. The text is bounded and may be shown to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations {
    listed: Vec<String>,
    /// How many were found but are not listed.
    more: usize,
}

impl Violations {
    pub(super) fn flaw(flaw: Flaw) -> Self {
        let what = match flaw.what {
            "is nested too deep" => format!("is nested deeper than {DEPTH_MAX} levels"),
            what => what.to_owned(),
        };
        Self::one("", &format!("{what} (byte {})", flaw.at))
    }

    pub(super) fn duplicate(root: &TextNode<'_>, object: &TextNode<'_>, key: &str) -> Self {
        let pointer = pointer_to(root, object).unwrap_or_default();
        Self::one(&pointer, &format!("the key {} is there twice", quoted(&format!("{key:?}"))))
    }

    pub(super) fn too_complex() -> Self {
        Self::one("", "takes too long to check against its schema; send a smaller value")
    }

    /// Lists what makes an indexed instance, already known to be invalid, so.
    pub(super) fn list(validator: &Validator<Text>, text: &str, tape: &Tape) -> Self {
        let steps = Cell::new(LISTING_STEPS_MAX);
        let root = TextNode::root(text, tape.tokens(), &steps);
        let mut errors: Vec<_> = validator.iter_errors(root).collect();
        if steps.get() == 0 {
            steps.set(LISTING_STEPS_MAX);
            errors = validator.validate(root).err().into_iter().collect();
        }
        if steps.get() == 0 || errors.is_empty() {
            return Self::one(
                "",
                "does not match its schema; there is too much of it to say where",
            );
        }
        let mut found: Vec<_> = errors.iter().flat_map(|error| plainest(error)).collect();
        let more = found.len().saturating_sub(LISTED_MAX);
        found.truncate(LISTED_MAX);
        Self { listed: found.into_iter().map(|error| describe(error, &root)).collect(), more }
    }

    fn one(pointer: &str, what: &str) -> Self {
        Self { listed: vec![line(pointer, what)], more: 0 }
    }
}

impl Display for Violations {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        f.write_str(&self.listed.join("\n"))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl Error for Violations {}

/// The violations that say most: those of the only alternative of an `anyOf` or `oneOf` that has
/// the right type, instead of "no alternative matches". An optional value is such a choice, between
/// something and null.
fn plainest<'e, 'i>(error: &'e ValidationError<'i>) -> Vec<&'e ValidationError<'i>>
where
    'static: 'i,
{
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) =
        error.kind()
    else {
        return vec![error];
    };
    let right_type = |branch: &&Vec<ValidationError<'static>>| {
        !branch.iter().any(|inner| {
            matches!(inner.kind(), ValidationErrorKind::Type { .. })
                && inner.instance_path() == error.instance_path()
        })
    };
    let mut candidates = context.iter().filter(right_type);
    match (candidates.next(), candidates.next()) {
        (Some(only), None) if !only.is_empty() => only.iter().flat_map(|e| plainest(e)).collect(),
        _ => vec![error],
    }
}

fn describe(error: &ValidationError<'_>, root: &TextNode<'_>) -> String {
    let pointer = error.instance_path().as_str();
    let shown =
        || find(root, pointer).map_or_else(|| "the value".to_owned(), |node| quoted(node.json()));
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = escaped(property.as_str().unwrap_or_default());
            line(&format!("{pointer}/{name}"), "is required")
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let names: Vec<_> =
                unexpected.iter().map(|name| quoted(&format!("{name:?}"))).collect();
            let (verb, names) = (if names.len() == 1 { "is" } else { "are" }, names.join(", "));
            line(pointer, &format!("{names} {verb} not allowed here"))
        }
        ValidationErrorKind::Type { kind: TypeKind::Single(expected) } => {
            line(pointer, &format!("{} is not of type \"{expected}\"", shown()))
        }
        ValidationErrorKind::AnyOf { .. } | ValidationErrorKind::OneOfNotValid { .. } => {
            line(pointer, &format!("{} matches none of the alternatives", shown()))
        }
        ValidationErrorKind::OneOfMultipleValid { .. } => {
            line(pointer, &format!("{} matches more than one of the alternatives", shown()))
        }
        ValidationErrorKind::FalseSchema => {
            line(pointer, &format!("{} is not allowed here", shown()))
        }
        ValidationErrorKind::PropertyNames { error } => {
            let name = quoted(&error.instance().to_string());
            line(pointer, &format!("the key {}", error.masked_with(name)))
        }
        _ => line(pointer, &error.masked_with(shown()).to_string()),
    }
}

fn line(pointer: &str, what: &str) -> String {
    let pointer =
        if pointer.is_empty() { "(root)".to_owned() } else { cut(pointer, POINTER_BYTES_MAX) };
    format!("{pointer}: {}", cut(what, TEXT_BYTES_MAX))
}

fn quoted(json: &str) -> String {
    cut(json, QUOTED_BYTES_MAX)
}

/// At most `bytes_max` bytes of `text`, on one line: a name may hold anything, line breaks and
/// terminal codes included.
fn cut(text: &str, bytes_max: usize) -> String {
    let mut short = String::with_capacity(text.len().min(bytes_max) + '…'.len_utf8());
    for char in text.chars() {
        let mark = short.len();
        if char.is_control() {
            short.extend(char.escape_default())
        } else {
            short.push(char)
        }
        if short.len() > bytes_max {
            short.truncate(mark);
            short.push('…');
            break;
        }
    }
    short
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The value a JSON pointer names.
fn find<'a>(root: &TextNode<'a>, pointer: &str) -> Option<TextNode<'a>> {
    pointer.split('/').skip(1).try_fold(*root, |node, step| match node.kind() {
        Kind::Array => node.elements().nth(step.parse().ok()?),
        _ => node.members().find_map(|(name, value)| (escaped(&name) == step).then_some(value)),
    })
}

/// The JSON pointer that names `wanted`.
fn pointer_to(node: &TextNode<'_>, wanted: &TextNode<'_>) -> Option<String> {
    if node.is(wanted) {
        return Some(String::new());
    }
    let inside =
        |step: String, child: TextNode<'_>| Some(format!("/{step}{}", pointer_to(&child, wanted)?));
    let mut elements = node.elements().enumerate();
    let mut members = node.members();
    elements
        .find_map(|(index, child)| inside(index.to_string(), child))
        .or_else(|| members.find_map(|(name, child)| inside(escaped(&name), child)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_bounded_whole_and_on_one_line() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "longe…");
        assert_eq!(cut("ééé", 3), "é…");
        assert_eq!(cut("a\n\u{1b}[31m", 64), "a\\n\\u{1b}[31m");
    }

    #[test]
    fn pointers_lead_there_and_back() {
        let text = r#"{"a/b":[0,{"~":{"x":1}}],"\u0063":2}"#;
        let (tape, steps) = (Tape::index(text).unwrap(), Cell::new(1));
        let root = TextNode::root(text, tape.tokens(), &steps);
        for (pointer, json) in [("", text), ("/a~1b/1/~0", r#"{"x":1}"#), ("/c", "2")] {
            let node = find(&root, pointer).unwrap();
            assert_eq!(node.json(), json);
            assert_eq!(pointer_to(&root, &node).unwrap(), pointer);
        }
        assert!(find(&root, "/a~1b/2").is_none());
    }
}
