//! The server's address, and how any request gets there: with credentials, past redirects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use tokio::sync::Mutex;
use tokio::time::interval;
use url::Url;

use super::body::Body;
use super::credentials::{Credentials, Refusal};
use super::pool::Pool;
use crate::error::{Failure, Lost};
use crate::transport::http::retry_after;

/// Most attempts at one request whose credentials are refused.
const ATTEMPTS_MAX: usize = 3;

/// Most redirects that one request follows.
const REDIRECTS_MAX: usize = 3;

/// How often whoever waits for new credentials is told that it goes on.
const BEAT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) url: Url,
    pub(super) uri: Uri,
    /// What the program wants sent with every request.
    pub(super) headers: HeaderMap,
    pub(super) credentials: Option<Arc<dyn Credentials>>,
    pub(super) pool: Pool,
    /// Held by whoever gets new credentials.
    pub(super) refused: Mutex<()>,
}

/// One request, as often as it must be sent.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The MCP method, for whoever asks the user for more rights.
    pub(super) asks: Option<&'a str>,
}

impl Endpoint {
    /// The headers of a message to be POSTed.
    pub(super) fn post_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers
    }

    /// The headers of a request for an event stream.
    pub(super) fn get_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers
    }

    /// Sends a request until it is neither redirected nor refused for its credentials. `beat` is
    /// called now and then while somebody gets new ones, which may take a person.
    pub(super) async fn send(
        &self,
        outgoing: &Outgoing<'_>,
        beat: &(dyn Fn() + Send + Sync),
    ) -> Result<Response<Body>, Failure> {
        let mut uri = outgoing.uri.clone();
        let (mut attempts, mut redirects) = (1, 0);
        loop {
            let mut request = Request::new(outgoing.body.clone());
            *request.method_mut() = outgoing.method.clone();
            *request.uri_mut() = uri.clone();
            *request.headers_mut() = outgoing.headers.clone();
            let sent = self.credentials.as_ref().and_then(|credentials| credentials.header());
            if let Some(header) = &sent {
                request.headers_mut().insert(AUTHORIZATION, header.clone());
            }
            let response = self.pool.send(request).await?;
            match response.status() {
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {
                    redirects += 1;
                    uri = self.redirected(&response, &uri, redirects)?;
                }
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN
                    if attempts < ATTEMPTS_MAX
                        && Box::pin(self.has_new_credentials(
                            outgoing,
                            &response,
                            sent.as_ref(),
                            beat,
                        ))
                        .await? =>
                {
                    attempts += 1;
                }
                _ => return Ok(response),
            }
        }
    }

    /// Whether the request is worth another attempt.
    async fn has_new_credentials(
        &self,
        outgoing: &Outgoing<'_>,
        response: &Response<Body>,
        sent: Option<&HeaderValue>,
        beat: &(dyn Fn() + Send + Sync),
    ) -> Result<bool, Failure> {
        let Some(credentials) = &self.credentials else { return Ok(false) };
        let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenges = challenges.filter_map(|value| Some(value.to_str().ok()?.to_owned()));
        let refusal = Refusal {
            url: self.url.clone(),
            status: response.status(),
            challenges: challenges.collect(),
            sent: sent.cloned(),
            method: outgoing.asks.map(str::to_owned),
        };
        let work = async {
            let _one_at_a_time = self.refused.lock().await;
            if credentials.header() != refusal.sent {
                return Ok(true); // somebody else has got new ones meanwhile
            }
            credentials.refused(&refusal).await
        };
        let mut work = std::pin::pin!(work);
        let mut beats = interval(BEAT);
        let renewed = loop {
            tokio::select! {
                biased;
                renewed = &mut work => break renewed,
                _ = beats.tick() => beat(),
            }
        };
        renewed.map_err(|error| Failure {
            status: Some(refusal.status.as_u16()),
            ..Failure::new(
                Lost::Unauthorized,
                format!("{} for {}: {error}", refusal.status, self.url),
            )
        })
    }

    /// Where a redirect leads, if it stays with this server: anybody else must not see what was
    /// meant for it.
    fn redirected(
        &self,
        response: &Response<Body>,
        from: &Uri,
        redirects: usize,
    ) -> Result<Uri, Failure> {
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let place = location.unwrap_or("nowhere");
        let failure = |why: &str| Failure {
            status: Some(response.status().as_u16()),
            ..Failure::new(Lost::Status, format!("{from} redirects to {place}, {why}"))
        };
        if redirects > REDIRECTS_MAX {
            return Err(failure("which is one redirect too many"));
        }
        let base =
            Url::parse(&from.to_string()).map_err(|_| failure("which cannot be followed"))?;
        let target = base.join(place).map_err(|_| failure("which is not a URL"))?;
        if target.origin() != self.url.origin() {
            return Err(failure("which is another server; give its address if you trust it"));
        }
        Uri::try_from(target.as_str()).map_err(|_| failure("which is not a URL"))
    }
}

/// What an answer without a message means.
pub(super) fn failure_of(response: &http::response::Parts, from: &Uri, said: &str) -> Failure {
    let status = response.status;
    let kind = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Lost::Unauthorized,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Lost::Unavailable,
        _ => Lost::Status,
    };
    let said: String = said.chars().filter(|c| !c.is_control()).take(SAID_CHARS_MAX).collect();
    let colon = if said.is_empty() { "" } else { ": " };
    Failure {
        status: Some(status.as_u16()),
        retry_after_ms: retry_after::wait_ms(&response.headers),
        ..Failure::new(kind, format!("{from} answered {status}{colon}{said}"))
    }
}

/// Most characters quoted of an answer that is not a message.
const SAID_CHARS_MAX: usize = 200;
