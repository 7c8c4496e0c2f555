//! The validator's view of an indexed text: borrowed slices, no tree.

use std::{borrow::Cow, cell::Cell};

use jsonschema::{
    JsonType,
    json::{Array, Json, Node, NodeIdentity, Object, cmp, unique},
};
use serde_json::{Number, Value};

use super::tape::{Kind, Token};

/// Longest container, in bytes, that is built as a value for the text of a violation.
const VALUE_BYTES_MAX: usize = 1024;

/// Most strings compared pair by pair for `uniqueItems`; beyond it, hashing is cheaper.
const PAIRWISE_MAX: usize = 16;

/// Most keys compared pair by pair to find a duplicate; beyond it, sorting is cheaper.
const PAIRWISE_KEYS_MAX: usize = 32;

/// The representation: JSON text with its index.
pub(super) struct Text;

/// One value: its subtree of tokens, and the text they point into.
#[derive(Clone, Copy)]
pub(super) struct TextNode<'a> {
    text: &'a str,
    tokens: &'a [Token],
    /// What the check may still spend; at zero every container looks empty, so that it ends soon.
    steps: &'a Cell<u64>,
    /// Whether the token outlives the whole check, so that its address names the value.
    lasting: bool,
}

impl<'a> TextNode<'a> {
    pub(super) fn root(text: &'a str, tokens: &'a [Token], steps: &'a Cell<u64>) -> Self {
        Self { text, tokens, steps, lasting: true }
    }

    /// The value as it is written; of a string, without its quotes.
    pub(super) fn raw(&self) -> &'a str {
        let token = self.token();
        self.text.get(token.start as usize..token.end as usize).unwrap_or_default()
    }

    /// The JSON of this value.
    pub(super) fn json(&self) -> &'a str {
        match self.token() {
            Token { kind: Kind::Plain | Kind::Escaped, start, end, .. } => {
                self.text.get((start as usize).saturating_sub(1)..=end as usize).unwrap_or_default()
            }
            _ => self.raw(),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.token().kind
    }

    pub(super) fn elements(&self) -> Elements<'a> {
        let inside = if self.kind() == Kind::Array { self.inside() } else { &[] };
        Elements(Self { tokens: inside, ..*self })
    }

    pub(super) fn members(&self) -> Members<'a> {
        let inside = if self.kind() == Kind::Object { self.inside() } else { &[] };
        Members(Self { tokens: inside, ..*self })
    }

    /// The first key that an object of this subtree holds twice, with the object.
    ///
    /// Parsers disagree about duplicates: the last may win, the first may win, or the text is
    /// refused. Were the validator to pick one, a handler could act on the other, unchecked.
    pub(super) fn duplicate(&self) -> Option<(Self, Cow<'a, str>)> {
        self.tokens.iter().enumerate().find_map(|(index, token)| {
            if token.kind != Kind::Object || token.count < 2 {
                return None;
            }
            let object = Self { tokens: self.tokens.get(index..)?, ..*self }.trimmed();
            Some((object, object.twice()?))
        })
    }

    /// Whether both are the same value of the same check.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.tokens.as_ptr() == other.tokens.as_ptr()
    }

    /// The string this is, decoded.
    pub(super) fn string(&self) -> Option<Cow<'a, str>> {
        match self.kind() {
            Kind::Plain => Some(Cow::Borrowed(self.raw())),
            Kind::Escaped => {
                Some(Cow::Owned(serde_json::from_str(self.json()).unwrap_or_default()))
            }
            _ => None,
        }
    }

    fn token(&self) -> Token {
        self.tokens.first().copied().unwrap_or_default()
    }

    fn inside(&self) -> &'a [Token] {
        self.tokens.get(1..).unwrap_or_default()
    }

    /// This value alone, when more tokens follow it.
    fn trimmed(self) -> Self {
        let size = self.token().size as usize;
        Self { tokens: self.tokens.get(..size).unwrap_or_default(), ..self }
    }

    /// Splits the first value off a run of siblings.
    fn split(&mut self) -> Option<Self> {
        let size = self.tokens.first()?.size.max(1) as usize;
        let (first, rest) = self.tokens.split_at_checked(size)?;
        self.tokens = rest;
        Some(Self { tokens: first, ..*self })
    }

    fn twice(&self) -> Option<Cow<'a, str>> {
        if self.token().count as usize > PAIRWISE_KEYS_MAX {
            let mut keys: Vec<_> = self.members().map(|(key, _)| key).collect();
            keys.sort_unstable();
            return keys.windows(2).find(|pair| pair.first() == pair.last())?.first().cloned();
        }
        let mut rest = self.members();
        while let Some((key, _)) = rest.next() {
            if Members(rest.0).any(|(other, _)| other == key) {
                return Some(key);
            }
        }
        None
    }

    fn value(&self) -> Value {
        serde_json::from_str(self.json()).unwrap_or_default()
    }

    /// Pays for `cost` units of work; `false` once nothing is left.
    fn spend(&self, cost: u64) -> bool {
        let left = self.steps.get().saturating_sub(cost);
        self.steps.set(left);
        left > 0
    }

    fn container(&self, kind: Kind) -> Option<Self> {
        (self.kind() == kind)
            .then(|| if self.spend(1) { *self } else { Self { tokens: &[], ..*self } })
    }
}

impl Json for Text {
    type Node<'a> = TextNode<'a>;
    type PreparedKey = String;
    type StringBuffer = ();

