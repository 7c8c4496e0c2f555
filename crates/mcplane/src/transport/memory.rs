//! A pair of transports inside one process, for tests, embedding and measuring.

use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

use super::Transport;
use crate::error::Result;

/// Bytes that one direction holds before its writer waits: the same as a Linux pipe.
pub const BUFFER_BYTES: usize = 64 * 1024;

/// One end of a pair.
#[derive(Debug)]
pub struct Memory(DuplexStream);

/// Two connected ends.
#[must_use]
pub fn pair() -> (Memory, Memory) {
    let (left, right) = tokio::io::duplex(BUFFER_BYTES);
    (Memory(left), Memory(right))
}

impl Transport for Memory {
    type Reader = ReadHalf<DuplexStream>;
    type Writer = WriteHalf<DuplexStream>;

    fn open(self) -> Result<(Self::Reader, Self::Writer)> {
        Ok(tokio::io::split(self.0))
    }
}
