//! The body of an answer, which returns its connection to the pool once it has been read.

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::pool::{Lease, Pool, cause};
use crate::error::{Failure, Lost};

/// Dropped before its end, it ends its HTTP/1 connection, or resets its HTTP/2 stream.
pub(super) struct Body {
    incoming: Incoming,
    lease: Option<(Lease, Pool)>,
}

impl Body {
    pub(super) fn new(incoming: Incoming, lease: Lease, pool: Pool) -> Self {
        let mut body = Self { incoming, lease: Some((lease, pool)) };
        body.check_end();
        body
    }

    /// The next piece; `None` at the end. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        loop {
            match self.incoming.frame().await {
                None => {
                    self.give_back();
                    return None;
                }
                Some(Ok(frame)) => {
                    self.check_end();
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
                Some(Err(error)) => {
                    self.lease = None;
                    let why = format!("the connection broke inside an answer: {}", cause(&error));
                    return Some(Err(Failure::new(Lost::Broken, why)));
                }
            }
        }
    }

    fn check_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        if let Some((lease, pool)) = self.lease.take() {
            pool.give_back(lease);
        }
    }
}

/// The whole body, without a copy if it comes in one piece.
pub(super) async fn collect(mut body: Body, bytes_max: usize) -> Result<Bytes, Failure> {
    let too_long =
        || Failure::new(Lost::Malformed, format!("an answer of more than {bytes_max} bytes"));
    let announced = body.incoming.size_hint().lower();
    if announced > bytes_max as u64 {
        return Err(too_long());
    }
    let Some(first) = body.next().await.transpose()? else { return Ok(Bytes::new()) };
    if first.len() > bytes_max {
        return Err(too_long());
    }
    let Some(second) = body.next().await.transpose()? else { return Ok(first) };
    let mut whole = BytesMut::with_capacity((announced as usize).max(first.len() + second.len()));
    whole.extend_from_slice(&first);
    let mut piece = Some(second);
    while let Some(bytes) = piece {
        if whole.len() + bytes.len() > bytes_max {
            return Err(too_long());
        }
        whole.extend_from_slice(&bytes);
        piece = body.next().await.transpose()?;
    }
    Ok(whole.freeze())
}
