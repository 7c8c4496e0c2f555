//! `WWW-Authenticate`: what a server says about the credentials it wants.

use super::scope::Scopes;

/// Challenges that are looked at, of all values of the header together.
const CHALLENGES_MAX: usize = 16;
/// Parameters that are kept of one challenge.
const PARAMETERS_MAX: usize = 32;

/// What a server that wants a bearer token says about it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Where the metadata of the protected resource is.
    pub(super) resource_metadata: Option<String>,
    /// The scopes that the request needs.
    pub(super) scope: Option<Scopes>,
    /// Why the request was refused, a word of RFC 6750.
    pub(super) error: Option<String>,
}

/// What the values of `WWW-Authenticate` ask for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The header is absent or unreadable: the server may still want a bearer token.
    Nothing,
    /// A bearer token.
    Bearer(Challenge),
    /// Other schemes only.
    Others,
}

/// Reads the values of `WWW-Authenticate`. Of several bearer challenges the one that names its
/// metadata is taken, or else the first.
pub(super) fn read(values: &[String]) -> Asked {
    let mut all: Vec<Raw> = Vec::new();
    for value in values {
        Cursor::new(value).challenges(&mut all);
    }
    if all.is_empty() {
        return Asked::Nothing;
    }
    let bearers = || all.iter().filter(|raw| raw.scheme.eq_ignore_ascii_case("bearer"));
    let chosen = bearers().find(|raw| raw.value("resource_metadata").is_some());
    match chosen.or_else(|| bearers().next()) {
        None => Asked::Others,
        Some(raw) => Asked::Bearer(Challenge {
            resource_metadata: raw.value("resource_metadata").map(str::to_owned),
            scope: raw.value("scope").map(Scopes::parse).filter(|scopes| !scopes.is_empty()),
            error: raw.value("error").map(str::to_owned),
        }),
    }
}

/// One challenge: its scheme and its parameters. A `token68` is skipped, no parameter has it.
#[derive(Debug, Default)]
struct Raw {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Raw {
    fn value(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Reads the grammar of RFC 9110, section 11.6.1. Its one difficulty: a comma separates challenges
/// and also the parameters of one challenge, and only the `=` that follows a word tells which.
struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn new(value: &'a str) -> Self {
        Self { rest: value }
    }

    /// Appends what can be read; an error of grammar ends the value, not what came before.
    fn challenges(mut self, all: &mut Vec<Raw>) {
        loop {
            self.skip(|c| is_blank(c) || c == ',');
            let scheme = self.take(is_token);
            if scheme.is_empty() || all.len() == CHALLENGES_MAX {
                return;
            }
            let mut raw = Raw { scheme: scheme.to_owned(), parameters: Vec::new() };
            let intact = !self.rest.starts_with(is_blank) || self.body(&mut raw);
            all.push(raw);
            if !intact {
                return;
            }
        }
    }

    /// What follows the scheme; `false` if it breaks the grammar.
    fn body(&mut self, raw: &mut Raw) -> bool {
        self.skip(is_blank);
        if self.token68() {
            return true;
        }
        loop {
            let before = self.rest;
            self.skip(|c| is_blank(c) || c == ',');
            let name = self.take(is_token);
            self.skip(is_blank);
            if name.is_empty() || !self.rest.starts_with('=') {
                self.rest = before;
                return true;
            }
            self.bump(1);
            self.skip(is_blank);
            let Some(value) = self.value() else { return false };
            if raw.parameters.len() < PARAMETERS_MAX {
                raw.parameters.push((name.to_owned(), value));
            }
        }
    }

    fn token68(&mut self) -> bool {
        let before = self.rest;
        let text = self.take(|c| c.is_ascii_alphanumeric() || "-._~+/".contains(c));
        self.skip(|c| c == '=');
        self.skip(is_blank);
        let whole = !text.is_empty() && (self.rest.is_empty() || self.rest.starts_with(','));
        if !whole {
            self.rest = before;
        }
        whole
    }

    fn value(&mut self) -> Option<String> {
        if !self.rest.starts_with('"') {
            let token = self.take(is_token);
            return (!token.is_empty()).then(|| token.to_owned());
        }
        let mut text = String::new();
        let mut escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                _ if escaped => {
                    text.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    self.bump(at + 1);
                    return Some(text);
                }
                _ => text.push(c),
            }
        }
        None
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn skip(&mut self, unwanted: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(unwanted);
    }

