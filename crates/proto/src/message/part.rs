//! The members that the scan finds, and where they are.

use std::ops::Range;

macro_rules! parts {
    ($($inside:ident { $($(#[$doc:meta])* $part:ident = $key:literal;)* })*) => {
        /// A member of a message whose span the scan notes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Part {
            $($($(#[$doc])* $part,)*)*
        }

        impl Part {
            pub(super) const COUNT: usize = [$($(Self::$part),*),*].len();

            /// The noted member called `key` of the object `inside`.
            pub(super) fn find(inside: Inside, key: &[u8]) -> Option<Self> {
                match inside {
                    $(Inside::$inside => match key {
                        $($key => Some(Self::$part),)*
                        _ => None,
                    },)*
                }
            }

            /// The member's key, for error messages.
            pub(super) fn key(self) -> &'static str {
                match self {
                    $($(Self::$part => std::str::from_utf8($key).unwrap_or_default(),)*)*
                }
            }
        }
    };
}

parts! {
    Envelope {
        /// `jsonrpc`
        JsonRpc = b"jsonrpc";
        /// `id`
        Id = b"id";
        /// `method`
        Method = b"method";
        /// `params`
        Params = b"params";
        /// `result`
        Result = b"result";
        /// `error`
        Error = b"error";
    }
    Params {
        /// `params.name`
        Name = b"name";
        /// `params.uri`
        Uri = b"uri";
        /// `params.arguments`
        Arguments = b"arguments";
        /// `params._meta`
        Meta = b"_meta";
        /// `params.cursor`
        Cursor = b"cursor";
        /// `params.requestId` of `notifications/cancelled`
        RequestId = b"requestId";
        /// `params.progressToken` of `notifications/progress`
        ProgressOf = b"progressToken";
        /// `params.inputResponses` of a retried call (2026-07-28)
        InputResponses = b"inputResponses";
        /// `params.requestState` of a retried call (2026-07-28)
        RequestState = b"requestState";
        /// `params.taskId`
        TaskId = b"taskId";
    }
    ParamsMeta {
        /// `params._meta.progressToken`
        ProgressToken = b"progressToken";
        /// `params._meta["io.modelcontextprotocol/protocolVersion"]`
        ProtocolVersion = b"io.modelcontextprotocol/protocolVersion";
        /// `params._meta["io.modelcontextprotocol/clientCapabilities"]`
        ClientCapabilities = b"io.modelcontextprotocol/clientCapabilities";
        /// `params._meta["io.modelcontextprotocol/clientInfo"]`
        ClientInfo = b"io.modelcontextprotocol/clientInfo";
        /// `params._meta["io.modelcontextprotocol/logLevel"]`
        LogLevel = b"io.modelcontextprotocol/logLevel";
        /// `params._meta["io.modelcontextprotocol/subscriptionId"]` of a notification on a listen
        SubscriptionId = b"io.modelcontextprotocol/subscriptionId";
        /// `params._meta.traceparent`
        TraceParent = b"traceparent";
    }
    Result {
        /// `result.resultType` (2026-07-28)
        ResultType = b"resultType";
        /// `result.isError` of `tools/call`
        IsError = b"isError";
        /// `result._meta`
        ResultMeta = b"_meta";
        /// `result.nextCursor`
        NextCursor = b"nextCursor";
        /// `result.ttlMs` (2026-07-28)
        TtlMs = b"ttlMs";
        /// `result.cacheScope` (2026-07-28)
        CacheScope = b"cacheScope";
    }
    Error {
        /// `error.code`
        ErrorCode = b"code";
    }
}

/// An object whose members the scan looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    Envelope,
    Params,
    ParamsMeta,
    Result,
    Error,
}

/// Where each part's value is. A message is at most 4 GiB, so that a span takes 8 bytes.
#[derive(Clone)]
pub(super) struct Spans([(u32, u32); Part::COUNT]);

impl Spans {
    pub(super) const fn new() -> Self {
        Self([(0, 0); Part::COUNT])
    }

    pub(super) fn range(&self, part: Part) -> Option<Range<usize>> {
        // A value never ends at 0, so (0, 0) means absent.
        let &(start, end) = self.0.get(part as usize)?;
        (end != 0).then_some(start as usize..end as usize)
    }

    /// Notes a part. `false` if it was there already: a duplicate key.
    pub(super) fn set(&mut self, part: Part, start: usize, end: usize) -> bool {
        let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(end)) else { return false };
        match self.0.get_mut(part as usize) {
            Some(slot) if slot.1 == 0 => {
                *slot = (start, end);
                true
            }
            _ => false,
        }
    }
}
