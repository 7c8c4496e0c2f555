//! Pagination and cache hints.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{Text, append};

/// How long a result may be reused, and by whom (2026-07-28, SEP-2549).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// Milliseconds for which the result is fresh; 0 is stale at once.
    pub ttl_ms: u64,
    /// Who may share it.
    pub scope: CacheScope,
}

impl Cache {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"ttlMs\":");
        append(out, &self.ttl_ms);
        out.extend_from_slice(b",\"cacheScope\":\"");
        out.extend_from_slice(self.scope.as_str().as_bytes());
        out.push(b'"');
    }
}

/// Who may share a cached result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheScope {
    /// Everybody.
    Public,
    /// One authorization context. Also what an unknown or missing value means.
    #[default]
    Private,
}

impl CacheScope {
    /// The value on the wire.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
        }
    }
}

impl<'de> Deserialize<'de> for CacheScope {
    /// Never fails on a value: a malformed hint must not break the result.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let scope = serde_json::from_str::<Text<'_>>(raw.get());
        Ok(match scope {
            Ok(Text(scope)) if scope == "public" => Self::Public,
            _ => Self::Private,
        })
    }
}

/// Declares the request and the result of a list method.
macro_rules! list {
    ($(#[$doc:meta])* $params:ident, $method:ident => $(#[$result_doc:meta])* $result:ident { $field:ident: $item:ty }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
        pub struct $params {
            /// Where to go on: the `nextCursor` of the page before. The empty string is a cursor.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub cursor: Option<String>,
            /// `_meta`.
            #[serde(rename = "_meta", default, skip_serializing)]
            pub meta: Option<Box<serde_json::value::RawValue>>,
        }

        impl $crate::types::Wire for $params {}
        $crate::types::wire::params!($params, $method => $result);

        $(#[$result_doc])*
        #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $result {
            /// The entries of this page.
            pub $field: Vec<$item>,
            /// Where the next page begins. Only its absence ends the list.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub next_cursor: Option<String>,
            /// Milliseconds for which this page is fresh.
            #[serde(default, skip_serializing, deserialize_with = "crate::types::json::lenient_ms")]
            pub ttl_ms: u64,
            /// Who may share it; the same on all pages.
            #[serde(default, skip_serializing)]
            pub cache_scope: $crate::types::CacheScope,
            /// `_meta`.
            #[serde(rename = "_meta", default, skip_serializing)]
            pub meta: Option<Box<serde_json::value::RawValue>>,
        }

        impl $result {
            /// One page that is the whole list.
            #[must_use]
            pub fn new($field: Vec<$item>) -> Self {
                Self { $field, ..Self::default() }
            }
        }

        impl $crate::types::Wire for $result {
            fn at(&self, revision: $crate::version::Revision) -> std::borrow::Cow<'_, Self> {
                use std::borrow::Cow;
                if self.$field.iter().all(|item| matches!(item.at(revision), Cow::Borrowed(_))) {
                    return Cow::Borrowed(self);
                }
                let $field = self.$field.iter().map(|item| item.at(revision).into_owned()).collect();
                Cow::Owned(Self { $field, next_cursor: self.next_cursor.clone(), ..Self::default() })
            }
        }
        $crate::types::wire::result!($result, cached);
    };
}
pub(crate) use list;
