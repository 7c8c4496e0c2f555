//! Resources and resource templates: listing, reading, subscribing, change notices.

use std::borrow::Cow;

use serde::de::{Deserializer, Error as _};
use serde::ser::{SerializeStruct, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::content::{Annotations, Icon};
use super::input::InputResponses;
use super::json::{lenient_ms, nullable, setters};
use super::lifecycle::bare_params;
use super::list::{CacheScope, list};
use super::result::EmptyResult;
use super::wire::{Wire, array, params, result};
use crate::message::write_string;
use crate::version::Revision;

list! {
    /// `resources/list`.
    ListResourcesParams, ResourcesList =>
    /// The answer to `resources/list`.
    ListResourcesResult { resources: Resource }
}

list! {
    /// `resources/templates/list`.
    ListResourceTemplatesParams, ResourceTemplatesList =>
    /// The answer to `resources/templates/list`.
    ListResourceTemplatesResult { resource_templates: ResourceTemplate }
}

/// Something that can be read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Its address.
    pub uri: String,
    /// Its name for programs.
    pub name: String,
    /// Its name for people; from 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its raw size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<serde_json::Number>,
    /// For whom, and how important.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Pictures; from 2025-11-25.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

impl Resource {
    /// A resource.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
            annotations: None,
            icons: Vec::new(),
            meta: None,
        }
    }

    setters!(
        title: String,
        description: String,
        mime_type: String,
        annotations: Annotations,
        meta: Box<RawValue>,
    );

    /// The same with its size in bytes.
    #[must_use]
    pub fn size(mut self, size_bytes: u64) -> Self {
        self.size = Some(size_bytes.into());
        self
    }

    /// The same with one more icon.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// One line of text that stands for a link to this resource.
    pub(crate) fn as_line(&self) -> String {
        let name = self.title.as_ref().unwrap_or(&self.name);
        match &self.description {
            Some(description) => format!("{name}: {} ({description})", self.uri),
            None => format!("{name}: {}", self.uri),
        }
    }
}

impl Wire for Resource {
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        let untitled = self.title.is_some() && revision < Revision::V2025_06_18;
        let bare = !self.icons.is_empty() && revision < Revision::V2025_11_25;
        if !untitled && !bare {
            return Cow::Borrowed(self);
        }
        let title = self.title.clone().filter(|_| !untitled);
        let icons = if bare { Vec::new() } else { self.icons.clone() };
        Cow::Owned(Self { title, icons, ..self.clone() })
    }
}

/// A family of resources.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTemplate {
    /// Their address, as an RFC 6570 template.
    pub uri_template: String,
    /// Its name for programs.
    pub name: String,
    /// Its name for people; from 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Their media type, if they all have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// For whom, and how important.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Pictures; from 2025-11-25.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

impl ResourceTemplate {
    /// A template.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uri_template: uri_template.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            annotations: None,
            icons: Vec::new(),
            meta: None,
        }
    }

    setters!(
        title: String,
        description: String,
        mime_type: String,
        annotations: Annotations,
        meta: Box<RawValue>,
    );

    /// The same with one more icon.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }
}

impl Wire for ResourceTemplate {
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        let untitled = self.title.is_some() && revision < Revision::V2025_06_18;
        let bare = !self.icons.is_empty() && revision < Revision::V2025_11_25;
        if !untitled && !bare {
            return Cow::Borrowed(self);
        }
        let title = self.title.clone().filter(|_| !untitled);
        let icons = if bare { Vec::new() } else { self.icons.clone() };
        Cow::Owned(Self { title, icons, ..self.clone() })
    }
}

/// `resources/read`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadResourceParams {
    /// What to read.
    pub uri: String,
    /// Answers to the input that the round before asked for (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<InputResponses>,
    /// The state that came with that question, unchanged (2026-07-28).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl ReadResourceParams {
    /// Reads the resource at `uri`.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), ..Self::default() }
    }
}

impl Wire for ReadResourceParams {}
params!(ReadResourceParams, ResourcesRead => ReadResourceResult);

/// The answer to `resources/read`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadResourceResult {
    /// What was read: one resource, or the parts of one. Empty does not mean "not found".
    pub contents: Vec<ResourceContents>,
    /// Milliseconds for which it is fresh.
    #[serde(default, skip_serializing, deserialize_with = "lenient_ms")]
    pub ttl_ms: u64,
    /// Who may share it.
    #[serde(default, skip_serializing)]
    pub cache_scope: CacheScope,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl ReadResourceResult {
    /// A result with these contents.
    #[must_use]
    pub fn new(contents: Vec<ResourceContents>) -> Self {
        Self { contents, ..Self::default() }
    }

    /// A result with one text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(vec![ResourceContents::text(uri, text)])
    }
}

