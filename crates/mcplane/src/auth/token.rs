//! Tokens: how they are requested, stored, and protected.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use url::Url;

use super::fetch::{Fetch, bare};
use super::register::Registration;
use super::scope::Scopes;
use crate::error::{Error, Result};
use crate::transport::http::Work;
use crate::transport::http::client::credentials::Refusal;

/// Grants that [`Memory`] keeps; the one with the first key goes when another comes.
const GRANTS_MAX: usize = 64;
/// Longer lives are cut: a clock must be able to add them.
const LIFE_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Characters that are shown of what a server says about an error.
const DESCRIPTION_CHARS_MAX: usize = 200;

/// Keeps grants between authorizations; one that outlives the process spares the user the next
/// login.
///
/// A grant is a secret: anyone who reads it can act for the user. Write it where only the user can
/// read, encrypted where the system has a keychain.
pub trait TokenStore: Send + Sync + 'static {
    /// The grant that was last saved under this key.
    ///
    /// # Errors
    /// If the store cannot be read; authorization fails with this error.
    fn load<'a>(&'a self, key: &'a Key) -> Work<'a, Result<Option<Grant>>>;

    /// Saves a grant in place of the one before.
    ///
    /// # Errors
    /// If the store cannot be written; authorization fails with this error.
    fn save<'a>(&'a self, key: &'a Key, grant: &'a Grant) -> Work<'a, Result<()>>;
}

/// What a grant is bound to. A grant for another key is never used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Key {
    /// The authorization server that issued it.
    pub issuer: String,
    /// The MCP server that it is for.
    pub resource: String,
}

/// Tokens, and the client that they were issued to. Opaque; it implements `serde`'s traits for
/// [`TokenStore`]s.
#[derive(Clone, Serialize, Deserialize)]
pub struct Grant {
    pub(super) client: Registration,
    access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// In seconds since 1970; `None` if the server did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    /// What was asked for and what was given.
    pub(super) scopes: Scopes,
}

impl Grant {
    /// Whether the access token has expired.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.expires_at.is_some_and(|at| at <= seconds(SystemTime::now()))
    }

    pub(super) fn header(&self) -> Result<HeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", self.access_token))
            .map_err(|_| Error::malformed("the access token cannot be sent in a header"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Whether the refused request had this token.
    pub(super) fn was_sent(&self, refusal: &Refusal) -> bool {
        let sent =
            refusal.sent.as_ref().and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        sent == Some(self.access_token.as_bytes())
    }

    /// Asks the token endpoint with these fields. `before` is what was asked for, and the refresh
    /// token that stays if no new one comes.
    pub(super) async fn request(
        fetch: &Fetch,
        url: &Url,
        client: &Registration,
        fields: &[(&str, &str)],
        before: Before<'_>,
    ) -> Result<Result<Self, Denied>> {
        let (status, answer) = fetch.post(client.post(url, fields)?).await?;
        if status.is_success() {
            return Self::read(url, client, &answer, before).map(Ok);
        }
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(refused("get a token", url, status, &answer));
        }
        let code = answer.get("error").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Err(Denied { code, error: refused("get a token", url, status, &answer) }))
    }

    fn read(
        url: &Url,
        client: &Registration,
        answer: &Map<String, Value>,
        before: Before<'_>,
    ) -> Result<Self> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let Some(access_token) = text("access_token").filter(|token| !token.is_empty()) else {
            return Err(Error::malformed(format!("{} answers without `access_token`", bare(url))));
        };
        let kind = text("token_type").unwrap_or("Bearer");
        if !kind.eq_ignore_ascii_case("bearer") {
            let kind: String = kind.chars().take(DESCRIPTION_CHARS_MAX).collect();
            return Err(Error::malformed(format!(
                "{} gives a token of the type {kind:?}; only Bearer is known here",
                bare(url)
            )));
        }
        let given = text("scope").map(Scopes::parse).unwrap_or_default();
        let kept = text("refresh_token").or(before.refresh_token);
        let grant = Self {
            client: client.clone(),
            access_token: access_token.to_owned(),
            refresh_token: kept.map(str::to_owned),
            expires_at: answer.get("expires_in").and_then(life).map(|life| {
                seconds(SystemTime::now()).saturating_add(life.min(LIFE_MAX).as_secs())
            }),
            scopes: before.scopes.clone().union(&given),
        };
        grant.header().map(|_| grant)
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant")
            .field("client", &self.client)
            .field("expires_at", &self.expires_at)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

/// What a token request builds on.
#[derive(Clone, Copy)]
pub(super) struct Before<'a> {
    pub(super) scopes: &'a Scopes,
    pub(super) refresh_token: Option<&'a str>,
}

/// A token endpoint that says no, and will say it again.
pub(super) struct Denied {
    /// A word of RFC 6749, section 5.2.
    pub(super) code: String,
    pub(super) error: Error,
}

impl Denied {
    /// The client is no longer known there: it must be registered again.
    pub(super) fn is_of_client(&self) -> bool {
        matches!(self.code.as_str(), "invalid_client" | "unauthorized_client")
    }
}

/// The error of an endpoint that answers with another status than success, in its own words.
pub(super) fn refused(
    what: &str,
    url: &Url,
    status: StatusCode,
    answer: &Map<String, Value>,
) -> Error {
    let say = |name: &str| answer.get(name).and_then(Value::as_str).map(shown).unwrap_or_default();
    let (code, description) = (say("error"), say("error_description"));
    Error::malformed(format!("cannot {what} at {}: {status} {code} {description}", bare(url)))
}

/// What a server says, fit for a line of a terminal.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(DESCRIPTION_CHARS_MAX).collect()
}

/// `expires_in`; some servers write it as a string.
fn life(value: &Value) -> Option<Duration> {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    Some(Duration::try_from_secs_f64(number.max(0.0)).unwrap_or(LIFE_MAX))
}

/// Since 1970.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Keeps grants as long as the process lives.
#[derive(Default)]
pub(super) struct Memory(Mutex<BTreeMap<Key, Grant>>);

impl TokenStore for Memory {
    fn load<'a>(&'a self, key: &'a Key) -> Work<'a, Result<Option<Grant>>> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        Box::pin(async { Ok(found) })
    }

    fn save<'a>(&'a self, key: &'a Key, grant: &'a Grant) -> Work<'a, Result<()>> {
        let mut grants = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if grants.len() >= GRANTS_MAX && !grants.contains_key(key) {
            grants.pop_first();
        }
        grants.insert(key.clone(), grant.clone());
        Box::pin(async { Ok(()) })
    }
}
