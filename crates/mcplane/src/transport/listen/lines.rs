//! A server on a socket: one message per line, on every connection.

use std::future::Future;
use std::sync::Arc;

use tokio::io::{ReadHalf, WriteHalf};

use super::connections::Connections;
use super::patient::Patient;
use super::{Admission, Arrived, Incoming, Limits, Listener, Stream};
use crate::error::Result;
use crate::server::Service;
use crate::transport::Transport;
use crate::transport::end::End;

/// Serves every connection of `listener` until `shutdown` comes: each in a task of its own, one
/// message per line in both directions, as on stdio.
///
/// * A connection beyond the [`Limits`] is closed at once.
/// * A connection is closed at the first line that is neither a JSON object nor an array, and
///   nothing after that line is read: a web page could otherwise make a browser call tools here,
///   with a `POST` whose head is skipped and whose body is a call.
/// * When a client goes away, its requests in flight are cancelled after [`Limits::half_closed`].
/// * At shutdown the listener is closed, requests in flight may finish within [`Limits::drain`],
///   and the rest is cancelled.
///
/// Cancel safe: dropping the future closes the listener and every connection.
pub async fn serve(listener: Listener, service: Service, shutdown: impl Future<Output = ()>) {
    let limits = listener.limits().clone();
    let connections = Connections::accept_until(listener, shutdown, |incoming, end| {
        converse(incoming, service.clone(), limits.clone(), end)
    });
    connections.await.drain(limits.drain).await;
}

async fn converse(incoming: Incoming, service: Service, limits: Limits, mut end: End) {
    let arrived = tokio::select! {
        biased;
        () = &mut end => return,
        arrived = incoming.arrive(limits.first_byte) => arrived,
    };
    let Ok(Arrived { stream, admission: Admission::Admitted, place, mut lost }) = arrived else {
        return;
    };
    let place = Arc::new(place);
    let (stream, closed) = Patient::new(stream, &limits, end);
    let stream = stream.settling(Arc::clone(&place));
    let gone = async {
        match closed.await {
            Ok(()) => tokio::time::sleep(limits.half_closed).await,
            // The stream was dropped: the other branch is done.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        // How a connection breaks concerns nobody but its client.
        _ = service.serve_socket(Connection(stream)) => {}
        () = gone => {}
        () = &mut lost => {}
    }
    drop(place);
}

struct Connection(Patient<Stream>);

impl Transport for Connection {
    type Reader = ReadHalf<Patient<Stream>>;
    type Writer = WriteHalf<Patient<Stream>>;

    fn open(self) -> Result<(Self::Reader, Self::Writer)> {
        Ok(tokio::io::split(self.0))
    }
}
