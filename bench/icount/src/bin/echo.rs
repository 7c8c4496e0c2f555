//! `echo N`: a small call.

use mcplane_icount::{CALL_MODERN, echo};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    echo(CALL_MODERN)
}
