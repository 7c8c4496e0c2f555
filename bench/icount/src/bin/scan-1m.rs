//! `scan-1m N`: a message of 1 MiB without escapes.

use mcplane_icount::{LETTERS, MIB_1, call_of, scan};

fn main() {
    scan(call_of(LETTERS, MIB_1).leak());
}
