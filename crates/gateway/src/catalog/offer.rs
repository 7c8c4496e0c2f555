//! One upstream's lists, as it sent them.
//!
//! An entry keeps its bytes, so that members which nobody here knows reach the client. It is parsed
//! once, when it comes, to learn that it can be: what does not parse is left out and counted, since
//! one bad tool must not hide the others.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use mcplane::proto::headers::{self, ParamHeader};
use mcplane::proto::message::is_lookalike;
use mcplane::proto::method::Method;
use mcplane::proto::types::{
    Entries, Implementation, Prompt, Resource, ResourceTemplate, ServerCapabilities, Tool,
};
use mcplane::proto::version::{Era, Revision};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use super::Fingerprint;
use super::clean::{on_one_line, rewritten, without_annotations};

/// Most entries of one list of one upstream; further ones are left out and counted. The largest
/// catalog seen in the wild has some 2,000 tools.
pub const ENTRIES_MAX: usize = 10_000;
/// Most templates of one upstream: any read may be held against all of them.
pub const TEMPLATES_MAX: usize = 1_000;
/// Longest name, URI or template, in bytes; an entry with a longer one is malformed.
pub const NAME_BYTES_MAX: usize = 8 << 10;
/// Most bytes of one list of one upstream; further entries are left out and counted.
pub const LIST_BYTES_MAX: usize = 32 << 20;

/// The four lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "a fifth list would have to be looked at everywhere")]
pub enum Kind {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    Templates,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The list that a method asks for.
    #[must_use]
    pub fn of(method: Method) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    /// The method that asks for it.
    #[must_use]
    pub const fn method(self) -> Method {
        match self {
            Self::Tools => Method::ToolsList,
            Self::Prompts => Method::PromptsList,
            Self::Resources => Method::ResourcesList,
            Self::Templates => Method::ResourceTemplatesList,
        }
    }

    /// The member of the result that holds the entries.
    #[must_use]
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// What one of its entries is called.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Prompts => "prompt",
            Self::Resources => "resource",
            Self::Templates => "template",
        }
    }

    /// The member of an entry that identifies it.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }
}

/// One tool, prompt, resource or template.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The name or URI that the upstream knows it by.
    pub name: Arc<str>,
    /// The entry as it came, without `execution` and without unusable `x-mcp-header`s.
    pub raw: Box<RawValue>,
    /// A tool that changes nothing.
    pub read_only: bool,
    /// A tool whose second call changes nothing more.
    pub idempotent: bool,
    /// A tool whose structured result 2025-06-18 and 2025-11-25 see as `{"result": …}`
    /// ([`Tool::wraps_output`]).
    pub wraps_output: bool,
    /// The arguments of a tool that clients mirror in headers.
    pub mirrored: Option<Arc<[ParamHeader]>>,
    /// Of `raw`.
    pub(super) fingerprint: u64,
}

/// What one upstream offers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Offer {
    /// What it says about itself.
    pub info: Option<Implementation>,
    /// The revision that was agreed on with it.
    pub revision: Option<Revision>,
    /// What it can do, as it said it.
    pub capabilities: ServerCapabilities,
    /// How to use it, for the model.
    pub instructions: Option<String>,
    /// The time, in milliseconds since 1970, when the lists were complete; 0 if nobody set it.
    pub seen_ms: u64,
    /// Which of its calls ask their client something, as far as that was found out.
    pub asking: Asking,
    lists: [Arc<List>; 4],
}

/// Calls that ask, and calls that do not: each is a method, a space, and the name of a tool or prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "made by who reads it")]
pub struct Asking {
    /// These have asked.
    pub asks: Vec<String>,
    /// These have ended without a question, each time since they did last, if ever.
    pub silent: Vec<String>,
}

#[derive(Clone, Debug, Default)]
struct List {
    entries: Vec<Entry>,
    names: BTreeSet<Arc<str>>,
    bytes: usize,
    left_out: LeftOut,
}

/// Entries that are not in the catalog, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// Lacked a member, or had one of a wrong form.
    pub malformed: usize,
    /// Had the name or URI of an earlier one.
    pub repeated: usize,
    /// Had an `x-mcp-header` against the rules of 2026-07-28, which forbid to use such a tool.
    pub misannotated: usize,
    /// Came after [`ENTRIES_MAX`] entries, [`TEMPLATES_MAX`] templates or [`LIST_BYTES_MAX`] bytes.
    pub beyond_limit: usize,
}