impl Wire for ReadResourceResult {}
result!(ReadResourceResult, cached, {
    fn write_members(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"contents\":");
        array(out, &self.contents, ResourceContents::write);
        out.push(b'}');
    }

    fn len_hint(&self) -> usize {
        self.contents.iter().map(|contents| contents.body.as_str().len()).sum()
    }
});

/// What is in a resource.
#[derive(Clone, Debug)]
pub struct ResourceContents {
    /// Its address.
    pub uri: String,
    /// Its media type.
    pub mime_type: Option<String>,
    /// The contents.
    pub body: ResourceBody,
    /// `_meta`.
    pub meta: Option<Box<RawValue>>,
}

/// Text or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes, in base64.
    Blob(String),
}

impl ResourceBody {
    /// The text, or the base64.
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Text(text) | Self::Blob(text) => text,
        }
    }
}

impl ResourceContents {
    /// Text at this address.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        let body = ResourceBody::Text(text.into());
        Self { uri: uri.into(), mime_type: None, body, meta: None }
    }

    /// Bytes at this address, in base64.
    pub fn blob(uri: impl Into<String>, base64: impl Into<String>) -> Self {
        let body = ResourceBody::Blob(base64.into());
        Self { uri: uri.into(), mime_type: None, body, meta: None }
    }

    /// The text, if it is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match &self.body {
            ResourceBody::Text(text) => Some(text),
            ResourceBody::Blob(_) => None,
        }
    }

    setters!(mime_type: String, meta: Box<RawValue>);

    /// Appends what `Serialize` writes, the contents without a look at each of their bytes.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"uri\":");
        write_string(out, &self.uri);
        if let Some(mime_type) = &self.mime_type {
            out.extend_from_slice(b",\"mimeType\":");
            write_string(out, mime_type);
        }
        out.extend_from_slice(match self.body {
            ResourceBody::Text(_) => b",\"text\":",
            ResourceBody::Blob(_) => b",\"blob\":",
        });
        write_string(out, self.body.as_str());
        if let Some(meta) = &self.meta {
            out.extend_from_slice(b",\"_meta\":");
            out.extend_from_slice(meta.get().as_bytes());
        }
        out.push(b'}');
    }
}

impl Serialize for ResourceContents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("ResourceContents", 4)?;
        object.serialize_field("uri", &self.uri)?;
        if let Some(mime_type) = &self.mime_type {
            object.serialize_field("mimeType", mime_type)?;
        }
        match &self.body {
            ResourceBody::Text(text) => object.serialize_field("text", text)?,
            ResourceBody::Blob(base64) => object.serialize_field("blob", base64)?,
        }
        if let Some(meta) = &self.meta {
            object.serialize_field("_meta", meta)?;
        }
        object.end()
    }
}

impl<'de> Deserialize<'de> for ResourceContents {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Members {
            uri: String,
            mime_type: Option<String>,
            text: Option<String>,
            blob: Option<String>,
            #[serde(rename = "_meta")]
            meta: Option<Box<RawValue>>,
        }
        let Members { uri, mime_type, text, blob, meta } = Members::deserialize(deserializer)?;
        let body = match (text, blob) {
            (Some(text), _) => ResourceBody::Text(text),
            (None, Some(base64)) => ResourceBody::Blob(base64),
            (None, None) => {
                return Err(D::Error::custom("resource contents need `text` or `blob`"));
            }
        };
        Ok(Self { uri, mime_type, body, meta })
    }
}

/// Declares a type whose only member is a URI.
macro_rules! uri_params {
    ($(#[$doc:meta])* $name:ident, $method:ident $(=> $result:ty)?) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub struct $name {
            /// The resource.
            pub uri: String,
            /// `_meta`.
            #[serde(rename = "_meta", default, skip_serializing)]
            pub meta: Option<Box<RawValue>>,
        }

        impl $name {
            /// For the resource at `uri`.
            pub fn new(uri: impl Into<String>) -> Self {
                Self { uri: uri.into(), meta: None }
            }
        }

        impl Wire for $name {}
        params!($name, $method $(=> $result)?);
    };
}

uri_params! {
    /// `resources/subscribe`, up to 2025-11-25.
    SubscribeParams, ResourcesSubscribe => EmptyResult
}

uri_params! {
    /// `resources/unsubscribe`, up to 2025-11-25.
    UnsubscribeParams, ResourcesUnsubscribe => EmptyResult
}

uri_params! {
    /// `notifications/resources/updated`. The URI may name a part of what was subscribed.
    ResourceUpdatedParams, ResourcesUpdated
}

bare_params! {
    /// `notifications/resources/list_changed`; on a subscription `_meta` names it.
    ResourcesListChangedParams, ResourcesListChanged;
}
