//! `scan N`: a small call.

use mcplane_icount::{CALL_MODERN, scan};

fn main() {
    scan(CALL_MODERN);
}
