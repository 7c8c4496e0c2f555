//! What the scenarios share. `cargo xtask icount` counts their instructions.

/// A small call of 2026-07-28, one line without its newline.
pub const CALL_MODERN: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"icount","version":"1"}},"name":"echo","arguments":{"message":"hello"}}}"#;

/// The arguments of `echo`.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[non_exhaustive]
pub struct Message {
    /// What to give back.
    pub message: String,
}

/// How often the operation is to be done: the first argument.
///
/// # Panics
/// Without one; a scenario is started by `cargo xtask icount`.
#[must_use]
#[allow(clippy::expect_used, reason = "a scenario without its number has nothing to do")]
pub fn times() -> u64 {
    std::env::args().nth(1).and_then(|n| n.parse().ok()).expect("usage: SCENARIO N")
}
