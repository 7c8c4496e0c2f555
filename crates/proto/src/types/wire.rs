//! How typed values become wire text: down-levelling, the result envelope, parsing with errors.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::json::{append, member, members};
use super::list::Cache;
use crate::error::ErrorObject;
use crate::meta;
use crate::method::Method;
use crate::version::{Era, Revision};

/// A value whose wire form depends on the revision.
///
/// `Serialize` writes every member that is set; [`at`](Self::at) first takes away or replaces what
/// the older side has no words for.
pub trait Wire: Serialize + Clone {
    /// This value as `revision` can say it. Borrowed when nothing changes.
    fn at(&self, revision: Revision) -> Cow<'_, Self> {
        let _ = revision;
        Cow::Borrowed(self)
    }
}

/// The parameters of one method. `Serialize` leaves `_meta` out: the envelope is written around it
/// ([`crate::meta::write_params`]).
pub trait Params: Wire + DeserializeOwned {
    /// The method these parameters belong to.
    const METHOD: Method;

    /// The `_meta` member.
    fn meta(&self) -> Option<&RawValue>;
}

/// The parameters of a request, which name the type of its result.
pub trait Request: Params {
    /// What the other side answers when it completes.
    type Result: WireResult + DeserializeOwned;
}

/// What a result is written for.
#[derive(Clone, Copy, Debug)]
pub struct ResultContext<'a> {
    /// The revision of the conversation.
    pub revision: Revision,
    /// The server's `Implementation` as JSON text, for `_meta["io.modelcontextprotocol/serverInfo"]`
    /// in 2026-07-28; ignored before.
    pub server_info: Option<&'a [u8]>,
}

impl ResultContext<'_> {
    /// For `revision`, without server info.
    #[must_use]
    pub const fn new(revision: Revision) -> Self {
        Self { revision, server_info: None }
    }
}

/// The result of a request. `Serialize` writes the method's own members; [`write`](Self::write)
/// the whole result object.
pub trait WireResult: Wire {
    /// The value of `resultType` in 2026-07-28.
    const RESULT_TYPE: &'static str = "complete";

    /// The `_meta` member.
    fn meta(&self) -> Option<&RawValue>;

    /// The freshness hints of a cacheable result (SEP-2549).
    fn cache(&self) -> Option<Cache> {
        None
    }

    /// Appends the method's own members as an object: what `Serialize` writes.
    fn write_members(&self, out: &mut Vec<u8>) {
        append(out, self);
    }

    /// About how many bytes [`write`](Self::write) appends, where they may be many; else 0.
    fn len_hint(&self) -> usize {
        0
    }

    /// Appends the result object. 2026-07-28 gets `resultType`, the server's info and the cache
    /// hints; earlier revisions never do. Nothing is allocated when nothing is down-levelled.
    fn write(&self, context: &ResultContext<'_>, out: &mut Vec<u8>) {
        out.push(b'{');
        if context.revision.era() == Era::Modern {
            out.extend_from_slice(b"\"resultType\":\"");
            out.extend_from_slice(Self::RESULT_TYPE.as_bytes());
            out.push(b'"');
            write_modern_meta(self.meta(), context.server_info, out);
            if let Some(cache) = self.cache() {
                cache.write(out);
            }
        } else {
            write_legacy_meta(self.meta(), out);
        }
        write_body_with(out, |out| self.at(context.revision).write_members(out));
    }
}

/// Reads the `params` of a request or notification. Absent parameters count as `{}`.
///
/// # Errors
/// -32602 with the member that is wrong.
pub fn parse_params<P: Params>(params: Option<&[u8]>) -> Result<P, ErrorObject> {
    serde_json::from_slice(params.unwrap_or(b"{}")).map_err(|error| {
        ErrorObject::invalid_params(format!("invalid params of {}: {error}", P::METHOD))
    })
}

/// Appends the members of `body` to an object that is open in `out`, and closes it.
pub(crate) fn write_body(body: &impl Serialize, out: &mut Vec<u8>) {
    write_body_with(out, |out| append(out, body));
}

