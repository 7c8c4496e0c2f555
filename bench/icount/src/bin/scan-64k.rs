//! `scan-64k N`: a message of 64 KiB without escapes.

use mcplane_icount::{KIB_64, LETTERS, call_of, scan};

fn main() {
    scan(call_of(LETTERS, KIB_64).leak());
}
