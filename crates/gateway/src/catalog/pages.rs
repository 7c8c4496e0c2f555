//! The answers to the list methods: merged pages, rendered once per revision, and our own cursors.

use std::borrow::Cow;
use std::sync::OnceLock;

use mcplane::proto::types::{
    Cache, Entries, Prompt, Resource, ResourceTemplate, ResultContext, Tool, Wire, WireResult,
};
use mcplane::proto::version::Revision;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::clean::{member, rewritten};
use super::offer::Kind;
use super::snapshot::{Row, Snapshot};

/// Most entries of one page.
pub const PAGE_SIZE: usize = 250;

/// The pages of one list, one cell per revision: each is the result's own members as JSON text.
#[derive(Debug, Default)]
pub(super) struct Rendered([OnceLock<Vec<Box<RawValue>>>; Revision::ALL.len()]);

/// A cursor that leads nowhere.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BadCursor;

impl Snapshot {
    /// A page of a list, the first one without a cursor, as `revision` says it.
    ///
    /// # Errors
    /// The cursor is not ours, or is of a list that has changed since.
    pub fn page(
        &self,
        kind: Kind,
        cursor: Option<&str>,
        revision: Revision,
    ) -> Result<Page<'_>, BadCursor> {
        let page = match cursor {
            None => 0,
            Some(cursor) => self.page_at(kind, cursor).ok_or(BadCursor)?,
        };
        let body = self.pages(kind, revision).get(page).ok_or(BadCursor)?;
        Ok(Page { body, revision })
    }

    /// The pages of a list, rendered by whoever asks first. There is always a first one.
    fn pages(&self, kind: Kind, revision: Revision) -> &[Box<RawValue>] {
        let cells = &self.rows(kind).rendered.0;
        let cell = Revision::ALL.iter().zip(cells).find(|(known, _)| **known == revision);
        cell.map_or(&[], |(_, cell)| cell.get_or_init(|| self.render(kind, revision)))
    }

    fn render(&self, kind: Kind, revision: Revision) -> Vec<Box<RawValue>> {
        let rows = &self.rows(kind).rows;
        let count = rows.len().div_ceil(PAGE_SIZE).max(1);
        let page = |page: usize| {
            let mut body = b"{".to_vec();
            member(kind.member(), "[", &mut body);
            let rows = rows.iter().skip(page * PAGE_SIZE).take(PAGE_SIZE);
            for (index, row) in rows.enumerate() {
                if index > 0 {
                    body.push(b',');
                }
                self.write_entry(kind, row, revision, &mut body);
            }
            body.push(b']');
            if page + 1 < count {
                member("nextCursor", &format!("{:?}", self.cursor(kind, page + 1)), &mut body);
            }
            body.push(b'}');
            // Entries were parsed when they came: this is JSON.
            String::from_utf8(body).ok().and_then(|body| RawValue::from_string(body).ok())
        };
        (0..count).filter_map(page).collect()
    }

    fn write_entry(&self, kind: Kind, row: &Row, revision: Revision, out: &mut Vec<u8>) {
        let raw = self.entry(kind, row).map_or(RawValue::NULL, |entry| &entry.raw);
        let name = (row.exposed != row.original).then_some(&*row.exposed);
        let written = match kind {
            Kind::Tools => written::<Tool>(raw, kind, name, revision),
            Kind::Prompts => written::<Prompt>(raw, kind, name, revision),
            Kind::Resources => written::<Resource>(raw, kind, name, revision),
            Kind::Templates => written::<ResourceTemplate>(raw, kind, name, revision),
        };
        debug_assert!(written.is_some(), "an entry that parsed once does so again: {raw}");
        out.extend_from_slice(written.as_deref().unwrap_or(raw).get().as_bytes());
    }

    /// A page of a list, sealed with what the list is: a list with other entries does not take it.
    fn cursor(&self, kind: Kind, page: usize) -> String {
        format!("{}{:016x}.{page}", letter(kind), self.rows(kind).fingerprint)
    }

    fn page_at(&self, kind: Kind, cursor: &str) -> Option<usize> {
        let page = cursor.rsplit_once('.')?.1.parse().ok()?;
        (self.cursor(kind, page) == cursor && page > 0).then_some(page)
    }
}

