//! Who this client is to an authorization server.

use std::fmt;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use url::{Url, form_urlencoded};

use super::discover::AuthorizationServer;
use super::fetch::{Fetch, Post, is_loopback};
use super::token::{refused, seconds};
use crate::error::{Error, Result};

/// A client as an authorization server knows it. Never shown to another one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Registration {
    client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    proof: Proof,
    /// For a client that registered itself: where it said that answers go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redirect_uri: Option<String>,
    /// In seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
}

/// How a client proves who it is at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Proof {
    #[serde(rename = "client_secret_basic")]
    Basic,
    #[serde(rename = "client_secret_post")]
    Post,
    #[serde(rename = "none")]
    None,
}

/// What the user of the library says about this client.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) redirect_uri: Url,
    pub(super) metadata_url: Option<Url>,
    pub(super) registered: Option<Registered>,
}

/// A client that was registered by hand.
#[derive(Clone)]
pub(super) struct Registered {
    pub(super) client_id: String,
    pub(super) client_secret: Option<String>,
    /// The only authorization server that it is shown to.
    pub(super) issuer: Option<String>,
}

impl Identity {
    /// Whether a client registered by hand is this server's.
    pub(super) fn is_registered_at(&self, issuer: &str) -> bool {
        let registered = self.registered.as_ref();
        registered.is_some_and(|known| known.issuer.as_ref().is_none_or(|own| own == issuer))
    }

    /// A client registered by hand belongs to the first server that it is shown to.
    pub(super) fn bind(&mut self, issuer: &str) {
        if let Some(registered) = &mut self.registered {
            registered.issuer.get_or_insert_with(|| issuer.to_owned());
        }
    }

    /// The client for an authorization server: registered by hand, else named by the URL of its
    /// metadata, else registered by itself: `before`, or now.
    pub(super) async fn at(
        &self,
        fetch: &Fetch,
        server: &AuthorizationServer,
        before: Option<Registration>,
    ) -> Result<Registration> {
        if let Some(known) =
            self.registered.as_ref().filter(|_| self.is_registered_at(&server.issuer))
        {
            let secret = known.client_secret.clone();
            return Registration::of(server, known.client_id.clone(), secret, None);
        }
        if let Some(url) = self.metadata_url.as_ref().filter(|_| server.takes_client_metadata_url) {
            return Registration::of(server, url.to_string(), None, Some(Proof::None));
        }
        if let Some(before) = before.filter(|before| before.is_good_for(&self.redirect_uri)) {
            return Ok(before);
        }
        match &server.registration_endpoint {
            Some(url) => self.register(fetch, server, url).await,
            None => Err(self.unknown_at(server)),
        }
    }

    fn unknown_at(&self, server: &AuthorizationServer) -> Error {
        let bound = self.registered.as_ref().and_then(|known| known.issuer.as_deref());
        let but = bound.map_or_else(String::new, |own| {
            format!(" The given client belongs to {own} and is not shown to others.")
        });
        Error::misuse(format!(
            "the authorization server {} does not register clients by itself: register one there \
             and give its identifier with `OAuth::client`.{but}",
            server.issuer
        ))
    }

    async fn register(
        &self,
        fetch: &Fetch,
        server: &AuthorizationServer,
        url: &Url,
    ) -> Result<Registration> {
        let proof = Proof::preferred(server)?;
        let body = self.metadata(server, proof).to_string();
        let post = Post {
            url,
            content_type: "application/json",
            authorization: None,
            body: Bytes::from(body),
        };
        let (status, answer) = fetch.post(post).await?;
        if !status.is_success() {
            return Err(refused("register a client", url, status, &answer));
        }
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let Some(client_id) = text("client_id") else {
            return Err(Error::malformed(format!("{url} registers a client without `client_id`")));
        };
        let granted = match text("token_endpoint_auth_method") {
            Some(name) => Proof::named(&name).ok_or_else(|| {
                Error::malformed(format!(
                    "{url} requires {name:?}, which this client does not know"
                ))
            })?,
            None => proof,
        };
        let expires_at = answer.get("client_secret_expires_at").and_then(Value::as_u64);
        let client = Registration::of(server, client_id, text("client_secret"), Some(granted))?;
        Ok(Registration {
            redirect_uri: Some(self.redirect_uri.to_string()),
            expires_at: expires_at.filter(|&at| at != 0),
            ..client
        })
    }

