//! The HTTP/1.1 client of the generator: exactly as many connections as calls in flight, nothing
//! between the load and the bytes.
//!
//! * `response` — bytes to heads and bodies.
//! * `lane`     — one connection.
//! * `ready`    — which connections have something to do.
//! * `pool`     — the connections of one session.
//! * [`Request`] — the fixed bytes of a request (this file).

mod lane;
mod pool;
mod ready;
mod response;

pub(super) use lane::{Came, Exchange};
pub(super) use pool::Pool;
pub(super) use response::{Head, Kind};

use super::call::Call;
use crate::client::address::{Address, Place};

/// The start of every request to one address.
pub(super) fn head(method: &str, address: &Address, path: Option<&str>) -> Vec<u8> {
    let Place::Net { authority, path: own, .. } = &address.place else { return Vec::new() };
    format!("{method} {} HTTP/1.1\r\nHost: {authority}\r\n", path.unwrap_or(own)).into_bytes()
}

/// Appends one header. What would end it early is left out.
pub(super) fn header(out: &mut Vec<u8>, name: &str, value: &str) {
    let plain = |byte: &u8| !matches!(byte, b'\r' | b'\n' | 0);
    out.extend(name.bytes().filter(plain));
    out.extend_from_slice(b": ");
    out.extend(value.bytes().filter(plain));
    out.extend_from_slice(b"\r\n");
}

/// Appends a request with a body around an id; without one the body is `before` alone.
pub(super) fn post(out: &mut Vec<u8>, call: &Call, id: Option<i64>) {
    let digits = id.map_or(0, digits);
    out.extend_from_slice(&call.head);
    out.extend_from_slice(b"Content-Length: ");
    let length = call.before.len() + digits + call.after.len();
    super::call::write_digits(out, i64::try_from(length).unwrap_or(i64::MAX));
    out.extend_from_slice(b"\r\n\r\n");
    match id {
        Some(id) => call.write_body(id, out),
        None => out.extend_from_slice(&call.before),
    }
}

/// How many decimal digits a number has that is not negative.
fn digits(number: i64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_counts_the_id() {
        let call = Call {
            head: b"H\r\n".to_vec(),
            before: b"{".to_vec(),
            after: b"}".to_vec(),
            ..Call::default()
        };
        for (id, want) in [
            (Some(7), "H\r\nContent-Length: 3\r\n\r\n{7}"),
            (Some(1000), "H\r\nContent-Length: 6\r\n\r\n{1000}"),
        ] {
            let mut out = Vec::new();
            post(&mut out, &call, id);
            assert_eq!(String::from_utf8(out).unwrap(), want);
        }
        let mut out = Vec::new();
        header(&mut out, "A", "b\r\nC: d");
        assert_eq!(out, b"A: bC: d\r\n");
    }
}
