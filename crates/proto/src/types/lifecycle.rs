//! Who is there and what it can do: `initialize`, `server/discover`, implementations.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::capabilities::{ClientCapabilities, ServerCapabilities};
use super::content::Icon;
use super::json::{lenient_ms, nullable, setters};
use super::list::CacheScope;
use super::result::EmptyResult;
use super::wire::{Wire, params, result};
use crate::version::Revision;

/// A client or a server: what it says about itself. For display only; nothing may depend on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Implementation {
    /// Its name for programs.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its name for people; from 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is; from 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where to read about it; from 2025-11-25.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Pictures; from 2025-11-25.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
}

impl Implementation {
    /// A name and a version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            title: None,
            description: None,
            website_url: None,
            icons: Vec::new(),
        }
    }

    setters!(title: String, description: String, website_url: String);

    /// The same with one more icon.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }
}

impl Wire for Implementation {
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        if revision >= Revision::V2025_11_25 {
            return Cow::Borrowed(self);
        }
        let mut old = Self::new(self.name.as_str(), self.version.as_str());
        if revision >= Revision::V2025_06_18 {
            old.title.clone_from(&self.title);
        }
        Cow::Owned(old)
    }
}

/// `initialize`, up to 2025-11-25.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeParams {
    /// The newest revision that the client speaks. Not always one that anybody published.
    pub protocol_version: String,
    /// What the client can do.
    pub capabilities: ClientCapabilities,
    /// Who the client is.
    pub client_info: Implementation,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl InitializeParams {
    /// Opens a session of `revision`.
    #[must_use]
    pub fn new(
        revision: Revision,
        capabilities: ClientCapabilities,
        client_info: Implementation,
    ) -> Self {
        let protocol_version = revision.as_str().into();
        Self { protocol_version, capabilities, client_info, meta: None }
    }
}

impl Wire for InitializeParams {
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        Cow::Owned(Self {
            protocol_version: self.protocol_version.clone(),
            capabilities: self.capabilities.at(revision).into_owned(),
            client_info: self.client_info.at(revision).into_owned(),
            meta: None,
        })
    }
}
params!(InitializeParams, Initialize => InitializeResult);

/// The answer to `initialize`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InitializeResult {
    /// The revision of the session.
    pub protocol_version: String,
    /// What the server can do.
    pub capabilities: ServerCapabilities,
    /// Who the server is.
    pub server_info: Implementation,
    /// How to use the server, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl InitializeResult {
    /// Accepts a session of `revision`.
    #[must_use]
    pub fn new(
        revision: Revision,
        capabilities: ServerCapabilities,
        server_info: Implementation,
    ) -> Self {
        let protocol_version = revision.as_str().into();
        Self { protocol_version, capabilities, server_info, instructions: None, meta: None }
    }

    setters!(instructions: String);
}

impl Wire for InitializeResult {
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        Cow::Owned(Self {
            protocol_version: self.protocol_version.clone(),
            capabilities: self.capabilities.at(revision).into_owned(),
            server_info: self.server_info.at(revision).into_owned(),
            instructions: self.instructions.clone(),
            meta: None,
        })
    }
}
result!(InitializeResult);

/// Declares a type without members of its own.
macro_rules! bare_params {
    ($($(#[$doc:meta])* $name:ident, $method:ident $(=> $result:ty)?;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
            pub struct $name {
                /// `_meta`.
                #[serde(rename = "_meta", default, skip_serializing)]
                pub meta: Option<Box<serde_json::value::RawValue>>,
            }

            impl $crate::types::Wire for $name {}
            $crate::types::wire::params!($name, $method $(=> $result)?);
        )*
    };
}
pub(crate) use bare_params;

bare_params! {
    /// `notifications/initialized`, up to 2025-11-25.
    InitializedParams, Initialized;
    /// `ping`, up to 2025-11-25.
    PingParams, Ping => EmptyResult;
    /// `server/discover`, from 2026-07-28.
    DiscoverParams, Discover => DiscoverResult;
}

/// The answer to `server/discover`. The server's name is in `_meta`, not here.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoverResult {
    /// The revisions that the server speaks. May hold names that this library does not know.
    pub supported_versions: Vec<String>,
    /// What the server can do.
    pub capabilities: ServerCapabilities,
    /// How to use the server, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Milliseconds for which this is fresh.
    #[serde(default, skip_serializing, deserialize_with = "lenient_ms")]
    pub ttl_ms: u64,
    /// Who may share it.
    #[serde(default, skip_serializing)]
    pub cache_scope: CacheScope,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing)]
    pub meta: Option<Box<RawValue>>,
}

impl DiscoverResult {
    /// A server that speaks these revisions.
    #[must_use]
    pub fn new(versions: &[Revision], capabilities: ServerCapabilities) -> Self {
        Self {
            supported_versions: versions.iter().map(|v| v.as_str().to_owned()).collect(),
            capabilities,
            instructions: None,
            ttl_ms: 0,
            cache_scope: CacheScope::Private,
            meta: None,
        }
    }

    setters!(instructions: String);

    /// The server's name, which is in `_meta`; `None` when absent or malformed.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        crate::meta::server_info(self.meta.as_deref()?)
    }
}

impl Wire for DiscoverResult {
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        match self.capabilities.at(revision) {
            Cow::Borrowed(_) => Cow::Borrowed(self),
            Cow::Owned(capabilities) => Cow::Owned(Self { capabilities, ..self.clone() }),
        }
    }
}
result!(DiscoverResult, cached);
