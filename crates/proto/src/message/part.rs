//! The members that the scan finds, and where they are.

use std::ops::Range;

macro_rules! parts {
    ($($inside:ident { $($(#[$doc:meta])* $part:ident = $key:literal;)* } + [$($other:literal),*])*) => {
        /// A member of a message whose span the scan notes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Part {
            $($($(#[$doc])* $part,)*)*
        }

        impl Part {
            pub(super) const COUNT: usize = [$($(Self::$part,)*)*].len();

            /// The noted member called `key` of the object `inside`.
            pub(super) fn find(inside: Inside, key: &[u8]) -> Option<Self> {
                match inside {
                    $(Inside::$inside => match key {
                        $($key => Some(Self::$part),)*
                        _ => None,
                    },)*
                }
            }

            /// The key that `inside` is read for and that some reader takes `key` for, although it
            /// is another one.
            pub(super) fn lookalike(inside: Inside, key: &[u8]) -> Option<&'static str> {
                let known: &[&'static [u8]] = match inside {
                    $(Inside::$inside => &[$($other.as_slice(),)* $($key.as_slice()),*],)*
                };
                let alike = lookalike(known, key)?;
                std::str::from_utf8(alike).ok()
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

// After each object the other keys that somebody here reads in it, the most frequent first.
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
    } + []
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
        /// `params.ref` of `completion/complete`
        Ref = b"ref";
    } + [
        b"argument", b"level", b"data", b"progress", b"total", b"message", b"notifications", b"task",
        b"protocolVersion", b"capabilities", b"clientInfo", b"mode", b"requestedSchema",
        b"elicitationId", b"messages", b"tools"
    ]
    Ref {
        /// `params.ref.type`
        RefType = b"type";
        /// `params.ref.name` of `ref/prompt`
        RefName = b"name";
        /// `params.ref.uri` of `ref/resource`
        RefUri = b"uri";
    } + []
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
    } + [b"tracestate", b"baggage"]
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
    } + [
        b"content", b"structuredContent", b"contents", b"messages", b"tools", b"prompts", b"resources",
        b"resourceTemplates", b"completion", b"inputRequests", b"requestState", b"protocolVersion",
        b"supportedVersions", b"capabilities", b"serverInfo", b"instructions", b"action"
    ]
    ResultMeta {} + [
        b"io.modelcontextprotocol/serverInfo", b"io.modelcontextprotocol/subscriptionId"
    ]
    Error {
        /// `error.code`
        ErrorCode = b"code";
    } + [b"message", b"data"]
}

/// An object whose members the scan looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    Envelope,
    Params,
    Ref,
    ParamsMeta,
    Result,
    ResultMeta,
    Error,
}

/// The one of `known` that a reader takes `key` for which ignores case or drops control characters,
/// or for which a string ends at a NUL. `None` for `known` itself.
pub(super) fn lookalike<'k>(known: &[&'k [u8]], key: &[u8]) -> Option<&'k [u8]> {
    let alike = if key.iter().all(|byte| (0x20..0x7f).contains(byte)) {
        known.iter().find(|known| known.eq_ignore_ascii_case(key))
    } else {
        let key = std::str::from_utf8(key).ok()?;
        known.iter().find(|known| passes_for(key, known))
    };
    alike.copied().filter(|alike| *alike != key)
}

fn passes_for(key: &str, known: &[u8]) -> bool {
    let mut rest = known;
    for letter in key.chars() {
        match rest.split_first() {
            None if letter == '\0' => return true,
            _ if letter.is_control() => {}
            Some((first, others)) if folded(letter) == char::from(first.to_ascii_lowercase()) => {
                rest = others;
            }
            _ => return false,
        }
    }
    rest.is_empty()
}

/// Lower case, and the four letters beyond ASCII whose other case is an ASCII letter.
const fn folded(letter: char) -> char {
    match letter {
        'ſ' => 's',
        '\u{212a}' => 'k',
        'ı' | 'İ' => 'i',
        other => other.to_ascii_lowercase(),
    }
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