const fn letter(kind: Kind) -> char {
    match kind {
        Kind::Tools => 't',
        Kind::Prompts => 'p',
        Kind::Resources => 'r',
        Kind::Templates => 'u',
    }
}

/// A rendered page.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    body: &'a RawValue,
    revision: Revision,
}

impl Page<'_> {
    /// Appends the result. The envelope around the entries (`resultType`, server info, cache hints) is
    /// that of the library.
    pub fn write(self, cache: &Cache, server_info: Option<&[u8]>, out: &mut Vec<u8>) {
        let context = ResultContext { revision: self.revision, server_info };
        Enveloped { body: self.body, cache }.write(&context, out);
    }
}

/// A page with the envelope that every list result has.
#[derive(Clone, Copy)]
struct Enveloped<'a> {
    body: &'a RawValue,
    cache: &'a Cache,
}

impl Serialize for Enveloped<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.body.serialize(serializer)
    }
}

impl Wire for Enveloped<'_> {}

impl WireResult for Enveloped<'_> {
    fn meta(&self) -> Option<&RawValue> {
        None
    }

    fn cache(&self) -> Option<Cache> {
        Some(self.cache.clone())
    }
}

/// An entry as `revision` says it, under another name. Byte for byte but for the name when the
/// revision has words for all of it; else the library's form, with the members that the library
/// does not know.
fn written<T: Known>(
    raw: &RawValue,
    kind: Kind,
    name: Option<&str>,
    revision: Revision,
) -> Option<Box<RawValue>> {
    let name = name.and_then(|name| serde_json::to_string(name).ok());
    let renamed = rewritten(raw, |key, value| match &name {
        Some(name) if key == kind.key() => Some(Cow::Borrowed(&**name)),
        _ => Some(Cow::Borrowed(value)),
    })?;
    let entry: T = serde_json::from_str(renamed.get()).ok()?;
    let Cow::Owned(older) = entry.at(revision) else { return Some(renamed) };
    let older = serde_json::to_string(&older).ok()?;
    let known: Entries<&RawValue> = serde_json::from_str(&older).ok()?;
    let all: Entries<&RawValue> = serde_json::from_str(renamed.get()).ok()?;
    let mut out = b"{".to_vec();
    known.iter().for_each(|(key, value)| member(key, value.get(), &mut out));
    let unknown = all.iter().filter(|(key, _)| !T::MEMBERS.contains(key));
    unknown.for_each(|(key, value)| member(key, value.get(), &mut out));
    out.push(b'}');
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}

/// An entry whose members the library knows.
trait Known: Wire + DeserializeOwned {
    const MEMBERS: &'static [&'static str];
}

impl Known for Tool {
    const MEMBERS: &'static [&'static str] = &[
        "name",
        "title",
        "description",
        "inputSchema",
        "outputSchema",
        "annotations",
        "execution",
        "icons",
        "_meta",
    ];
}

impl Known for Prompt {
    const MEMBERS: &'static [&'static str] =
        &["name", "title", "description", "arguments", "icons", "_meta"];
}

impl Known for Resource {
    const MEMBERS: &'static [&'static str] = &[
        "uri",
        "name",
        "title",
        "description",
        "mimeType",
        "size",
        "annotations",
        "icons",
        "_meta",
    ];
}

impl Known for ResourceTemplate {
    const MEMBERS: &'static [&'static str] = &[
        "uriTemplate",
        "name",
        "title",
        "description",
        "mimeType",
        "annotations",
        "icons",
        "_meta",
    ];
}
