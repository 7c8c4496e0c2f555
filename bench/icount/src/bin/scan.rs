//! `scan N`: finds the parts of a small `tools/call` of 2026-07-28, N times.

use std::hint::black_box;

use mcplane_icount::{CALL_MODERN, times};
use mcplane_proto::Message;

fn main() {
    for _ in 0..times() {
        let message = Message::scan(black_box(CALL_MODERN));
        assert!(black_box(message).is_ok());
    }
}
