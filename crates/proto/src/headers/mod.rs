//! The mirror of a request in HTTP headers (2026-07-28, SEP-2243; transports §Streamable HTTP):
//! `MCP-Protocol-Version`, `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*`. Pure functions over text.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::error::{Code, ErrorObject, shorten};
use crate::method::Method;
use crate::types::json::{Text, member};

/// The revision, equal to the envelope's. Lower case, as HTTP/2 and header maps want it.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The method, equal to the body's.
pub const METHOD: &str = "mcp-method";
/// What the request names: a tool, a prompt, a resource, a task.
pub const NAME: &str = "mcp-name";
/// Begins the name of every mirrored argument.
pub const PARAM_PREFIX: &str = "mcp-param-";
/// The session of the legacy transport; ignored and never sent in 2026-07-28.
pub const SESSION_ID: &str = "mcp-session-id";
/// Where to resume an event stream of the legacy transport.
pub const LAST_EVENT_ID: &str = "last-event-id";
/// The keyword of a property's schema that asks for a mirror.
pub const ANNOTATION: &str = "x-mcp-header";

/// Most mirrored arguments of one tool: common HTTP servers refuse about 100 headers.
pub const PARAM_HEADERS_MAX: usize = 64;

/// Integers beyond ±(2^53 − 1) cannot be mirrored.
const SAFE_INTEGER_MAX: i64 = (1 << 53) - 1;

const ENCODED_PREFIX: &str = "=?base64?";
const ENCODED_SUFFIX: &str = "?=";

/// The member of `params` that `Mcp-Name` mirrors; `None` for a method without one.
#[must_use]
pub const fn name_member(method: Method) -> Option<&'static str> {
    match method {
        Method::ToolsCall | Method::PromptsGet => Some("name"),
        Method::ResourcesRead => Some("uri"),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => Some("taskId"),
        _ => None,
    }
}

/// The text of a header value. What plain ASCII cannot carry unchanged becomes
/// `=?base64?…?=`: other characters, control characters, white space at the ends, and text that
/// looks encoded already.
#[must_use]
pub fn encode(text: &str) -> Cow<'_, str> {
    let plain = text.bytes().all(is_visible)
        && text.trim_matches([' ', '\t']).len() == text.len()
        && !(text.starts_with(ENCODED_PREFIX) && text.ends_with(ENCODED_SUFFIX));
    if plain {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{ENCODED_PREFIX}{}{ENCODED_SUFFIX}", STANDARD.encode(text)))
}

/// The text that a header value stands for, without the white space around it.
///
/// # Errors
/// Characters that a header must not have, invalid base64, or bytes that are not UTF-8.
pub fn decode(value: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    let value = trim(value);
    if !value.iter().copied().all(is_visible) {
        return Err(Malformed::Characters);
    }
    let text = std::str::from_utf8(value).map_err(|_| Malformed::Characters)?;
    let encoded = text.strip_prefix(ENCODED_PREFIX).and_then(|t| t.strip_suffix(ENCODED_SUFFIX));
    let Some(encoded) = encoded else { return Ok(Cow::Borrowed(text)) };
    let bytes = STANDARD.decode(encoded).map_err(|_| Malformed::Base64)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Malformed::Utf8)
}

/// Why a header value stands for no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Not visible ASCII, space or tab.
    #[error("has characters that a header must not have")]
    Characters,
    /// Marked as base64, but is not.
    #[error("is marked as base64 but is not")]
    Base64,
    /// Base64 of bytes that are not UTF-8.
    #[error("is base64 of bytes that are not UTF-8")]
    Utf8,
}

/// One argument of a tool that is mirrored as `Mcp-Param-{name}`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParamHeader {
    /// The part of the header's name after `Mcp-Param-`, as the schema spells it.
    pub name: String,
    /// The keys that lead to the argument.
    pub path: Vec<String>,
}

impl ParamHeader {
    /// The argument's JSON text; `None` when it is absent or null, which means no header.
    fn value<'a>(&self, arguments: &'a str) -> Option<&'a str> {
        let mut json = arguments;
        for key in &self.path {
            json = member(json, key)?.get();
        }
        (json != "null").then_some(json)
    }

    fn label(&self) -> String {
        format!("Mcp-Param-{}", self.name)
    }
}