    fn bump(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
    }
}

fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bearer(values: &[&str]) -> Challenge {
        match asked(values) {
            Asked::Bearer(challenge) => challenge,
            other => panic!("{values:?} gives {other:?}"),
        }
    }

    fn asked(values: &[&str]) -> Asked {
        read(&values.iter().map(|&v| v.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn parameters_quoted_or_not_in_any_case() {
        let found = bearer(&[
            "bearer Realm=x, RESOURCE_METADATA = \"https://a/b,c?d=\\\"e\\\"\" ,scope=\"a b\",error=insufficient_scope",
        ]);
        assert_eq!(found.resource_metadata.as_deref(), Some("https://a/b,c?d=\"e\""));
        assert_eq!(found.scope.unwrap().joined(), "a b");
        assert_eq!(found.error.as_deref(), Some("insufficient_scope"));
    }

    #[test]
    fn several_challenges_in_one_value_and_in_several() {
        let mixed =
            "Negotiate YWJj==, Basic realm=\"Bearer scope=\\\"no\\\"\", Bearer scope=\"yes\"";
        assert_eq!(bearer(&[mixed]).scope.unwrap().joined(), "yes");
        assert_eq!(bearer(&["Negotiate", "Bearer scope=s"]).scope.unwrap().joined(), "s");
        assert_eq!(bearer(&["Basic, , Bearer,"]), Challenge::default());
        assert_eq!(
            bearer(&["Bearer scope=s, Basic realm=\"x\", DPoP algs=\"ES256\""])
                .scope
                .unwrap()
                .joined(),
            "s"
        );
        let second = bearer(&["Bearer realm=a, Bearer resource_metadata=\"m\""]);
        assert_eq!(second.resource_metadata.as_deref(), Some("m"));
    }

    #[test]
    fn what_is_not_a_bearer_challenge() {
        assert_eq!(asked(&[]), Asked::Nothing);
        assert_eq!(asked(&["", " , ,"]), Asked::Nothing);
        assert_eq!(asked(&["\"Bearer\""]), Asked::Nothing);
        assert_eq!(asked(&["Basic realm=\"Bearer\""]), Asked::Others);
    }

    #[test]
    fn broken_text_keeps_what_came_before() {
        let open = bearer(&["Bearer scope=s, error=\"never closed, Basic realm=x"]);
        assert_eq!(open.scope.unwrap().joined(), "s");
        assert_eq!(open.error, None);
        assert_eq!(bearer(&["Bearer scope="]), Challenge::default());
        assert_eq!(bearer(&["Bearer scope=\"\""]).scope, None);
    }

    #[test]
    fn the_first_of_equal_parameters_counts() {
        assert_eq!(bearer(&["Bearer error=a, error=b"]).error.as_deref(), Some("a"));
    }

    proptest! {
        #[test]
        fn no_text_panics_or_hangs(values in proptest::collection::vec(".{0,80}", 0..4)) {
            let _ = read(&values);
        }

        #[test]
        fn a_quoted_value_comes_back(text in "[ -~]{0,40}") {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            let value = format!("Basic realm=\"a\", Bearer error=\"{quoted}\", resource_metadata=\"u\"");
            let found = bearer(&[&value]);
            prop_assert_eq!(found.error, Some(text));
            prop_assert_eq!(found.resource_metadata, Some("u".to_owned()));
        }
    }
}
