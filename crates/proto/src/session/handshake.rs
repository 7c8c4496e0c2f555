//! Which era and revision the two sides speak, seen from the client.
//!
//! A client that may speak both eras probes with `server/discover`: servers of 2026-07-28 must
//! implement it, so any other answer is evidence of a legacy server (2026-07-28 basic §Version
//! negotiation, §Backward compatibility). The verdicts on every possible answer are the table in
//! [`Handshake::probe_answered`].

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::error::{Code, ErrorObject};
use crate::method::Method;
use crate::version::{Era, Revision};

/// What the client is willing to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EraChoice {
    /// Probe for 2026-07-28, fall back to `initialize` with the newest legacy revision.
    #[default]
    Auto,
    /// `initialize` without a probe, and whichever legacy revision the server answers with.
    Legacy,
    /// This revision and no other. For 2026-07-28 a failing discovery is not an obstacle: the
    /// revision is pinned, the server's capabilities are then unknown.
    Only(Revision),
}

/// Who the server is, once that is settled.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// The revision both sides speak from now on.
    pub revision: Revision,
    /// The server's `Implementation`; display only.
    pub info: Option<Box<RawValue>>,
    /// The server's capabilities object.
    pub capabilities: Option<Box<RawValue>>,
    /// What the server wants the model to know.
    pub instructions: Option<String>,
}

impl Peer {
    /// The era of the agreed revision.
    #[must_use]
    pub const fn era(&self) -> Era {
        self.revision.era()
    }
}

/// Why two sides do not meet.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// No revision in common.
    #[error("no common revision: the server speaks {}", offered.join(", "))]
    NoCommonRevision {
        /// What the server named.
        offered: Vec<String>,
    },
    /// The server refused.
    #[error("the server refused `{method}`: {error}")]
    Refused {
        /// What was asked.
        method: Method,
        /// The answer.
        error: ErrorObject,
    },
    /// No answer in time.
    #[error("no answer to `{method}` within {} s", after.as_secs_f64())]
    TimedOut {
        /// What was asked.
        method: Method,
        /// How long the client waited.
        after: Duration,
    },
    /// The answer makes no sense.
    #[error("the answer to `{method}` is not what the protocol says: {why}")]
    Malformed {
        /// What was asked.
        method: Method,
        /// What is wrong.
        why: String,
    },
    /// The connection ended.
    #[error("the server closed the connection before it answered `{method}`")]
    Closed {
        /// What was asked.
        method: Method,
    },
}

/// What to do next.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "a driver must handle every step")]
pub enum Step {
    /// Ask `server/discover` under this revision.
    Discover(Revision),
    /// Ask `initialize` for this revision.
    Initialize(Revision),
    /// The server does not survive a probe: start it again, then ask `initialize`.
    Respawn(Revision),
    /// Agreed. A legacy session still owes `notifications/initialized`.
    Ready(Peer),
    /// No conversation.
    Failed(HandshakeError),
}

/// The client's side of both handshakes.
#[derive(Debug)]
pub struct Handshake {
    choice: EraChoice,
    /// One correction of the revision per handshake: no ping-pong with a confused server.
    corrected: bool,
}

impl Handshake {
    /// A handshake and its first step.
    #[must_use]
    pub const fn start(choice: EraChoice) -> (Self, Step) {
        let asked = match choice {
            EraChoice::Auto => Revision::LATEST,
            EraChoice::Legacy => Revision::LATEST_LEGACY,
            EraChoice::Only(revision) => revision,
        };
        (Self { choice, corrected: false }, ask(asked))
    }

    /// The answer to `server/discover`.
    pub fn probe_answered(&mut self, answer: Result<&[u8], ErrorObject>) -> Step {
        match answer {
            Ok(result) => match serde_json::from_slice::<DiscoverResult>(result) {
                Ok(found) => self.discovered(found),
                // Not a DiscoverResult: some legacy server that answers anything.
                Err(_) => self.legacy(),
            },
            Err(error) if error.code == Code::UNSUPPORTED_VERSION => self.unsupported(&error),
            Err(error)
                if matches!(
                    error.code,
                    Code::HEADER_MISMATCH | Code::MISSING_CLIENT_CAPABILITY | Code::UNAVAILABLE
                ) =>
            {
                // Codes that only 2026-07-28 knows: a modern server that we displease. And one that
                // is not available has said nothing of its era.
                Step::Failed(HandshakeError::Refused { method: Method::Discover, error })
            }
            // Whatever the code: legacy servers answer an unknown method in a dozen ways.
            Err(_) => self.legacy(),
        }
    }

    /// No answer to `server/discover`. On stdio that is what some legacy servers do.
    pub fn probe_timed_out(&mut self) -> Step {
        self.legacy()
    }

