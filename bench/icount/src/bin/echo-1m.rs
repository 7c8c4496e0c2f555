//! `echo-1m N`: a message of 1 MiB without escapes.

use mcplane_icount::{LETTERS, MIB_1, call_of, echo};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    echo(&call_of(LETTERS, MIB_1))
}