    /// A lookup is a scan of the keys, so one pass over the members always replaces lookups.
    const KEYS_PER_LOOKUP: usize = 1 << 16;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>((): &mut (), string: &str, f: impl FnOnce(TextNode<'_>) -> T) -> T {
        let end = u32::try_from(string.len()).unwrap_or(u32::MAX);
        let token = [Token { end, size: 1, kind: Kind::Plain, ..Token::default() }];
        let steps = Cell::new(u64::MAX);
        f(TextNode { text: string, tokens: &token, steps: &steps, lasting: false })
    }
}

impl<'a> Node<'a, Text> for TextNode<'a> {
    type Object = TextObject<'a>;
    type Array = TextArray<'a>;
    // What `serde_json` reads is what the handler gets, so it is also what is checked.
    type Number = Number;

    fn as_object(&self) -> Option<TextObject<'a>> {
        self.container(Kind::Object).map(TextObject)
    }

    fn as_array(&self) -> Option<TextArray<'a>> {
        self.container(Kind::Array).map(TextArray)
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        self.string()
    }

    fn as_number(&self) -> Option<Number> {
        if self.kind() == Kind::Number { serde_json::from_str(self.raw()).ok() } else { None }
    }

    fn as_boolean(&self) -> Option<bool> {
        match self.kind() {
            Kind::True => Some(true),
            Kind::False => Some(false),
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    fn is_number(&self) -> bool {
        self.kind() == Kind::Number
    }

    fn json_type(&self) -> JsonType {
        match self.kind() {
            Kind::Null => JsonType::Null,
            Kind::True | Kind::False => JsonType::Boolean,
            Kind::Number => JsonType::Number,
            Kind::Plain | Kind::Escaped => JsonType::String,
            Kind::Array => JsonType::Array,
            Kind::Object => JsonType::Object,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        match (self.kind(), expected) {
            (Kind::Null, Value::Null) => true,
            (Kind::True, Value::Bool(flag)) => *flag,
            (Kind::False, Value::Bool(flag)) => !flag,
            (Kind::Plain, Value::String(string)) => self.raw() == string,
            (Kind::Escaped, Value::String(string)) => self.string().as_deref() == Some(string),
            (Kind::Number, Value::Number(_)) => cmp::equal(&self.value(), expected),
            (Kind::Array, Value::Array(_)) | (Kind::Object, Value::Object(_)) => {
                self.spend(u64::from(self.token().size)) && cmp::equal(&self.value(), expected)
            }
            _ => false,
        }
    }

    /// Only the text of a violation is made from this, so that a large container reads `null` and a
    /// long string is cut; comparisons above have their own, complete ways.
    fn to_value(&self) -> Cow<'a, Value> {
        let raw = self.raw();
        Cow::Owned(match self.string() {
            _ if !self.spend(8) => Value::Null,
            Some(string) if string.len() > VALUE_BYTES_MAX => {
                let end = string.floor_char_boundary(VALUE_BYTES_MAX);
                Value::from(string.get(..end).unwrap_or_default())
            }
            Some(string) => Value::from(string),
            None if raw.len() <= VALUE_BYTES_MAX => self.value(),
            None => Value::Null,
        })
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(NodeIdentity::new(self.tokens.as_ptr().addr()))
    }

    /// The tokens stay where they are for the whole check, so scalars may be remembered as well as
    /// containers: a schema that visits one value over and over is then cheap. The name that
    /// `propertyNames` checks is gone after its turn and may not.
    fn container_identity(&self) -> Option<NodeIdentity> {
        if self.lasting { self.identity() } else { None }
    }
}

/// An object of the text.
pub(super) struct TextObject<'a>(TextNode<'a>);

impl<'a> Object<'a, Text> for TextObject<'a> {
    type Node = TextNode<'a>;
    type MemberName = Cow<'a, str>;
    type MembersIter = Members<'a>;

    fn len(&self) -> usize {
        self.0.token().count as usize
    }

    fn get(&self, key: &String) -> Option<TextNode<'a>> {
        if !self.0.spend(u64::from(self.0.token().count)) {
            return None;
        }
        self.0.members().find_map(|(name, value)| (name == key.as_str()).then_some(value))
    }

    fn members(&self) -> Members<'a> {
        self.0.members()
    }
}

/// The members of an object, in their order.
pub(super) struct Members<'a>(TextNode<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, TextNode<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.0.split()?.string()?;
        Some((key, self.0.split()?))
    }
}

/// An array of the text.
pub(super) struct TextArray<'a>(TextNode<'a>);

impl<'a> Array<'a, Text> for TextArray<'a> {
    type Node = TextNode<'a>;
    type ElementsIter = Elements<'a>;

    fn len(&self) -> usize {
        self.0.token().count as usize
    }

    fn elements(&self) -> Elements<'a> {
        self.0.elements()
    }

    fn is_unique(&self) -> bool {
        if self.len() <= PAIRWISE_MAX && self.0.elements().all(|item| item.kind() == Kind::Plain) {
            let mut rest = self.0.elements();
            while let Some(item) = rest.next() {
                if Elements(rest.0).any(|other| other.raw() == item.raw()) {
                    return false;
                }
            }
            return true;
        }
        if !self.0.spend(u64::from(self.0.token().size)) {
            return false;
        }
        let values: Vec<Value> = self.0.elements().map(|item| item.value()).collect();
        unique::is_unique(&values)
    }
}

/// The elements of an array, in their order.
pub(super) struct Elements<'a>(TextNode<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = TextNode<'a>;

    fn next(&mut self) -> Option<TextNode<'a>> {
        self.0.split()
    }
}