fn write_body_with(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if out.last() == Some(&b'{') {
        out.pop();
        return write(out);
    }
    let mark = out.len();
    write(out);
    if out.get(mark..) == Some(b"{}") {
        out.truncate(mark);
        out.push(b'}');
    } else if let Some(brace) = out.get_mut(mark) {
        *brace = b',';
    }
}

fn write_modern_meta(own: Option<&RawValue>, server_info: Option<&[u8]>, out: &mut Vec<u8>) {
    let own = own.filter(|own| own.get() != "{}");
    match (own, server_info) {
        (None, None) => {}
        (Some(own), None) => {
            out.extend_from_slice(b",\"_meta\":");
            out.extend_from_slice(own.get().as_bytes());
        }
        (own, Some(server_info)) => {
            out.extend_from_slice(b",\"_meta\":{\"io.modelcontextprotocol/serverInfo\":");
            out.extend_from_slice(server_info);
            if let Some(own) = own {
                write_members_except(own, meta::SERVER_INFO, out);
            }
            out.push(b'}');
        }
    }
}

fn write_legacy_meta(own: Option<&RawValue>, out: &mut Vec<u8>) {
    let Some(own) = own else { return };
    if member(own.get(), meta::SERVER_INFO).is_none() {
        out.extend_from_slice(b"\"_meta\":");
        out.extend_from_slice(own.get().as_bytes());
        return;
    }
    let start = out.len();
    out.extend_from_slice(b"\"_meta\":{");
    let mark = out.len();
    write_members_except(own, meta::SERVER_INFO, out);
    if out.len() == mark {
        out.truncate(start);
        return;
    }
    out.remove(mark);
    out.push(b'}');
}

/// Appends `,"key":value` for each member of `object` but one. What is not an object has no members.
pub(crate) fn write_members_except(object: &RawValue, except: &str, out: &mut Vec<u8>) {
    let start = out.len();
    let visited = members(object.get(), |key, value| {
        if key != except {
            out.push(b',');
            append(out, &*key);
            out.push(b':');
            out.extend_from_slice(value.get().as_bytes());
        }
    });
    if visited.is_err() {
        out.truncate(start);
    }
}

/// Declares a type as the parameters of a method, and for a request its result.
macro_rules! params {
    ($type:ty, $method:ident $(=> $result:ty)?) => {
        impl $crate::types::Params for $type {
            const METHOD: $crate::method::Method = $crate::method::Method::$method;

            fn meta(&self) -> Option<&serde_json::value::RawValue> {
                self.meta.as_deref()
            }
        }
        $(impl $crate::types::Request for $type {
            type Result = $result;
        })?
    };
}
pub(crate) use params;

/// Declares a type as the result of a request; `cached` ones carry `ttlMs` and `cacheScope`. What may
/// be long writes itself.
macro_rules! result {
    ($type:ty $(, { $($write:tt)* })?) => {
        impl $crate::types::WireResult for $type {
            fn meta(&self) -> Option<&serde_json::value::RawValue> {
                self.meta.as_deref()
            }

            $($($write)*)?
        }
    };
    ($type:ty, cached $(, { $($write:tt)* })?) => {
        impl $crate::types::WireResult for $type {
            fn meta(&self) -> Option<&serde_json::value::RawValue> {
                self.meta.as_deref()
            }

            fn cache(&self) -> Option<$crate::types::Cache> {
                Some($crate::types::Cache { ttl_ms: self.ttl_ms, scope: self.cache_scope.clone() })
            }

            $($($write)*)?
        }

        impl $type {
            /// The same, fresh for `ttl_ms` milliseconds within `scope`.
            #[must_use]
            pub fn cached(mut self, ttl_ms: u64, scope: $crate::types::CacheScope) -> Self {
                self.ttl_ms = ttl_ms;
                self.cache_scope = scope;
                self
            }
        }
    };
}
pub(crate) use result;
/// Appends an array.
pub(super) fn array<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}
