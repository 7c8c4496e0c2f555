//! What starting costs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What starting costs.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ColdStart {
    /// The command line or the address.
    pub target: String,
    /// `process`: each start was of a fresh process; `connection`: the server ran already.
    pub fresh: String,
    /// The tool of the first call.
    pub tool: Option<String>,
    /// How often it was to be tried.
    #[serde(default)]
    pub asked: usize,
    /// How often it was tried.
    pub starts: usize,
    /// Starts that failed: they are in no figure.
    pub failed: usize,
    /// Why the first of them did.
    pub first_failure: Option<String>,
    /// A connection of TCP or a Unix socket: for a server that ran already.
    pub connect: Option<Spread>,
    /// The handshake of TLS, after that.
    pub tls: Option<Spread>,
    /// From before the process was started, or connected to, until it accepted a connection: for a
    /// command that listens at an address.
    pub listens: Option<Spread>,
    /// From before the process was started, or connected to, until the handshake of MCP was answered.
    pub handshake: Option<Spread>,
    /// From the same moment until the first `tools/list` was answered in full.
    pub ready: Option<Spread>,
    /// The first call of the tool by itself.
    pub first_call: Option<Spread>,
}

/// One figure over all starts, in nanoseconds.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spread {
    /// The least.
    pub min_ns: u64,
    /// The median.
    pub median_ns: u64,
    /// The 95 % interval of the median from order statistics; `None` below six values.
    pub median_interval_ns: Option<[u64; 2]>,
    /// The greatest.
    pub max_ns: u64,
    /// Every value, in the order of the starts.
    pub values_ns: Vec<u64>,
}

impl ColdStart {
    /// That it was stopped before its end, in words, if it was.
    pub(crate) fn interrupted(&self) -> Option<String> {
        let Self { starts, asked, .. } = self;
        (starts < asked).then(|| format!("interrupted after {starts} of {asked} starts"))
    }

    /// The figures with their names, in the order of time.
    pub fn figures(&self) -> impl Iterator<Item = (&'static str, &Spread)> {
        let all = [
            ("connect", &self.connect),
            ("TLS", &self.tls),
            ("listens", &self.listens),
            ("handshake", &self.handshake),
            ("tools listed", &self.ready),
            ("first call", &self.first_call),
        ];
        all.into_iter().filter_map(|(name, spread)| Some((name, spread.as_ref()?)))
    }
}