/// The arguments that a tool's input schema wants mirrored.
///
/// # Errors
/// Any misplaced or malformed `x-mcp-header`. A client on HTTP must then leave the tool out of its
/// list and should log why; other tools are not concerned.
pub fn param_headers(input_schema: &str) -> Result<Vec<ParamHeader>, AnnotationError> {
    // An escaped spelling is possible, and rare enough to be parsed.
    if !input_schema.contains(ANNOTATION) && !input_schema.contains("\\u") {
        return Ok(Vec::new());
    }
    let schema: Value = serde_json::from_str(input_schema)
        .map_err(|error| AnnotationError::new("#", format!("is not JSON: {error}")))?;
    let mut found = Vec::new();
    let mut path = Vec::new();
    find_annotations(&schema, Reach::Root, &mut path, &mut found)?;
    Ok(found)
}

/// Why a tool's `x-mcp-header` annotations are not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("x-mcp-header at {place} {reason}")]
#[non_exhaustive]
pub struct AnnotationError {
    /// The property, as `#/properties/a`, or `#` for the schema.
    pub place: String,
    /// What is wrong with it.
    pub reason: String,
}

impl AnnotationError {
    fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}

/// How a subschema is reached from the root.
#[derive(Clone, Copy, PartialEq)]
enum Reach {
    /// It is the root.
    Root,
    /// Through `properties` only: it may be annotated.
    Property,
    /// Through something else.
    Elsewhere,
}

fn find_annotations(
    schema: &Value,
    reach: Reach,
    path: &mut Vec<String>,
    found: &mut Vec<ParamHeader>,
) -> Result<(), AnnotationError> {
    let items = match schema {
        Value::Object(object) => object,
        Value::Array(items) => {
            let mut items = items.iter();
            return items
                .try_for_each(|item| find_annotations(item, Reach::Elsewhere, path, found));
        }
        _ => return Ok(()),
    };
    if let Some(annotation) = items.get(ANNOTATION) {
        let header = annotated(annotation, items.get("type"), reach, path, found)
            .map_err(|reason| AnnotationError::new(place(path), reason))?;
        found.push(header);
    }
    for (key, value) in items {
        let names = matches!(key.as_str(), "properties" | "patternProperties" | "$defs")
            || matches!(key.as_str(), "definitions" | "dependentSchemas");
        match (key.as_str(), value) {
            ("const" | "enum" | "default" | "examples" | ANNOTATION, _) => {}
            (_, Value::Object(members)) if names => {
                let on = reach != Reach::Elsewhere && key == "properties";
                let below = if on { Reach::Property } else { Reach::Elsewhere };
                for (name, member) in members {
                    path.push(name.clone());
                    find_annotations(member, below, path, found)?;
                    path.pop();
                }
            }
            _ => find_annotations(value, Reach::Elsewhere, path, found)?,
        }
    }
    Ok(())
}

fn annotated(
    annotation: &Value,
    kind: Option<&Value>,
    reach: Reach,
    path: &[String],
    found: &[ParamHeader],
) -> Result<ParamHeader, String> {
    if reach != Reach::Property {
        return Err("must be on a property that is reached through `properties` only".into());
    }
    let Value::String(name) = annotation else { return Err("must be a string".into()) };
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("must be a header name (RFC 9110 token), not {:?}", shorten(name)));
    }
    if found.len() == PARAM_HEADERS_MAX {
        return Err(format!("is one more than the {PARAM_HEADERS_MAX} that are mirrored"));
    }
    if found.iter().any(|other| other.name.eq_ignore_ascii_case(name)) {
        return Err(format!("repeats the name {:?}", shorten(name)));
    }
    match kind.and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => {
            Ok(ParamHeader { name: name.clone(), path: path.to_vec() })
        }
        _ => Err("needs the property's type to be string, integer or boolean".into()),
    }
}

fn place(path: &[String]) -> String {
    path.iter().fold("#".to_owned(), |place, key| format!("{place}/{}", shorten(key)))
}

