//! Who the server is, once the handshake is done.

use mcplane_proto::session;
use mcplane_proto::types::{Implementation, ServerCapabilities};
use mcplane_proto::version::{Era, Revision};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// The server at the other end.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// The revision that both sides speak.
    pub revision: Revision,
    /// The server's description of itself, for display only; `None` if it gave none, or none that
    /// can be read.
    pub info: Option<Implementation>,
    /// Its capabilities; `None` if it did not declare them (2026-07-28 pinned and no discovery).
    pub capabilities: Option<ServerCapabilities>,
    /// Its instructions for the model.
    pub instructions: Option<String>,
}

impl Peer {
    pub(super) fn new(peer: &session::Peer) -> Self {
        Self {
            revision: peer.revision,
            info: typed(peer.info.as_deref()),
            capabilities: typed(peer.capabilities.as_deref()),
            instructions: peer.instructions.clone(),
        }
    }

    /// The era of the revision.
    #[must_use]
    pub const fn era(&self) -> Era {
        self.revision.era()
    }

    /// Its name for programs.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.info.as_ref().map(|info| &*info.name)
    }

    /// Its version.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.info.as_ref().map(|info| &*info.version)
    }

    /// Its name for people.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.info.as_ref()?.title.as_deref()
    }
}

/// For display or for hints: what cannot be read counts as not said.
fn typed<T: DeserializeOwned>(raw: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}
