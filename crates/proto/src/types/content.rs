//! Content blocks: what tools, prompts and models say.

use std::borrow::Cow;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::json::{Text, append, depth, nullable, open_enum, optional_number, present, setters};
use super::resources::{Resource, ResourceContents};
use super::wire::Wire;
use crate::limits::DEPTH_MAX;
use crate::message::write_string;
use crate::version::Revision;

/// One block of content.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(MediaContent),
    /// Sound; from 2025-03-26.
    Audio(MediaContent),
    /// A resource that can be read later; from 2025-06-18.
    ResourceLink(Box<Resource>),
    /// A resource with its contents.
    Resource(Box<EmbeddedResource>),
    /// A model's wish to call a tool; in sampling, from 2025-11-25.
    ToolUse(Box<ToolUseContent>),
    /// What that tool answered; in sampling, from 2025-11-25.
    ToolResult(Box<ToolResultContent>),
    /// A block that this library does not know, byte for byte.
    #[serde(untagged)]
    Other(Box<RawValue>),
}

impl Content {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent { text: text.into(), annotations: None, meta: None })
    }

    /// A picture: its bytes in base64, and its media type.
    pub fn image(base64: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(MediaContent::new(base64, mime_type))
    }

    /// Sound: its bytes in base64, and its media type.
    pub fn audio(base64: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Audio(MediaContent::new(base64, mime_type))
    }

    /// A link to a resource.
    #[must_use]
    pub fn link(resource: Resource) -> Self {
        Self::ResourceLink(Box::new(resource))
    }

    /// A resource with its contents.
    #[must_use]
    pub fn resource(resource: ResourceContents) -> Self {
        Self::Resource(Box::new(EmbeddedResource { resource, annotations: None, meta: None }))
    }

    /// The same with annotations. Blocks that take none stay as they are.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        match &mut self {
            Self::Text(block) => block.annotations = Some(annotations),
            Self::Image(block) | Self::Audio(block) => block.annotations = Some(annotations),
            Self::ResourceLink(block) => block.annotations = Some(annotations),
            Self::Resource(block) => block.annotations = Some(annotations),
            Self::ToolUse(_) | Self::ToolResult(_) | Self::Other(_) => {}
        }
        self
    }

    /// Appends what `Serialize` writes. Texts, pictures and sounds may be long, and are written without
    /// a look at each of their bytes.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(TextContent { text, annotations: None, meta: None }) => {
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                write_string(out, text);
                out.push(b'}');
            }
            Self::Image(media) if media.is_bare() => media.write(b"image", out),
            Self::Audio(media) if media.is_bare() => media.write(b"audio", out),
            other => append(out, other),
        }
    }

    /// About how many bytes [`write`](Self::write) appends, where they may be many; else 0.
    pub(super) const fn len_hint(&self) -> usize {
        match self {
            Self::Text(block) => block.text.len(),
            Self::Image(media) | Self::Audio(media) => media.data.len(),
            _ => 0,
        }
    }

    /// The text of a text block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }
}

impl Wire for Content {
    /// A block that `revision` does not know becomes a text that says the same as far as text can:
    /// sound (2024-11-05) a note, a link (up to 2025-03-26) its URI, tool blocks (up to
    /// 2025-06-18) their JSON.
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        match self {
            Self::Audio(audio) if revision < Revision::V2025_03_26 => {
                Cow::Owned(Self::text(audio.note("audio")))
            }
            Self::ResourceLink(link) if revision < Revision::V2025_06_18 => {
                Cow::Owned(Self::text(link.as_line()))
            }
            Self::ResourceLink(link) => match link.at(revision) {
                Cow::Borrowed(_) => Cow::Borrowed(self),
                Cow::Owned(link) => Cow::Owned(Self::link(link)),
            },
            Self::ToolUse(_) | Self::ToolResult(_) if revision < Revision::V2025_11_25 => {
                Cow::Owned(Self::text(serde_json::to_string(self).unwrap_or_default()))
            }
            _ => Cow::Borrowed(self),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Tagged<'a> {
            #[serde(borrow, rename = "type")]
            tag: Text<'a>,
        }
        fn block<T: for<'a> Deserialize<'a>, E: serde::de::Error>(
            raw: &RawValue,
            tag: &str,
        ) -> Result<T, E> {
            serde_json::from_str(raw.get()).map_err(|e| E::custom(format!("{tag} content: {e}")))
        }

        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let Tagged { tag: Text(tag) } = serde_json::from_str(raw.get())
            .map_err(|error| D::Error::custom(format!("content block: {error}")))?;
        Ok(match &*tag {
            "text" => Self::Text(block(&raw, &tag)?),
            "image" => Self::Image(block(&raw, &tag)?),
            "audio" => Self::Audio(block(&raw, &tag)?),
            "resource_link" => Self::ResourceLink(block(&raw, &tag)?),
            "resource" => Self::Resource(block(&raw, &tag)?),
            "tool_use" => Self::ToolUse(block(&raw, &tag)?),
            // Results hold blocks, each read by a parser of its own that counts levels from 0.
            "tool_result" if depth(raw.get()) > DEPTH_MAX => {
                let fault = format!("tool_result content is nested deeper than {DEPTH_MAX} levels");
                return Err(D::Error::custom(fault));
            }
            "tool_result" => Self::ToolResult(block(&raw, &tag)?),
            _ => Self::Other(raw),
        })
    }
}