impl LeftOut {
    /// How many in all.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.malformed + self.repeated + self.misannotated + self.beyond_limit
    }
}

/// Why a page is none.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PageError {
    /// Not a list method.
    #[error("{0} does not list anything")]
    NotAList(Method),
    /// Not the result of that method.
    #[error("the upstream's result of {method} is malformed: {why}")]
    Malformed {
        /// The method.
        method: Method,
        /// What is wrong.
        why: String,
    },
}

impl Offer {
    /// An offer without entries.
    #[must_use]
    pub fn new(revision: Option<Revision>, capabilities: ServerCapabilities) -> Self {
        Self {
            info: None,
            revision,
            capabilities,
            instructions: None,
            asking: Asking::default(),
            seen_ms: 0,
            lists: Default::default(),
        }
    }

    /// Adds one page of a list: the `result` of the upstream's answer. Returns the cursor of the
    /// next page; the caller bounds their number.
    ///
    /// # Errors
    /// When the result is not one of `method`. Entries that are malformed are no error: they are
    /// left out and counted ([`Offer::left_out`]).
    pub fn add_page(&mut self, method: Method, result: &[u8]) -> Result<Option<String>, PageError> {
        let kind = Kind::of(method).ok_or(PageError::NotAList(method))?;
        let bad =
            |error: serde_json::Error| PageError::Malformed { method, why: error.to_string() };
        let page: Entries<&RawValue> = serde_json::from_slice(result).map_err(bad)?;
        let entries = page.get(kind.member()).ok_or_else(|| {
            let why = format!("`{}` is missing", kind.member());
            PageError::Malformed { method, why }
        })?;
        let entries: Vec<&RawValue> = serde_json::from_str(entries.get()).map_err(bad)?;
        let next: Option<String> = match page.get("nextCursor") {
            Some(next) => serde_json::from_str(next.get()).map_err(bad)?,
            None => None,
        };
        let lenient = self.revision.is_none_or(|revision| revision.era() == Era::Legacy);
        let list = self.list_mut(kind);
        entries.into_iter().for_each(|raw| list.add(kind, raw, lenient));
        Ok(next)
    }

    /// Empties a list, to be read again.
    pub fn restart(&mut self, kind: Kind) {
        *self.place(kind) = Arc::default();
    }

    /// Takes one list over from another offer.
    pub fn adopt(&mut self, kind: Kind, from: &Self) {
        let [tools, prompts, resources, templates] = &from.lists;
        *self.place(kind) = Arc::clone(match kind {
            Kind::Tools => tools,
            Kind::Prompts => prompts,
            Kind::Resources => resources,
            Kind::Templates => templates,
        });
    }

    /// Whether another one has the same entries in the same order.
    #[must_use]
    pub fn lists_the_same(&self, other: &Self) -> bool {
        let prints = |offer: &Self, kind| -> Vec<u64> {
            offer.entries(kind).iter().map(|entry| entry.fingerprint).collect()
        };
        Kind::ALL.into_iter().all(|kind| prints(self, kind) == prints(other, kind))
    }

    /// The entries of a list, in the upstream's order.
    #[must_use]
    pub fn entries(&self, kind: Kind) -> &[Entry] {
        &self.list(kind).entries
    }

    /// How many entries of a list were left out, and why.
    #[must_use]
    pub fn left_out(&self, kind: Kind) -> LeftOut {
        self.list(kind).left_out
    }

    fn list(&self, kind: Kind) -> &List {
        let [tools, prompts, resources, templates] = &self.lists;
        match kind {
            Kind::Tools => tools,
            Kind::Prompts => prompts,
            Kind::Resources => resources,
            Kind::Templates => templates,
        }
    }

    fn list_mut(&mut self, kind: Kind) -> &mut List {
        Arc::make_mut(self.place(kind))
    }

    const fn place(&mut self, kind: Kind) -> &mut Arc<List> {
        let [tools, prompts, resources, templates] = &mut self.lists;
        match kind {
            Kind::Tools => tools,
            Kind::Prompts => prompts,
            Kind::Resources => resources,
            Kind::Templates => templates,
        }
    }
}

