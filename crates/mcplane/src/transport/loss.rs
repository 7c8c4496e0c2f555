//! Requests that a transport has lost: told beside the lines, where no peer can say so.

use std::fmt;
use std::sync::Arc;

use mcplane_proto::error::ErrorObject;

use crate::error::{Error, Failure};

/// A request that did not reach its server, or whose answer did not come back.
#[derive(Debug)]
pub struct Loss {
    pub(crate) id: i64,
    pub(crate) failure: Failure,
}

impl Loss {
    /// The id of the request.
    #[must_use]
    pub const fn id(&self) -> i64 {
        self.id
    }

    /// What to tell a peer that waits for the answer on another connection. The sentence names the
    /// server as it was addressed.
    #[must_use]
    pub fn object(&self) -> ErrorObject {
        self.failure.object()
    }
}

impl From<Loss> for Error {
    fn from(loss: Loss) -> Self {
        loss.failure.into()
    }
}

/// Where a transport tells of them. Empty for a stream that is whole or broken.
#[derive(Clone, Default)]
pub struct Losses(Option<Arc<dyn Source>>);

/// Has lost requests.
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "streams lose nothing"))]
pub(crate) trait Source: Send + Sync {
    /// From now on they are asked for. Until then, whoever reads the lines gets an error in the
    /// server's place.
    fn heard(&self);

    /// The next one, if every line before it was read. Whoever reads the lines is woken for it.
    fn next(&self) -> Option<Loss>;
}

impl Losses {
    #[cfg(feature = "http")]
    pub(crate) const fn of(source: Arc<dyn Source>) -> Self {
        Self(Some(source))
    }

    /// Says that they are asked for from now on.
    pub(crate) fn heard(&self) {
        if let Some(source) = &self.0 {
            source.heard();
        }
    }

    pub(crate) fn next(&self) -> Option<Loss> {
        self.0.as_ref()?.next()
    }
}

impl fmt::Debug for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Losses").field(&self.0.is_some()).finish()
    }
}
