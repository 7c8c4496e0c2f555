//! Resources and resource templates.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use mcplane_proto::types::{self, Annotations, Icon, ReadResourceResult};
use serde_json::value::RawValue;

use super::context::Context;
use super::failure::Failure;
use super::handler::Handler;
use super::outcome::IntoResourceResult;
use super::state::Need;
use crate::error::{Error, Result};

/// A read: the URI and, for a template, the values of its variables.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceRequest {
    /// The requested URI.
    pub uri: String,
    /// Variables by name, percent-decoded.
    pub variables: Vec<(String, String)>,
}

impl ResourceRequest {
    /// The value of a variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

type ReadHandler = Handler<ResourceRequest, Result<ReadResourceResult, Failure>>;

macro_rules! resource_kinds {
    ($($(#[$doc:meta])* $kind:ident($trait:ident, $into:ident), $definition:ty, $address:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $kind {
            pub(crate) definition: $definition,
            pub(crate) handler: ReadHandler,
            pub(crate) needs: Vec<Need>,
        }

        #[doc = concat!("Whatever can be registered as a [`", stringify!($kind), "`].")]
        pub trait $trait {
            /// The definition with its handler.
            fn $into(self) -> $kind;
        }

        impl $trait for $kind {
            fn $into(self) -> $kind {
                self
            }
        }

        impl<F: FnOnce() -> $kind> $trait for F {
            fn $into(self) -> $kind {
                self()
            }
        }

        impl $kind {
            /// Reads in the connection's own task: for work that neither blocks nor waits.
            pub fn inline<R: IntoResourceResult>(
                $address: &str,
                name: &str,
                handler: impl Fn(&Context, ResourceRequest) -> R + Send + Sync + 'static,
            ) -> Self {
                let run = move |context: &Context, request: ResourceRequest| {
                    let uri = request.uri.clone();
                    handler(context, request).into_resource_result(&uri)
                };
                Self::new($address, name, Handler::Inline(Arc::new(run)))
            }

            /// Reads on a thread of the pool: for work that blocks.
            pub fn blocking<R: IntoResourceResult>(
                $address: &str,
                name: &str,
                handler: impl Fn(&Context, ResourceRequest) -> R + Send + Sync + 'static,
            ) -> Self {
                let run = move |context: &Context, request: ResourceRequest| {
                    let uri = request.uri.clone();
                    handler(context, request).into_resource_result(&uri)
                };
                Self::new($address, name, Handler::Blocking(Arc::new(run)))
            }

            /// Reads in an async closure, as one of the server's workers.
            pub fn waiting<R, F, Fut>($address: &str, name: &str, handler: F) -> Self
            where
                R: IntoResourceResult,
                F: Fn(Context, ResourceRequest) -> Fut + Send + Sync + 'static,
                Fut: Future<Output = R> + Send + 'static,
            {
                let handler = Arc::new(handler);
                let run = move |context: Context, request: ResourceRequest| {
                    let handler = Arc::clone(&handler);
                    async move {
                        let uri = request.uri.clone();
                        handler(context, request).await.into_resource_result(&uri)
                    }
                };
                Self::new($address, name, Handler::waiting(run))
            }

            fn new($address: &str, name: &str, handler: ReadHandler) -> Self {
                let definition = <$definition>::new($address, name);
                Self { definition, handler, needs: Vec::new() }
            }

            /// What it holds, for people and models.
            #[must_use]
            pub fn description(mut self, description: impl Into<String>) -> Self {
                self.definition.description = Some(description.into());
                self
            }

            /// A name for people.
            #[must_use]
            pub fn title(mut self, title: impl Into<String>) -> Self {
                self.definition.title = Some(title.into());
                self
            }

            /// Its MIME type; contents without one of their own get it too.
            #[must_use]
            pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
                self.definition.mime_type = Some(mime_type.into());
                self
            }

            /// Its audience and priority.
            #[must_use]
            pub fn annotations(mut self, annotations: Annotations) -> Self {
                self.definition.annotations = Some(annotations);
                self
            }

            /// Adds an icon.
            #[must_use]
            pub fn icon(mut self, icon: Icon) -> Self {
                self.definition.icons.push(icon);
                self
            }

            /// Its `_meta`.
            #[must_use]
            pub fn meta(mut self, meta: Box<RawValue>) -> Self {
                self.definition.meta = Some(meta);
                self
            }

            /// Declares that the handler takes the server's state of type `T`, so that its
            /// absence is an error when the server starts. `#[resource]` does this automatically.
            #[must_use]
            pub fn needs_state<T: Send + Sync + 'static>(mut self) -> Self {
                self.needs.push(Need::of::<T>());
                self
            }
        }

        impl fmt::Debug for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let address = &self.definition.$address;
                f.debug_tuple(stringify!($kind)).field(address).finish()
            }
        }
    )*};
}