impl List {
    fn add(&mut self, kind: Kind, raw: &RawValue, lenient: bool) {
        let bytes = self.bytes.saturating_add(raw.get().len());
        let entries_max = if kind == Kind::Templates { TEMPLATES_MAX } else { ENTRIES_MAX };
        if self.entries.len() == entries_max || bytes > LIST_BYTES_MAX {
            self.left_out.beyond_limit += 1;
            return;
        }
        let entry = match kind {
            _ if has_two_names(raw, kind) => Err(Unfit::Malformed),
            Kind::Tools => tool(raw, lenient),
            Kind::Prompts => plain::<Prompt>(raw, |prompt| prompt.name),
            Kind::Resources => plain::<Resource>(raw, |resource| resource.uri),
            Kind::Templates => plain::<ResourceTemplate>(raw, |template| template.uri_template),
        };
        match entry {
            Ok(entry) if self.names.insert(Arc::clone(&entry.name)) => {
                self.entries.push(entry);
                self.bytes = bytes;
            }
            Ok(_) => self.left_out.repeated += 1,
            Err(Unfit::Malformed) => self.left_out.malformed += 1,
            Err(Unfit::Misannotated) => self.left_out.misannotated += 1,
        }
    }
}

/// Whether some clients would see the entry under another name than the catalog has it.
fn has_two_names(raw: &RawValue, kind: Kind) -> bool {
    let members = serde_json::from_str::<Entries<&RawValue>>(raw.get());
    members.is_ok_and(|members| members.iter().any(|(key, _)| is_lookalike(key, kind.key())))
}

enum Unfit {
    Malformed,
    Misannotated,
}

fn plain<T: for<'de> Deserialize<'de>>(
    raw: &RawValue,
    name: impl FnOnce(T) -> String,
) -> Result<Entry, Unfit> {
    let parsed = serde_json::from_str(raw.get()).map_err(|_| Unfit::Malformed)?;
    let raw = on_one_line(raw);
    Ok(Entry {
        name: named(&name(parsed))?,
        fingerprint: Fingerprint::of(&[raw.get()]),
        raw,
        read_only: false,
        idempotent: false,
        wraps_output: false,
        mirrored: None,
    })
}

/// `lenient` strips annotations that break the rules: a legacy server never promised to keep them.
fn tool(raw: &RawValue, lenient: bool) -> Result<Entry, Unfit> {
    let tool: Tool = serde_json::from_str(raw.get()).map_err(|_| Unfit::Malformed)?;
    let schema = tool.input_schema.get();
    let (mirrored, stripped): (Arc<[ParamHeader]>, _) = match headers::param_headers(schema) {
        Ok(mirrored) => (Arc::from(mirrored), None),
        Err(_) if lenient => {
            (Arc::default(), Some(without_annotations(schema).ok_or(Unfit::Misannotated)?))
        }
        Err(_) => return Err(Unfit::Misannotated),
    };
    let raw = match (tool.execution.is_some(), &stripped) {
        (false, None) => on_one_line(raw),
        _ => rewritten(raw, |key, value| match (key, &stripped) {
            ("execution", _) => None,
            ("inputSchema", Some(schema)) => Some(Cow::Borrowed(schema)),
            _ => Some(Cow::Borrowed(value)),
        })
        .map(|raw| on_one_line(&raw))
        .ok_or(Unfit::Malformed)?,
    };
    let hints = tool.annotations.as_ref();
    Ok(Entry {
        name: named(&tool.name)?,
        fingerprint: Fingerprint::of(&[raw.get()]),
        raw,
        read_only: hints.and_then(|hints| hints.read_only_hint) == Some(true),
        idempotent: hints.and_then(|hints| hints.idempotent_hint) == Some(true),
        wraps_output: tool.wraps_output(Revision::V2025_11_25),
        mirrored: (!mirrored.is_empty()).then_some(mirrored),
    })
}

/// Nothing can be asked for by an empty name.
fn named(name: &str) -> Result<Arc<str>, Unfit> {
    let usable = (1..=NAME_BYTES_MAX).contains(&name.len());
    if usable { Ok(name.into()) } else { Err(Unfit::Malformed) }
}
