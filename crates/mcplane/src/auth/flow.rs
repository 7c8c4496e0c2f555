//! How a refusal is handled, from the challenge to a new token.

use std::collections::VecDeque;
use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, timeout};

use super::OAuth;
use super::authorize::Question;
use super::challenge::{Asked, Challenge, read};
use super::discover::{
    AuthorizationServer, authorization_server, canonical, legacy_server, resource,
};
use super::fetch::bare;
use super::register::{Identity, Registration};
use super::scope::{Scopes, Wanted};
use super::token::{Before, Denied, Grant, Key};
use crate::error::{Error, Kind, Result};
use crate::transport::http::client::credentials::Refusal;

/// New tokens for one operation that keeps being refused. With the one that was refused first that
/// makes three, which is where the specification's own test stops counting.
const TRIES_MAX: u32 = 2;
/// A token that was good for longer than this is a success: the next refusal counts from zero.
const TRY_MEMORY: Duration = Duration::from_secs(60);
/// Operations whose tries are remembered; the oldest goes first.
const OPERATIONS_MAX: usize = 32;
/// A bound of last resort on the user's answer; an [`Interaction`](super::Interaction) has its own.
const INTERACTION_TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// What one authorization after the other goes by.
pub(super) struct Turn {
    pub(super) identity: Identity,
    tries: Tries,
    /// The client that registered itself last, and where.
    registered: Option<(String, Registration)>,
}

impl Turn {
    pub(super) fn new(identity: Identity) -> Self {
        Self { identity, tries: Tries::default(), registered: None }
    }
}

/// Who can give a token for what.
struct Place {
    key: Key,
    server: AuthorizationServer,
    /// `scopes_supported` of the protected resource.
    scopes: Option<Scopes>,
}

impl OAuth {
    pub(super) async fn answer(&self, refusal: &Refusal) -> Result<bool> {
        if refusal.url.origin() != self.url.origin() {
            return Err(Error::misuse(format!(
                "credentials for {} were used at {}",
                bare(&self.url),
                bare(&refusal.url)
            )));
        }
        let mut turn = self.turn.lock().await;
        let current = self.current();
        if let Some((_, grant)) = &current
            && !grant.was_sent(refusal)
        {
            return Ok(true);
        }
        let Some(challenge) = wanted(refusal) else { return Ok(false) };
        let operation = operation(refusal, &challenge);
        let Some(may_refresh) = turn.tries.next(&operation) else { return Ok(false) };
        let place = self.place(&turn.identity, &challenge, current.as_ref()).await?;
        let held = match current {
            Some((key, grant)) if key == place.key => Some(grant),
            _ => self.store.load(&place.key).await?,
        };
        // What a token is refused for says whether another like it can help.
        let ended = held.as_ref().filter(|_| refusal.status == StatusCode::UNAUTHORIZED);
        let kept = ended.filter(|grant| !grant.is_expired() && !grant.was_sent(refusal));
        let refreshed = match ended {
            Some(grant) if kept.is_none() && may_refresh => self.refresh(&place, grant).await?,
            _ => None,
        };
        let without_user = refreshed.is_some();
        let grant = match kept.cloned().or(refreshed) {
            Some(grant) => grant,
            None => self.authorize(&mut turn, &place, &challenge, held.as_ref()).await?,
        };
        self.store.save(&place.key, &grant).await?;
        self.hold(place.key, grant)?;
        turn.tries.ended(&operation, without_user);
        Ok(true)
    }

    async fn place(
        &self,
        identity: &Identity,
        challenge: &Challenge,
        current: Option<&(Key, Grant)>,
    ) -> Result<Place> {
        let Some(found) = resource(&self.fetch, &self.url, challenge).await? else {
            let server = legacy_server(&self.fetch, &self.url).await?;
            let key = Key { issuer: server.issuer.clone(), resource: canonical(&self.url) };
            return Ok(Place { key, server, scopes: None });
        };
        let named =
            |wanted: &dyn Fn(&str) -> bool| found.issuers.iter().find(|issuer| wanted(issuer));
        let issuer = named(&|issuer| current.is_some_and(|(key, _)| key.issuer == issuer))
            .or_else(|| named(&|issuer| identity.is_registered_at(issuer)))
            .or_else(|| found.issuers.first())
            .cloned()
            .unwrap_or_default();
        let server = authorization_server(&self.fetch, &issuer).await?;
        Ok(Place { key: Key { issuer, resource: found.id }, server, scopes: found.scopes })
    }