/// Text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TextContent {
    /// The text.
    pub text: String,
    /// For whom, and how important.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

/// A picture or sound.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MediaContent {
    /// The bytes, in base64.
    pub data: String,
    /// The media type.
    pub mime_type: String,
    /// For whom, and how important.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

impl MediaContent {
    fn new(base64: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self { data: base64.into(), mime_type: mime_type.into(), annotations: None, meta: None }
    }

    const fn is_bare(&self) -> bool {
        self.annotations.is_none() && self.meta.is_none()
    }

    fn write(&self, kind: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind);
        out.extend_from_slice(b"\",\"data\":");
        write_string(out, &self.data);
        out.extend_from_slice(b",\"mimeType\":");
        write_string(out, &self.mime_type);
        out.push(b'}');
    }

    fn note(&self, kind: &str) -> String {
        let size_bytes = self.data.len() / 4 * 3;
        format!("[{kind} of type {}, about {size_bytes} bytes, left out]", self.mime_type)
    }
}

/// A resource inside a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmbeddedResource {
    /// Its contents.
    pub resource: ResourceContents,
    /// For whom, and how important.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

/// A model's wish to call a tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolUseContent {
    /// Names this use; the result refers to it.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, an object.
    pub input: Box<RawValue>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

/// What a tool answered to a [`ToolUseContent`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultContent {
    /// The `id` of the use.
    pub tool_use_id: String,
    /// The unstructured result.
    pub content: Vec<Content>,
    /// The structured result; `null` is a value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Box<RawValue>>,
    /// Whether the tool failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

/// For whom something is, and how important.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// For whom; empty means everybody.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub audience: Vec<Role>,
    /// From 0 (optional) to 1 (required).
    #[serde(default, serialize_with = "optional_number", skip_serializing_if = "Option::is_none")]
    pub priority: Option<f64>,
    /// When it last changed, in ISO 8601; from 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
}

impl Annotations {
    setters!(priority: f64, last_modified: String);

    /// The same for these listeners.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<Vec<Role>>) -> Self {
        self.audience = audience.into();
        self
    }
}

open_enum! {
    /// Who speaks or listens.
    Role {
        /// The person.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

/// A picture for a user interface; from 2025-11-25.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Icon {
    /// An `https:` or `data:` URI.
    pub src: String,
    /// The media type, if `src` does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Sizes such as `48x48` or `any`.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
    /// The background it is made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theme: Option<Theme>,
}

impl Icon {
    /// An icon at this URI.
    pub fn new(src: impl Into<String>) -> Self {
        Self { src: src.into(), mime_type: None, sizes: Vec::new(), theme: None }
    }

    setters!(mime_type: String, theme: Theme);

    /// The same with sizes such as `48x48`.
    #[must_use]
    pub fn sizes<S: Into<String>>(mut self, sizes: impl IntoIterator<Item = S>) -> Self {
        self.sizes = sizes.into_iter().map(Into::into).collect();
        self
    }
}

open_enum! {
    /// The background an icon is made for.
    Theme {
        /// A light background.
        Light = "light",
        /// A dark background.
        Dark = "dark",
    }
}
