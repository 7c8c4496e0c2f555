//! Scopes: what a token may be used for.

use serde::{Deserialize, Serialize};

/// Scopes that are remembered; what a server names beyond them is left out of the request, so
/// that an authorization URL stays short enough for browsers.
const SCOPES_MAX: usize = 128;

/// Asks for a refresh token where the authorization server knows the word.
const OFFLINE_ACCESS: &str = "offline_access";

/// Scopes in the order they were first named, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Scopes(Vec<String>);

impl Scopes {
    /// The value of a `scope` parameter: names with spaces between them.
    pub(super) fn parse(text: &str) -> Self {
        text.split(' ').collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    pub(super) fn union(mut self, other: &Self) -> Self {
        self.add(other.0.iter().map(String::as_str));
        self
    }

    pub(super) fn joined(&self) -> String {
        self.0.join(" ")
    }

    pub(super) fn wants_refresh(&self) -> bool {
        self.contains(OFFLINE_ACCESS)
    }

    /// What to ask for: the challenge's scopes, or else all that the resource knows, and what was
    /// asked for before. Nothing at all leaves the choice to the authorization server, and then a
    /// lone `offline_access` would take that choice away.
    pub(super) fn select(wanted: &Wanted<'_>) -> Self {
        let base = wanted.challenged.or(wanted.resource).cloned().unwrap_or_default();
        let scopes = base.union(wanted.held).union(wanted.extra);
        if scopes.is_empty() || !wanted.server.contains(OFFLINE_ACCESS) {
            return scopes;
        }
        scopes.union(&Self::parse(OFFLINE_ACCESS))
    }

    fn add<'a>(&mut self, scopes: impl IntoIterator<Item = &'a str>) {
        for scope in scopes {
            if self.0.len() < SCOPES_MAX && is_scope(scope) && !self.contains(scope) {
                self.0.push(scope.to_owned());
            }
        }
    }
}

impl<'a> FromIterator<&'a str> for Scopes {
    fn from_iter<I: IntoIterator<Item = &'a str>>(scopes: I) -> Self {
        let mut all = Self::default();
        all.add(scopes);
        all
    }
}

/// Who has a say in [`Scopes::select`].
pub(super) struct Wanted<'a> {
    /// The `scope` of the challenge.
    pub(super) challenged: Option<&'a Scopes>,
    /// `scopes_supported` of the protected resource.
    pub(super) resource: Option<&'a Scopes>,
    /// What was asked for, or given, before.
    pub(super) held: &'a Scopes,
    /// What the user of the library adds.
    pub(super) extra: &'a Scopes,
    /// `scopes_supported` of the authorization server.
    pub(super) server: &'a Scopes,
}

/// `scope-token` of RFC 6749, section 3.3.
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(
        challenged: Option<&str>,
        resource: Option<&str>,
        held: &str,
        server: &str,
    ) -> String {
        Scopes::select(&Wanted {
            challenged: challenged.map(Scopes::parse).as_ref(),
            resource: resource.map(Scopes::parse).as_ref(),
            held: &Scopes::parse(held),
            extra: &Scopes::default(),
            server: &Scopes::parse(server),
        })
        .joined()
    }

    #[test]
    fn the_challenge_goes_before_the_resource() {
        assert_eq!(select(Some("a"), Some("a b c"), "", ""), "a");
        assert_eq!(select(None, Some("a b c"), "", ""), "a b c");
        assert_eq!(select(None, None, "", ""), "");
    }

    #[test]
    fn a_step_up_keeps_what_was_asked_for() {
        assert_eq!(select(Some("write"), Some("x"), "read profile", ""), "write read profile");
        assert_eq!(select(Some("write read"), None, "read", ""), "write read");
    }

    #[test]
    fn offline_access_only_where_it_is_known_and_never_alone() {
        assert_eq!(select(Some("a"), None, "", "a offline_access"), "a offline_access");
        assert_eq!(select(Some("a"), None, "", "a"), "a");
        assert_eq!(select(None, None, "", "offline_access"), "");
    }

    #[test]
    fn odd_text_is_left_out() {
        assert_eq!(Scopes::parse("  a  b a \"quoted\" back\\slash é c").joined(), "a b c");
        let many: String = (0..1000).map(|i| format!("s{i} ")).collect();
        assert_eq!(Scopes::parse(&many).0.len(), SCOPES_MAX);
    }
}
