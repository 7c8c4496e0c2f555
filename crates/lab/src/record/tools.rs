//! What was seen of each tool of a mix.

use std::time::Duration;

use super::Fault;
use crate::results::{Errors, Latencies};

/// The calls of one tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerTool {
    pub(crate) sent: u64,
    pub(crate) errors: Errors,
    pub(crate) latencies: Latencies,
}

impl PerTool {
    /// A call ended, after a latency from its intended start or with a fault.
    pub(crate) fn end(&mut self, how: Result<Duration, Fault>) {
        match how {
            Ok(latency) => self.latencies.record(latency),
            Err(fault) => self.errors.count(fault),
        }
    }
}

/// The tool of this number, which is added if it is new.
pub(crate) fn tool(tools: &mut Vec<PerTool>, index: usize) -> &mut PerTool {
    if tools.len() <= index {
        tools.resize_with(index + 1, PerTool::default);
    }
    match tools.get_mut(index) {
        Some(tool) => tool,
        None => unreachable!("the list was made long enough"),
    }
}

/// Adds those of a later phase.
pub(crate) fn merge(tools: &mut Vec<PerTool>, later: &[PerTool]) {
    for (index, other) in later.iter().enumerate() {
        let this = tool(tools, index);
        this.sent += other.sent;
        this.errors.merge(&other.errors);
        this.latencies.merge(&other.latencies);
    }
}
