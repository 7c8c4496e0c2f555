//! `scan-64k-escapes N`: a message of 64 KiB, a third of its text escaped.

use mcplane_icount::{ESCAPES, KIB_64, call_of, scan};

fn main() {
    scan(call_of(ESCAPES, KIB_64).leak());
}
