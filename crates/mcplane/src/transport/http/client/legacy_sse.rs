//! HTTP+SSE of 2024-11-05: messages go to one address and come from another. Deprecated; nothing
//! else depends on this file but the fallback of `initialize`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method as Verb, Uri};
use mcplane_proto::id::Id;
use mcplane_proto::message::Message;
use tokio::time::timeout;
use url::Url;

use super::answer::{Answer, Stream};
use super::endpoint::Outgoing;
use super::shared::{Order, Shared};
use super::tasks::Purpose;
use super::verdict::Verdict;
use crate::error::{Failure, Lost};

/// How long the server may take to say where messages go.
const ENDPOINT_TIME_MAX: Duration = Duration::from_secs(10);

/// Opens the stream, learns where to send messages, and lets the stream go on.
pub(super) async fn connect(shared: &Arc<Shared>) -> Result<(), Failure> {
    let late = |_| Failure::new(Lost::Late, "the event stream does not say where messages go");
    let (stream, target) = timeout(ENDPOINT_TIME_MAX, open(shared)).await.map_err(late)??;
    shared.course().sse = Some(target);
    shared.settle(Verdict::Sse);
    let go_on = go_on(Arc::clone(shared), stream);
    shared.order(Order::Start(Purpose::Stream, Box::pin(go_on)));
    Ok(())
}

impl Shared {
    /// POSTs a message; its answer, if it has one, comes on the stream.
    pub(super) async fn sse_post(
        &self,
        message: &Message,
        waits: Option<&Id>,
    ) -> Result<(), Failure> {
        let target = self.course().sse.clone();
        let target = target.unwrap_or_else(|| self.endpoint.uri.clone());
        let headers = self.endpoint.post_headers();
        let response = self.post_to(target.clone(), message, headers, waits).await?;
        if !response.status().is_success() {
            return match Answer::of(response, &target).await? {
                Answer::Refused(_, failure) => Err(failure),
                _ => Ok(()),
            };
        }
        let _ = super::body::collect(response.into_body(), IGNORED_BYTES_MAX).await;
        Ok(())
    }

    pub(super) async fn sse_request(self: Arc<Self>, message: Message, id: Id) {
        if let Err(failure) = self.sse_post(&message, Some(&id)).await {
            self.fail(&id, &failure);
        }
    }

    pub(super) async fn sse_notice(self: Arc<Self>, message: Message) {
        // Nobody waits to hear that it failed.
        let _ = self.sse_post(&message, None).await;
    }
}

/// What servers say to a message that they have taken, in bytes: "Accepted".
const IGNORED_BYTES_MAX: usize = 64 * 1024;

async fn open(shared: &Shared) -> Result<(Stream, Uri), Failure> {
    let endpoint = &shared.endpoint;
    let outgoing = Outgoing {
        method: Verb::GET,
        uri: endpoint.uri.clone(),
        headers: endpoint.get_headers(),
        body: Bytes::new(),
        asks: None,
    };
    let response = endpoint.send(&outgoing, &|| {}).await?;
    let mut stream = match Answer::of(response, &endpoint.uri).await? {
        Answer::Stream(stream) => stream,
        Answer::Refused(_, failure) => return Err(failure),
        _ => return Err(Failure::new(Lost::Malformed, "the server has no event stream")),
    };
    while let Some(event) = stream.next().await.transpose()? {
        if event.name.as_deref() == Some("endpoint") {
            let target = target(&endpoint.url, &event.data)?;
            return Ok((stream, target));
        }
    }
    Err(Failure::new(Lost::Broken, "the event stream ended before it said where messages go"))
}

/// The address that the server names. It must be the server's own: whoever can write into the
/// stream must not be able to send messages elsewhere.
fn target(base: &Url, named: &[u8]) -> Result<Uri, Failure> {
    let named = std::str::from_utf8(named).unwrap_or_default().trim();
    let failure = |why: &str| {
        let named: String = named.chars().take(200).collect();
        Failure::new(Lost::Malformed, format!("the event stream names {named:?}, {why}"))
    };
    let target = base.join(named).map_err(|_| failure("which is not a URL"))?;
    if target.origin() != base.origin() {
        return Err(failure("which is another server"));
    }
    Uri::try_from(target.as_str()).map_err(|_| failure("which is not a URL"))
}

/// The stream ends the connection when it ends: there is nothing to resume.
async fn go_on(shared: Arc<Shared>, mut stream: Stream) {
    while let Err(Failure { kind: Lost::Malformed, .. }) =
        shared.pump(&mut stream, None, |_| {}).await
    {}
    shared.inbox.end();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_server_is_a_target() {
        let base = Url::parse("http://localhost:1/a/sse").unwrap();
        let of = |named: &str| target(&base, named.as_bytes()).map(|uri| uri.to_string());
        assert_eq!(of("/m?id=1").unwrap(), "http://localhost:1/m?id=1");
        assert_eq!(of("m").unwrap(), "http://localhost:1/a/m");
        assert_eq!(of("http://localhost:1/x").unwrap(), "http://localhost:1/x");
        for foreign in ["http://localhost:2/x", "//evil.example/x", "https://localhost:1/x"] {
            assert!(of(foreign).unwrap_err().message.contains("another server"));
        }
    }
}