/// The headers that mirror a call's arguments: lower-case names and encoded values. Absent and
/// null arguments have none.
///
/// # Errors
/// -32602 for an argument that no header can carry: an object, an array, a fraction, an integer
/// beyond ±(2^53 − 1).
pub fn mirror(
    params: &[ParamHeader],
    arguments: Option<&RawValue>,
) -> Result<Vec<(String, String)>, ErrorObject> {
    let arguments = arguments.map_or("{}", RawValue::get);
    let mut headers = Vec::with_capacity(params.len());
    for param in params {
        let Some(json) = param.value(arguments) else { continue };
        let value = header_text(json).ok_or_else(|| {
            let place = place(&param.path);
            ErrorObject::invalid_params(format!(
                "argument {place} must be a string, a boolean or an integer within ±(2^53 − 1) to \
                 be sent as {}",
                param.label()
            ))
        })?;
        let name = format!("{PARAM_PREFIX}{}", param.name.to_ascii_lowercase());
        headers.push((name, encode(&value).into_owned()));
    }
    Ok(headers)
}

/// The text that mirrors a JSON string, boolean or integer.
fn header_text(json: &str) -> Option<Cow<'_, str>> {
    match json.as_bytes().first()? {
        b'"' => serde_json::from_str(json).ok().map(|Text(text)| text),
        b't' | b'f' => Some(Cow::Borrowed(json)),
        _ => integer(json).map(|number| Cow::Owned(number.to_string())),
    }
}

/// The integer that a JSON number stands for, `42` and `42.0` alike, within the safe range.
fn integer(json: &str) -> Option<i64> {
    if !json.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E')) {
        return None;
    }
    let number = json.parse::<i64>().ok().or_else(|| {
        let float = json.parse::<f64>().ok()?;
        (float.fract() == 0.0 && float.abs() <= SAFE_INTEGER_MAX as f64).then_some(float as i64)
    })?;
    (-SAFE_INTEGER_MAX..=SAFE_INTEGER_MAX).contains(&number).then_some(number)
}

/// What a request's body says about itself.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that the caller builds")]
pub struct Body<'a> {
    /// `params._meta["io.modelcontextprotocol/protocolVersion"]`.
    pub version: &'a str,
    /// `method`.
    pub method: &'a str,
    /// The member of `params` that [`name_member`] names, if the method has one.
    pub name: Option<&'a str>,
    /// `params.arguments` of a `tools/call`.
    pub arguments: Option<&'a str>,
}

/// The standard headers of a request: `MCP-Protocol-Version`, `Mcp-Method` and, for a body with a
/// name, `Mcp-Name`.
pub fn standard<'a>(body: &Body<'a>) -> impl Iterator<Item = (&'static str, Cow<'a, str>)> {
    let name = body.name.map(|name| (NAME, encode(name)));
    [(PROTOCOL_VERSION, Cow::Borrowed(body.version)), (METHOD, Cow::Borrowed(body.method))]
        .into_iter()
        .chain(name)
}

