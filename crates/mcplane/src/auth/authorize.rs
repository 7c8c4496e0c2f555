//! One authorization: the user is sent to the authorization server, and comes back with a code.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use url::Url;

use super::discover::AuthorizationServer;
use super::fetch::bare;
use super::register::Registration;
use super::scope::Scopes;
use super::token::shown;
use crate::error::{Error, Result};
use crate::random;

/// Randomness of a state and of a verifier; RFC 7636 wants 32 bytes.
const SECRET_BYTES: usize = 32;

/// What is remembered while the user is away. Made before the user leaves, so that what comes back
/// is judged by what was known then.
pub(super) struct Question {
    /// Where the user is sent.
    pub(super) url: Url,
    /// Proves to the token endpoint that the code is ours.
    pub(super) verifier: String,
    state: String,
    redirect_uri: Url,
    issuer: String,
    names_itself: bool,
}

impl Question {
    pub(super) fn new(
        server: &AuthorizationServer,
        client: &Registration,
        redirect_uri: &Url,
        resource: &str,
        scopes: &Scopes,
    ) -> Result<Self> {
        let state = secret()?;
        let verifier = secret()?;
        let mut url = server.authorization_endpoint.clone();
        url.set_fragment(None);
        {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", client.client_id())
                .append_pair("redirect_uri", redirect_uri.as_str())
                .append_pair("state", &state)
                .append_pair("code_challenge", &challenge(&verifier))
                .append_pair("code_challenge_method", "S256")
                .append_pair("resource", resource);
            if !scopes.is_empty() {
                query.append_pair("scope", &scopes.joined());
            }
            if scopes.wants_refresh() {
                // OpenID Connect gives no refresh token without the user's consent.
                query.append_pair("prompt", "consent");
            }
        }
        Ok(Self {
            url,
            verifier,
            state,
            redirect_uri: redirect_uri.clone(),
            issuer: server.issuer.clone(),
            names_itself: server.names_itself,
        })
    }

    /// The code in what came back. Nothing of an answer is shown before it is known to be the
    /// answer to this question, by this server (RFC 9207, section 2.4).
    pub(super) fn code(&self, answer: &Url) -> Result<String> {
        let bad = |why: &str| {
            Err(Error::malformed(format!(
                "the answer of the authorization server {} is refused: {why}; authorize again",
                self.issuer
            )))
        };
        if bare(answer) != bare(&self.redirect_uri) {
            return bad("it came to another address than the redirect URI");
        }
        let all = |name: &'static str| {
            answer.query_pairs().filter(move |(known, _)| known == name).map(|(_, value)| value)
        };
        if ["state", "iss", "code", "error"].into_iter().any(|name| all(name).count() > 1) {
            return bad("a parameter comes twice");
        }
        let one = |name| all(name).next();
        if one("state").as_deref() != Some(self.state.as_str()) {
            return bad("its `state` is not the one that was sent");
        }
        match one("iss") {
            Some(iss) if iss != self.issuer.as_str() => {
                return bad("its `iss` is not the issuer that was asked");
            }
            None if self.names_itself => {
                return bad("it has no `iss`, though the server says that its answers have one");
            }
            _ => {}
        }
        if let Some(error) = one("error") {
            let description = one("error_description").unwrap_or_default();
            return Err(Error::misuse(format!(
                "authorization was refused by {}: {} {}",
                self.issuer,
                shown(&error),
                shown(&description)
            )));
        }
        match one("code") {
            Some(code) if !code.is_empty() => Ok(code.into_owned()),
            _ => bad("it has no `code`"),
        }
    }
}

fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

fn secret() -> Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    random::fill(&mut bytes, "a secret")?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_7636() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert_ne!(secret().unwrap(), secret().unwrap());
        assert!(secret().unwrap().len() >= 43);
    }

    fn question(names_itself: bool) -> Question {
        Question {
            url: "https://as.example.com/authorize".parse().unwrap(),
            verifier: String::new(),
            state: "st".to_owned(),
            redirect_uri: "http://localhost:3000/callback".parse().unwrap(),
            issuer: "https://as.example.com".to_owned(),
            names_itself,
        }
    }

    fn code(names_itself: bool, answer: &str) -> Result<String, String> {
        question(names_itself).code(&answer.parse().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn iss_is_compared_byte_for_byte() {
        const BASE: &str = "http://localhost:3000/callback?code=c&state=st";
        let with = |iss: &str| format!("{BASE}&iss={iss}");
        for advertised in [true, false] {
            assert_eq!(code(advertised, &with("https://as.example.com")).unwrap(), "c");
            for wrong in [
                "https://as.example.com/",
                "https://AS.example.com",
                "https://evil.example.com",
                "",
            ] {
                assert!(code(advertised, &with(wrong)).unwrap_err().contains("`iss`"), "{wrong}");
            }
        }
        assert_eq!(code(false, BASE).unwrap(), "c");
        assert!(code(true, BASE).unwrap_err().contains("no `iss`"));
    }

    #[test]
    fn an_error_is_shown_only_if_it_is_ours() {
        let ours = "http://localhost:3000/callback?state=st&error=access_denied\
                    &error_description=the%20user%0Asaid%20no";
        assert!(code(false, ours).unwrap_err().contains("access_denied the usersaid no"));
        let foreign = format!("{ours}&iss=https://evil.example.com");
        assert!(!code(false, &foreign).unwrap_err().contains("access_denied"));
        assert!(
            !code(false, &ours.replace("st&", "other&")).unwrap_err().contains("access_denied")
        );
    }

    #[test]
    fn what_is_not_an_answer() {
        for (answer, why) in [
            ("http://localhost:3000/callback?code=c", "`state`"),
            ("http://localhost:3000/callback?code=c&state=x", "`state`"),
            ("http://localhost:3000/callback?code=c&code=d&state=st", "twice"),
            ("http://localhost:3000/callback?state=st", "no `code`"),
            ("http://localhost:3000/callback?state=st&code=", "no `code`"),
            ("http://localhost:3001/callback?code=c&state=st", "another address"),
            ("https://localhost:3000/callback?code=c&state=st", "another address"),
            ("http://localhost:3000/other?code=c&state=st", "another address"),
        ] {
            let error = code(false, answer).unwrap_err();
            assert!(error.contains(why) && !error.contains("code=c"), "{answer}: {error}");
        }
    }
}