resource_kinds! {
    /// A resource with a URI of its own.
    Resource(IntoResource, into_resource), types::Resource, uri;
    /// A family of resources: a URI template with simple variables, such as `file:///{name}`
    /// (RFC 6570 level 1; a variable matches one or more characters other than `/`).
    ResourceTemplate(IntoResourceTemplate, into_resource_template), types::ResourceTemplate, uri_template;
}

/// A URI template cut into its pieces.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Literal(String),
    Variable(String),
}

impl Pattern {
    /// Cuts a template.
    pub(crate) fn parse(template: &str) -> Result<Self> {
        let bad = |why: &str| Error::misuse(format!("URI template `{template}`: {why}"));
        let mut pieces = Vec::new();
        let mut rest = template;
        while let Some((literal, tail)) = rest.split_once('{') {
            let Some((name, tail)) = tail.split_once('}') else {
                return Err(bad("a `{` is not closed"));
            };
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(bad("a variable is letters, digits and `_` (RFC 6570 level 1)"));
            }
            match pieces.last() {
                Some(Piece::Variable(_)) if literal.is_empty() => {
                    return Err(bad("two variables need text between them"));
                }
                _ if literal.is_empty() => {}
                _ => pieces.push(Piece::Literal(literal.to_owned())),
            }
            pieces.push(Piece::Variable(name.to_owned()));
            rest = tail;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// The variables of a URI that fits. A variable takes as little as it can.
    pub(crate) fn matches(&self, uri: &str) -> Option<Vec<(String, String)>> {
        let mut variables = Vec::new();
        let mut rest = uri;
        let mut pieces = self.0.iter().peekable();
        while let Some(piece) = pieces.next() {
            match (piece, pieces.peek()) {
                (Piece::Literal(text), _) => rest = rest.strip_prefix(text.as_str())?,
                (Piece::Variable(name), next) => {
                    let end = match next {
                        Some(Piece::Literal(text)) => rest.find(text.as_str())?,
                        _ => rest.len(),
                    };
                    let (value, tail) = rest.split_at_checked(end)?;
                    if value.is_empty() || value.contains('/') {
                        return None;
                    }
                    variables.push((name.clone(), percent_decoded(value)?));
                    rest = tail;
                }
            }
        }
        rest.is_empty().then_some(variables)
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        Pattern::parse(template).unwrap().matches(uri)
    }

    #[test]
    fn templates_match_whole_uris() {
        let id = |value: &str| Some(vec![("id".to_owned(), value.to_owned())]);
        assert_eq!(matched("test://template/{id}/data", "test://template/12/data"), id("12"));
        assert_eq!(matched("test://template/{id}/data", "test://template/12/data/x"), None);
        assert_eq!(matched("test://template/{id}/data", "test://template//data"), None);
        assert_eq!(matched("test://template/{id}/data", "test://template/a/b/data"), None);
        assert_eq!(matched("x:{id}", "x:a%20b%C3%A9"), id("a bé"));
        assert_eq!(matched("x:{id}", "x:%zz"), None);
        assert_eq!(matched("x:{id}", "x:%"), None);
        let two = matched("db://{table}/{row}", "db://users/7").unwrap();
        assert_eq!(two, [("table".into(), "users".into()), ("row".into(), "7".into())]);
    }

    #[test]
    fn bad_templates_say_why() {
        for (template, why) in
            [("x:{id", "not closed"), ("x:{+id}", "letters"), ("{a}{b}", "between")]
        {
            let error = Pattern::parse(template).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
