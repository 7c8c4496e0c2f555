//! `echo-64k N`: a message of 64 KiB without escapes.

use mcplane_icount::{KIB_64, LETTERS, call_of, echo};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    echo(&call_of(LETTERS, KIB_64))
}