    /// A token like the one before. A refresh that is denied ends the grant, not the authorization:
    /// the user is asked again.
    async fn refresh(&self, place: &Place, grant: &Grant) -> Result<Option<Grant>> {
        let Some(token) = grant.refresh_token.as_deref() else { return Ok(None) };
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", token),
            ("resource", &place.key.resource),
        ];
        let before = Before { scopes: &grant.scopes, refresh_token: Some(token) };
        let endpoint = &place.server.token_endpoint;
        Ok(Grant::request(&self.fetch, endpoint, &grant.client, &fields, before).await?.ok())
    }

    async fn authorize(
        &self,
        turn: &mut Turn,
        place: &Place,
        challenge: &Challenge,
        held: Option<&Grant>,
    ) -> Result<Grant> {
        let issuer = &place.key.issuer;
        let none = Scopes::default();
        let scopes = Scopes::select(&Wanted {
            challenged: challenge.scope.as_ref(),
            resource: place.scopes.as_ref(),
            held: held.map_or(&none, |grant| &grant.scopes),
            extra: &self.extra,
            server: &place.server.scopes,
        });
        let registered = turn.registered.take().filter(|(known, _)| known == issuer);
        let before =
            registered.map(|(_, client)| client).or_else(|| held.map(|grant| grant.client.clone()));
        let client = turn.identity.at(&self.fetch, &place.server, before.clone()).await?;
        turn.identity.bind(issuer);
        match self.ask(&turn.identity, place, &client, &scopes).await? {
            Ok(grant) => {
                turn.registered = Some((issuer.clone(), client));
                Ok(grant)
            }
            // The server forgot a client that was registered long ago.
            Err(denied) if denied.is_of_client() && before.as_ref() == Some(&client) => {
                let client = turn.identity.at(&self.fetch, &place.server, None).await?;
                self.ask(&turn.identity, place, &client, &scopes).await?.map_err(|no| no.error)
            }
            Err(denied) => Err(denied.error),
        }
    }

    /// Asks the user, then the token endpoint.
    async fn ask(
        &self,
        identity: &Identity,
        place: &Place,
        client: &Registration,
        scopes: &Scopes,
    ) -> Result<Result<Grant, Denied>> {
        let (redirect_uri, resource) = (&identity.redirect_uri, place.key.resource.as_str());
        let question = Question::new(&place.server, client, redirect_uri, resource, scopes)?;
        let asked = self.interaction.authorize(&question.url, redirect_uri);
        let answer = timeout(INTERACTION_TIME_MAX, asked).await.map_err(|_| {
            Error::new(Kind::TimedOut("the user did not answer the authorization".to_owned()))
        })??;
        let code = question.code(&answer)?;
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", redirect_uri.as_str()),
            ("code_verifier", &question.verifier),
            ("resource", resource),
        ];
        let before = Before { scopes, refresh_token: None };
        Grant::request(&self.fetch, &place.server.token_endpoint, client, &fields, before).await
    }
}

/// The challenge, if a new token can meet it.
fn wanted(refusal: &Refusal) -> Option<Challenge> {
    match (read(&refusal.challenges), refusal.status) {
        (Asked::Bearer(challenge), StatusCode::UNAUTHORIZED) => Some(challenge),
        (Asked::Nothing, StatusCode::UNAUTHORIZED) => Some(Challenge::default()),
        (Asked::Bearer(challenge), StatusCode::FORBIDDEN) => {
            (challenge.error.as_deref() == Some("insufficient_scope")).then_some(challenge)
        }
        _ => None,
    }
}

/// What is counted: refusals of tokens, of scopes, and of methods that want they do not say what.
fn operation(refusal: &Refusal, challenge: &Challenge) -> String {
    match (refusal.status, &challenge.scope, &refusal.method) {
        (StatusCode::FORBIDDEN, Some(scopes), _) => format!("scopes {}", scopes.joined()),
        (StatusCode::FORBIDDEN, None, Some(method)) => format!("method {method}"),
        _ => "token".to_owned(),
    }
}

/// How often each operation got a new token lately.
#[derive(Default)]
struct Tries(VecDeque<Try>);

struct Try {
    operation: String,
    count: u32,
    /// The last token was a refreshed one.
    refreshed: bool,
    last: Instant,
}

impl Tries {
    /// Begins a try; `None` if there were enough, `false` if a refreshed token was refused already.
    fn next(&mut self, operation: &str) -> Option<bool> {
        let now = Instant::now();
        self.0.retain(|known| now.duration_since(known.last) < TRY_MEMORY);
        if let Some(known) = self.0.iter_mut().find(|known| known.operation == operation) {
            known.last = now;
            known.count = known.count.saturating_add(1);
            return (known.count <= TRIES_MAX).then_some(!known.refreshed);
        }
        if self.0.len() == OPERATIONS_MAX {
            self.0.pop_front();
        }
        let operation = operation.to_owned();
        self.0.push_back(Try { operation, count: 1, refreshed: false, last: now });
        Some(true)
    }

    /// The user may have taken long; what counts is how long the token lasts.
    fn ended(&mut self, operation: &str, refreshed: bool) {
        if let Some(known) = self.0.iter_mut().find(|known| known.operation == operation) {
            known.refreshed = refreshed;
            known.last = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tries_are_bounded_until_a_token_lasts() {
        let mut tries = Tries::default();
        assert_eq!([(); 4].map(|()| tries.next("a")), [Some(true), Some(true), None, None]);
        assert_eq!(tries.next("b"), Some(true));
        tries.ended("b", true);
        assert_eq!(tries.next("b"), Some(false));
        tokio::time::advance(TRY_MEMORY).await;
        assert_eq!(tries.next("a"), Some(true));
        for n in 0..100 {
            tries.next(&n.to_string());
        }
        assert_eq!(tries.0.len(), OPERATIONS_MAX);
    }
}
