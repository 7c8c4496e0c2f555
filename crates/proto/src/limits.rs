//! Every bound of the protocol layer, with its unit and its reason.

use std::time::Duration;

/// Longest message, in bytes. The official SDKs accept 4 MiB bodies on HTTP; a pipe carries large
/// tool results (screenshots, files) as one line, and rmcp's line limit is 16 MiB.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Deepest nesting of a message, in levels. serde_json refuses 128, so anything that passes here
/// can be parsed by a handler.
pub const DEPTH_MAX: usize = 100;

/// Most messages in one batch of 2025-03-26. A batch is answered as one array, held in memory.
pub const BATCH_MAX: usize = 256;

/// Longest event of a server-sent event stream, in bytes: one message plus its field names.
pub const EVENT_BYTES_MAX: usize = MESSAGE_BYTES_MAX + 1024;

/// Most lines that a connection takes in before everybody else on its thread has a turn. A peer that
/// says something without an end must not keep the thread; at a microsecond or a few per line, a turn
/// is short, and a batch of calls is still answered with one write.
pub const LINES_PER_TURN: usize = 128;

/// Most requests in flight per direction of one connection. Each costs about 200 bytes of state.
pub const IN_FLIGHT_MAX: usize = 1024;

/// Most open `subscriptions/listen` requests on one connection.
pub const LISTENS_MAX: usize = 64;

/// Most resource subscriptions on one connection (legacy) or in one listen (modern).
pub const SUBSCRIPTIONS_MAX: usize = 1024;

/// Most rounds of `input_required` for one call; the official SDKs stop at 10.
pub const INPUT_ROUNDS_MAX: u32 = 10;

/// Longest `requestState`, in bytes. It travels in every round, both ways.
pub const REQUEST_STATE_BYTES_MAX: usize = 64 * 1024;

/// How long a client waits for the answer to its era probe; the Python and Rust SDKs wait as long.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client waits for one answer when the caller names no deadline.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How far progress notifications may extend a request's deadline, from its start.
pub const REQUEST_TIMEOUT_MAX: Duration = Duration::from_secs(10 * 60);

/// How long a peer may take nothing of what it is sent while so much waits that it is not read any
/// more. Then it is taken for dead.
pub const STALL_MAX: Duration = Duration::from_secs(30);

/// Longest time a client keeps a cached result, whatever `ttlMs` says.
pub const CACHE_TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Most values in one completion (completion §Data types: at most 100).
pub const COMPLETION_VALUES_MAX: usize = 100;