/// Checks the headers of a request against its body. `params` are the tool's mirrored arguments;
/// other `Mcp-Param-*` headers are not ours to judge.
///
/// # Errors
/// The first rule that is broken. Each is -32020 on HTTP 400.
pub fn validate<'h>(
    headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    body: &Body<'_>,
    params: &[ParamHeader],
) -> Result<(), HeaderError> {
    let mut standard: [(&'static str, Option<&[u8]>); 3] =
        [(PROTOCOL_VERSION, None), (METHOD, None), (NAME, None)];
    let mut mirrored: Vec<Option<&[u8]>> = vec![None; params.len()];
    for (name, value) in headers {
        let known = standard.iter_mut().find(|(known, _)| name.eq_ignore_ascii_case(known));
        let slot = match known {
            Some((_, slot)) => Some(slot),
            None => param_index(name, params).and_then(|index| mirrored.get_mut(index)),
        };
        if slot.is_some_and(|slot| slot.replace(value).is_some()) {
            return Err(HeaderError::Repeated { name: shorten(name).into() });
        }
    }
    let [(_, version), (_, method), (_, name)] = standard;
    compare_text(PROTOCOL_VERSION, version, body.version)?;
    compare_text(METHOD, method, body.method)?;
    if let Some(expected) = body.name {
        compare_text(NAME, name, expected)?;
    }
    let arguments = body.arguments.unwrap_or("{}");
    params
        .iter()
        .zip(mirrored)
        .try_for_each(|(param, value)| compare_param(param, value, param.value(arguments)))
}

fn param_index(header: &str, params: &[ParamHeader]) -> Option<usize> {
    let (prefix, name) = header.split_at_checked(PARAM_PREFIX.len())?;
    if !prefix.eq_ignore_ascii_case(PARAM_PREFIX) {
        return None;
    }
    params.iter().position(|param| param.name.eq_ignore_ascii_case(name))
}

fn compare_text(
    name: &'static str,
    value: Option<&[u8]>,
    expected: &str,
) -> Result<(), HeaderError> {
    let value = value.ok_or_else(|| HeaderError::Missing { name: name.into() })?;
    let text = match name {
        NAME => {
            decode(value).map_err(|cause| HeaderError::Malformed { name: name.into(), cause })?
        }
        _ => std::str::from_utf8(trim(value)).map(Cow::Borrowed).map_err(|_| {
            HeaderError::Malformed { name: name.into(), cause: Malformed::Characters }
        })?,
    };
    if text == expected {
        return Ok(());
    }
    Err(HeaderError::Differs {
        name: name.into(),
        header: shorten(&text).into(),
        body: shorten(expected).into(),
    })
}

fn compare_param(
    param: &ParamHeader,
    value: Option<&[u8]>,
    argument: Option<&str>,
) -> Result<(), HeaderError> {
    let name = || Box::from(param.label());
    let (value, argument) = match (value, argument) {
        (None, None) => return Ok(()),
        (None, Some(_)) => return Err(HeaderError::Missing { name: name() }),
        (Some(_), None) => return Err(HeaderError::NotInBody { name: name() }),
        (Some(value), Some(argument)) => (value, argument),
    };
    let text = decode(value).map_err(|cause| HeaderError::Malformed { name: name(), cause })?;
    let expected = header_text(argument);
    let equal = expected.as_ref().is_some_and(|expected| {
        let number = argument.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        *expected == text || (number && integer(&text) == integer(argument))
    });
    if equal {
        return Ok(());
    }
    let body = expected.unwrap_or(Cow::Borrowed(argument));
    Err(HeaderError::Differs {
        name: name(),
        header: shorten(&text).into(),
        body: shorten(&body).into(),
    })
}

/// Why the headers of a request do not mirror its body. The caller's fault; each is -32020.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// A required header is not there.
    #[error("header {name} is missing")]
    Missing {
        /// The header.
        name: Box<str>,
    },
    /// A header is there more than once.
    #[error("header {name} is repeated")]
    Repeated {
        /// The header.
        name: Box<str>,
    },
    /// A header stands for no text.
    #[error("header {name} {cause}")]
    Malformed {
        /// The header.
        name: Box<str>,
        /// What is wrong with it.
        cause: Malformed,
    },
    /// A header mirrors something that the body does not have.
    #[error("header {name} mirrors an argument that the body does not have")]
    NotInBody {
        /// The header.
        name: Box<str>,
    },
    /// A header and the body disagree.
    #[error("header {name} is {header:?}, but the body says {body:?}")]
    Differs {
        /// The header.
        name: Box<str>,
        /// What the header says.
        header: Box<str>,
        /// What the body says.
        body: Box<str>,
    },
}

impl HeaderError {
    /// The error to answer with.
    #[must_use]
    pub fn object(&self) -> ErrorObject {
        ErrorObject::new(Code::HEADER_MISMATCH, self.to_string())
    }
}

const fn is_visible(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~')
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Without the optional white space of RFC 9110 around it.
fn trim(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let first = value.iter().position(is_text).unwrap_or(value.len());
    let last = value.iter().rposition(is_text).map_or(first, |at| at + 1);
    value.get(first..last).unwrap_or_default()
}

#[cfg(test)]
mod tests;