    /// The connection ended under the probe: some legacy servers exit on any request before
    /// `initialize`.
    pub fn probe_closed(&mut self) -> Step {
        match self.legacy() {
            Step::Initialize(revision) => Step::Respawn(revision),
            _ => Step::Failed(HandshakeError::Closed { method: Method::Discover }),
        }
    }

    /// The answer to `initialize`.
    pub fn initialize_answered(&mut self, answer: Result<&[u8], ErrorObject>) -> Step {
        let method = Method::Initialize;
        let result = match answer {
            Ok(result) => result,
            // A slow modern server can answer the probe late and `initialize` with -32022;
            // -32602 with `supported` is how legacy documents refuse a version.
            Err(error) => {
                let supported = supported(&error);
                return match self.best(&supported) {
                    Some(revision) if !std::mem::replace(&mut self.corrected, true) => {
                        ask(revision)
                    }
                    _ => Step::Failed(HandshakeError::Refused { method, error }),
                };
            }
        };
        let found: InitializeResult = match serde_json::from_slice(result) {
            Ok(found) => found,
            Err(error) => {
                let why = error.to_string();
                return Step::Failed(HandshakeError::Malformed { method, why });
            }
        };
        match Revision::parse(&found.protocol_version) {
            Some(revision) if revision.era() == Era::Legacy && self.accepts(revision) => {
                Step::Ready(Peer {
                    revision,
                    info: found.server_info,
                    capabilities: found.capabilities,
                    instructions: found.instructions,
                })
            }
            _ => Step::Failed(HandshakeError::NoCommonRevision {
                offered: vec![found.protocol_version],
            }),
        }
    }

    fn discovered(&mut self, found: DiscoverResult) -> Step {
        match self.best(&found.supported_versions) {
            Some(revision) if revision.era() == Era::Modern => Step::Ready(Peer {
                revision,
                info: found.meta.and_then(|meta| meta.server_info),
                capabilities: found.capabilities,
                instructions: found.instructions,
            }),
            Some(revision) => ask(revision),
            None => {
                Step::Failed(HandshakeError::NoCommonRevision { offered: found.supported_versions })
            }
        }
    }

    fn unsupported(&mut self, error: &ErrorObject) -> Step {
        let offered = supported(error);
        match self.best(&offered) {
            Some(revision) if revision.era() == Era::Legacy => ask(revision),
            Some(revision) if !std::mem::replace(&mut self.corrected, true) => ask(revision),
            _ => Step::Failed(HandshakeError::NoCommonRevision { offered }),
        }
    }

    fn legacy(&self) -> Step {
        match self.choice {
            EraChoice::Auto | EraChoice::Legacy => ask(Revision::LATEST_LEGACY),
            EraChoice::Only(revision) => {
                Step::Ready(Peer { revision, info: None, capabilities: None, instructions: None })
            }
        }
    }

    /// The newest revision that is both offered and accepted; a modern one first.
    fn best(&self, offered: &[String]) -> Option<Revision> {
        let known = offered.iter().filter_map(|name| Revision::parse(name));
        known.filter(|&revision| self.accepts(revision)).max()
    }

    fn accepts(&self, revision: Revision) -> bool {
        match self.choice {
            EraChoice::Auto => true,
            EraChoice::Legacy => revision.era() == Era::Legacy,
            EraChoice::Only(only) => only == revision,
        }
    }
}