    fn metadata(&self, server: &AuthorizationServer, proof: Proof) -> Value {
        let knows = |grant: &str| {
            server.grant_types.as_ref().is_none_or(|known| known.iter().any(|name| name == grant))
        };
        let mut grants = vec!["authorization_code"];
        grants.extend(knows("refresh_token").then_some("refresh_token"));
        let native = is_loopback(&self.redirect_uri) || !self.redirect_uri.scheme().eq("https");
        let mut metadata = Map::new();
        let mut put = |name: &str, value: Value| metadata.insert(name.to_owned(), value);
        put("client_name", json!(self.name));
        put("application_type", json!(if native { "native" } else { "web" }));
        put("redirect_uris", json!([self.redirect_uri.as_str()]));
        put("grant_types", json!(grants));
        put("response_types", json!(["code"]));
        put("token_endpoint_auth_method", json!(proof));
        Value::Object(metadata)
    }
}

impl Proof {
    fn named(name: &str) -> Option<Self> {
        serde_json::from_value(Value::from(name)).ok()
    }

    /// What to register for: a client on a user's machine has no place to keep a secret, so it
    /// takes none where it may. A server that does not say knows `client_secret_basic`
    /// (RFC 8414, section 2).
    fn preferred(server: &AuthorizationServer) -> Result<Self> {
        Self::first(server, &[Self::None, Self::Basic, Self::Post])
    }

    fn first(server: &AuthorizationServer, order: &[Self]) -> Result<Self> {
        let Some(known) = server.client_proofs.as_ref().filter(|known| !known.is_empty()) else {
            return Ok(Self::Basic);
        };
        let known: Vec<Self> = known.iter().filter_map(|name| Self::named(name)).collect();
        order.iter().copied().find(|proof| known.contains(proof)).ok_or_else(|| {
            Error::misuse(format!(
                "the authorization server {} takes neither client_secret_basic nor \
                 client_secret_post nor clients without a secret, which is all that is known here",
                server.issuer
            ))
        })
    }
}

impl Registration {
    /// Without a proof, the server's list and the secret decide.
    fn of(
        server: &AuthorizationServer,
        client_id: String,
        client_secret: Option<String>,
        proof: Option<Proof>,
    ) -> Result<Self> {
        let proof = match (&client_secret, proof) {
            (None, _) => Proof::None,
            (Some(_), Some(proof)) => proof,
            (Some(_), None) => Proof::first(server, &[Proof::Basic, Proof::Post, Proof::None])?,
        };
        Ok(Self { client_id, client_secret, proof, redirect_uri: None, expires_at: None })
    }

    fn is_good_for(&self, redirect_uri: &Url) -> bool {
        self.redirect_uri.as_deref() == Some(redirect_uri.as_str())
            && self.expires_at.is_none_or(|at| at > seconds(SystemTime::now()))
    }

    pub(super) fn client_id(&self) -> &str {
        &self.client_id
    }

    /// A form for the token endpoint, with the client's proof in it or beside it.
    pub(super) fn post<'a>(&self, url: &'a Url, fields: &[(&str, &str)]) -> Result<Post<'a>> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let mut authorization = None;
        let secret = self.client_secret.as_deref().unwrap_or_default();
        match self.proof {
            Proof::Basic => authorization = Some(self.basic(secret)?),
            Proof::Post => {
                form.append_pair("client_id", &self.client_id).append_pair("client_secret", secret);
            }
            Proof::None => {
                form.append_pair("client_id", &self.client_id);
            }
        }
        let body = Bytes::from(form.finish());
        Ok(Post { url, content_type: "application/x-www-form-urlencoded", authorization, body })
    }

    /// RFC 6749, section 2.3.1: both halves are form-encoded first.
    fn basic(&self, secret: &str) -> Result<HeaderValue> {
        let encode =
            |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", encode(&self.client_id), encode(secret));
        let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
            .map_err(|_| Error::misuse("the client's identifier cannot be sent in a header"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("client_id", &self.client_id)
            .field("proof", &self.proof)
            .finish_non_exhaustive()
    }
}
