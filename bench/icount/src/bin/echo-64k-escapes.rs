//! `echo-64k-escapes N`: a message of 64 KiB, a third of its text escaped.

use mcplane_icount::{ESCAPES, KIB_64, call_of, echo};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    echo(&call_of(ESCAPES, KIB_64))
}