const fn ask(revision: Revision) -> Step {
    match revision.era() {
        Era::Modern => Step::Discover(revision),
        Era::Legacy => Step::Initialize(revision),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult {
    supported_versions: Vec<String>,
    capabilities: Option<Box<RawValue>>,
    instructions: Option<String>,
    #[serde(rename = "_meta")]
    meta: Option<ResultMeta>,
}

#[derive(Deserialize)]
struct ResultMeta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: String,
    capabilities: Option<Box<RawValue>>,
    server_info: Option<Box<RawValue>>,
    instructions: Option<String>,
}

/// `data.supported` of an error; empty if there is none.
fn supported(error: &ErrorObject) -> Vec<String> {
    #[derive(Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    let data = error.data.as_deref().map(RawValue::get).unwrap_or_default();
    serde_json::from_str(data).map_or_else(|_| Vec::new(), |data: Data| data.supported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto() -> Handshake {
        Handshake::start(EraChoice::Auto).0
    }

    fn error(code: i64, supported: Option<&[&str]>) -> Result<&'static [u8], ErrorObject> {
        let error = ErrorObject::new(Code(code), "no");
        Err(match supported {
            Some(list) => error.with_data(&serde_json::json!({"supported": list})),
            None => error,
        })
    }

    fn discover(versions: &[&str]) -> Vec<u8> {
        serde_json::json!({"supportedVersions": versions, "capabilities": {"tools": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s"}}})
        .to_string()
        .into_bytes()
    }

    /// The table of the digest, row by row.
    #[test]
    fn verdicts_on_the_probe() {
        let latest = Revision::LATEST_LEGACY;
        assert!(matches!(auto().probe_answered(Ok(&discover(&["2026-07-28"]))),
            Step::Ready(peer) if peer.era() == Era::Modern && peer.info.is_some()));
        assert!(matches!(
            auto().probe_answered(Ok(&discover(&["2025-06-18", "2024-11-05"]))),
            Step::Initialize(Revision::V2025_06_18)
        ));
        assert!(matches!(auto().probe_answered(Ok(b"{}")), Step::Initialize(r) if r == latest));
        assert!(matches!(
            auto().probe_answered(error(-32022, Some(&["2027-01-01"]))),
            Step::Failed(HandshakeError::NoCommonRevision { .. })
        ));
        assert!(matches!(auto().probe_answered(error(-32022, Some(&["2025-11-25"]))),
            Step::Initialize(r) if r == latest));
        for code in [-32020, -32021, Code::UNAVAILABLE.0] {
            assert!(matches!(auto().probe_answered(error(code, None)), Step::Failed(_)));
        }
        for code in [-32601, -32602, -32600, -32000, 0, -32001] {
            assert!(matches!(auto().probe_answered(error(code, None)),
                Step::Initialize(r) if r == latest));
        }
        assert!(matches!(auto().probe_timed_out(), Step::Initialize(r) if r == latest));
        assert!(matches!(auto().probe_closed(), Step::Respawn(r) if r == latest));
    }

    #[test]
    fn a_revision_is_corrected_once() {
        let mut handshake = auto();
        let again = error(-32022, Some(&["2026-07-28"]));
        assert!(matches!(handshake.probe_answered(again.clone()), Step::Discover(_)));
        assert!(matches!(handshake.probe_answered(again), Step::Failed(_)));
    }

    #[test]
    fn initialize_may_turn_out_to_be_for_a_modern_server() {
        let mut handshake = auto();
        handshake.probe_timed_out();
        let late = handshake.initialize_answered(error(-32022, Some(&["2026-07-28"])));
        assert!(matches!(late, Step::Discover(Revision::V2026_07_28)));
    }

    #[test]
    fn the_server_may_choose_an_older_revision_but_not_an_unknown_or_a_modern_one() {
        let answer = |version: &str| {
            let result = serde_json::json!({"protocolVersion": version, "capabilities": {},
                "serverInfo": {"name": "s", "version": "1"}});
            auto().initialize_answered(Ok(result.to_string().as_bytes()))
        };
        assert!(matches!(answer("2024-11-05"),
            Step::Ready(peer) if peer.revision == Revision::V2024_11_05));
        for bad in ["2026-07-28", "1.0"] {
            assert!(matches!(answer(bad), Step::Failed(HandshakeError::NoCommonRevision { .. })));
        }
        assert!(matches!(
            auto().initialize_answered(Ok(b"[]")),
            Step::Failed(HandshakeError::Malformed { .. })
        ));
    }

    #[test]
    fn the_legacy_era_takes_any_of_its_revisions_and_no_other() {
        let (mut legacy, step) = Handshake::start(EraChoice::Legacy);
        assert!(matches!(step, Step::Initialize(Revision::LATEST_LEGACY)));
        let result = br#"{"protocolVersion":"2024-11-05","capabilities":{}}"#;
        let step = legacy.initialize_answered(Ok(result));
        assert!(matches!(step, Step::Ready(Peer { revision: Revision::V2024_11_05, .. })));
        let (mut legacy, _) = Handshake::start(EraChoice::Legacy);
        let step = legacy.initialize_answered(error(-32022, Some(&["2026-07-28"])));
        assert!(matches!(step, Step::Failed(HandshakeError::Refused { .. })));
    }

    #[test]
    fn a_pinned_modern_revision_survives_a_failed_discovery() {
        let pin = EraChoice::Only(Revision::LATEST);
        let (mut handshake, step) = Handshake::start(pin);
        assert!(matches!(step, Step::Discover(_)));
        assert!(matches!(handshake.probe_answered(error(-32601, None)),
            Step::Ready(peer) if peer.era() == Era::Modern && peer.capabilities.is_none()));
        let (_, step) = Handshake::start(EraChoice::Only(Revision::V2024_11_05));
        assert!(matches!(step, Step::Initialize(Revision::V2024_11_05)));
    }
}
