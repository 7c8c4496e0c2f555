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
use crate::error::Result;

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
    /// A family of resources: a URI template such as `file:///{name}` (RFC 6570, levels 1 and 2
    /// without fragments). `{name}` matches one or more characters other than `/`, `{+name}` any; the
    /// names are letters, digits and `_`. At most 32 pieces, texts and variables together
    /// ([`PIECES_MAX`](mcplane_proto::uri_template::PIECES_MAX)): a server with a longer template
    /// does not start. A URI of more than 8 KiB
    /// ([`URI_BYTES_MAX`](mcplane_proto::uri_template::URI_BYTES_MAX)) matches no template.
    ResourceTemplate(IntoResourceTemplate, into_resource_template), types::ResourceTemplate, uri_template;
}
