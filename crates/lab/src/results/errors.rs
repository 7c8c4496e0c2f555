//! Failures by kind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Calls that failed, by kind. None of them counts as a success anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Errors {
    /// The connection ended with the call unanswered, or a line came that answers no call of ours:
    /// not JSON, an unknown id, a second answer.
    pub transport: u64,
    /// A JSON-RPC error.
    pub json_rpc: u64,
    /// A result with `isError: true`.
    pub is_error: u64,
    /// No answer within the time limit.
    pub timeout: u64,
    /// A result that differs from the first one.
    pub wrong_content: u64,
}

impl Errors {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.transport + self.json_rpc + self.is_error + self.timeout + self.wrong_content
    }

    /// How often each kind was seen, by its name.
    #[must_use]
    pub const fn kinds(&self) -> [(&'static str, u64); 5] {
        [
            ("transport", self.transport),
            ("JSON-RPC", self.json_rpc),
            ("isError", self.is_error),
            ("timeout", self.timeout),
            ("wrong content", self.wrong_content),
        ]
    }

    pub(crate) const fn merge(&mut self, other: &Self) {
        self.transport += other.transport;
        self.json_rpc += other.json_rpc;
        self.is_error += other.is_error;
        self.timeout += other.timeout;
        self.wrong_content += other.wrong_content;
    }
}
