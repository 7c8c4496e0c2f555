//! The members that the scan finds, and where they are.

use std::ops::Range;

macro_rules! parts {
    ($($(#[$doc:meta])* $part:ident = $inside:ident / $key:literal;)*) => {
        /// A member of a message whose span the scan notes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Part {
            $($(#[$doc])* $part,)*
        }

        impl Part {
            pub(super) const COUNT: usize = [$(Self::$part),*].len();

            /// The noted member called `key` of the object `inside`.
            pub(super) fn find(inside: Inside, key: &[u8]) -> Option<Self> {
                match (inside, key) {
                    $((Inside::$inside, $key) => Some(Self::$part),)*
                    _ => None,
                }
            }

            /// The member's key, for error messages.
            pub(super) fn key(self) -> &'static str {
                match self {
                    $(Self::$part => std::str::from_utf8($key).unwrap_or_default(),)*
                }
            }
        }
    };
}

parts! {
    /// `jsonrpc`
    JsonRpc = Envelope / b"jsonrpc";
    /// `id`
    Id = Envelope / b"id";
    /// `method`
    Method = Envelope / b"method";
    /// `params`
    Params = Envelope / b"params";
    /// `result`
    Result = Envelope / b"result";
    /// `error`
    Error = Envelope / b"error";
    /// `params.name`
    Name = Params / b"name";
    /// `params.uri`
    Uri = Params / b"uri";
    /// `params.arguments`
    Arguments = Params / b"arguments";
    /// `params._meta`
    Meta = Params / b"_meta";
    /// `params.cursor`
    Cursor = Params / b"cursor";
    /// `params.requestId` of `notifications/cancelled`
    RequestId = Params / b"requestId";
    /// `params.progressToken` of `notifications/progress`
    ProgressOf = Params / b"progressToken";
    /// `params.inputResponses` of a retried call (2026-07-28)
    InputResponses = Params / b"inputResponses";
    /// `params.requestState` of a retried call (2026-07-28)
    RequestState = Params / b"requestState";
    /// `params.taskId`
    TaskId = Params / b"taskId";
    /// `params._meta.progressToken`
    ProgressToken = ParamsMeta / b"progressToken";
    /// `params._meta["io.modelcontextprotocol/protocolVersion"]`
    ProtocolVersion = ParamsMeta / b"io.modelcontextprotocol/protocolVersion";
    /// `params._meta["io.modelcontextprotocol/clientCapabilities"]`
    ClientCapabilities = ParamsMeta / b"io.modelcontextprotocol/clientCapabilities";
    /// `params._meta["io.modelcontextprotocol/clientInfo"]`
    ClientInfo = ParamsMeta / b"io.modelcontextprotocol/clientInfo";
    /// `params._meta["io.modelcontextprotocol/logLevel"]`
    LogLevel = ParamsMeta / b"io.modelcontextprotocol/logLevel";
    /// `params._meta["io.modelcontextprotocol/subscriptionId"]` of a notification on a listen
    SubscriptionId = ParamsMeta / b"io.modelcontextprotocol/subscriptionId";
    /// `params._meta.traceparent`
    TraceParent = ParamsMeta / b"traceparent";
    /// `result.resultType` (2026-07-28)
    ResultType = Result / b"resultType";
    /// `result.isError` of `tools/call`
    IsError = Result / b"isError";
    /// `result._meta`
    ResultMeta = Result / b"_meta";
    /// `result.nextCursor`
    NextCursor = Result / b"nextCursor";
    /// `result.ttlMs` (2026-07-28)
    TtlMs = Result / b"ttlMs";
    /// `result.cacheScope` (2026-07-28)
    CacheScope = Result / b"cacheScope";
    /// `error.code`
    ErrorCode = Error / b"code";
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
