//! Who issues the tokens: from the metadata of the MCP server to that of its authorization server.

use serde_json::{Map, Value};
use url::Url;

use super::challenge::Challenge;
use super::fetch::{Fetch, Found, bare};
use super::scope::Scopes;
use crate::error::{Error, Result};

/// What an MCP server publishes about itself (RFC 9728).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resource {
    /// Its identifier as published, to the byte.
    pub(super) id: String,
    /// Its authorization servers; at least one.
    pub(super) issuers: Vec<String>,
    pub(super) scopes: Option<Scopes>,
}

/// What an authorization server publishes about itself (RFC 8414).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) scopes: Scopes,
    /// How clients prove who they are at the token endpoint.
    pub(super) client_proofs: Option<Vec<String>>,
    pub(super) grant_types: Option<Vec<String>>,
    /// Its redirects name it (RFC 9207).
    pub(super) names_itself: bool,
    /// A client's identifier may be the URL of its metadata.
    pub(super) takes_client_metadata_url: bool,
}

/// Asks an MCP server for its metadata: where the challenge says, then at the well-known places.
/// `None` if it publishes none, as servers of 2025-03-26 do.
pub(super) async fn resource(
    fetch: &Fetch,
    server: &Url,
    challenge: &Challenge,
) -> Result<Option<Resource>> {
    let mut places: Vec<Url> = Vec::new();
    if let Some(named) = &challenge.resource_metadata {
        // A relative reference is not allowed, but it has only one meaning.
        let url = server.join(named).map_err(|error| {
            Error::malformed(format!(
                "{} names its metadata with {named:?}, which is not a URL: {error}",
                bare(server)
            ))
        })?;
        places.push(url);
    }
    for place in resource_places(server) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    for place in places {
        if let Found::Document(document) = fetch.metadata(&place).await? {
            return read_resource(&document, &place, server).map(Some);
        }
    }
    Ok(None)
}

/// Asks an authorization server that a protected resource named for its metadata.
pub(super) async fn authorization_server(
    fetch: &Fetch,
    issuer: &str,
) -> Result<AuthorizationServer> {
    let base = Url::parse(issuer).map_err(|error| {
        Error::malformed(format!("the authorization server {issuer:?} is not a URL: {error}"))
    })?;
    let mut misses = Vec::new();
    for place in server_places(&base) {
        match fetch.metadata(&place).await? {
            Found::Document(document) => {
                let stated = text(&document, "issuer").unwrap_or_default();
                if stated != issuer {
                    return Err(Error::malformed(format!(
                        "{place} is the metadata of the issuer {stated:?}, not of {issuer:?}; \
                         the two must be equal to the byte"
                    )));
                }
                return read_server(&document, &place, fetch);
            }
            Found::Nothing(why) => misses.push(why),
        }
    }
    Err(Error::malformed(format!(
        "the authorization server {issuer} has no metadata: {}",
        misses.join("; ")
    )))
}

/// The authorization server of an MCP server without metadata: itself, as in 2025-03-26.
pub(super) async fn legacy_server(fetch: &Fetch, server: &Url) -> Result<AuthorizationServer> {
    let issuer = server.origin().ascii_serialization();
    let join = |path: &str| {
        let joined = server.join(path);
        joined.map_err(|error| Error::malformed(format!("{}{path}: {error}", bare(server))))
    };
    let place = join("/.well-known/oauth-authorization-server")?;
    if let Found::Document(document) = fetch.metadata(&place).await? {
        // That revision does not say how the issuer relates to the server; another origin's name
        // would let one server pose as another.
        let stated = text(&document, "issuer").unwrap_or_default();
        let same = Url::parse(stated).is_ok_and(|url| url.origin() == server.origin());
        if !same {
            return Err(Error::malformed(format!(
                "{place} is the metadata of the issuer {stated:?}, which is not at {issuer}"
            )));
        }
        return read_server(&document, &place, fetch);
    }
    Ok(AuthorizationServer {
        issuer,
        authorization_endpoint: join("/authorize")?,
        token_endpoint: join("/token")?,
        registration_endpoint: Some(join("/register")?),
        scopes: Scopes::default(),
        client_proofs: None,
        grant_types: None,
        names_itself: false,
        takes_client_metadata_url: false,
    })
}

/// What a server without metadata is called: its URL without fragment, and without the slash that
/// stands for no path.
pub(super) fn canonical(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    let text = url.as_str();
    let bare_host = url.path() == "/" && url.query().is_none();
    if bare_host { text.trim_end_matches('/') } else { text }.to_owned()
}

/// The well-known places of a protected resource: with its path, then without.
fn resource_places(server: &Url) -> Vec<Url> {
    const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
    let path = server.path().trim_end_matches('/');
    let mut places = vec![at(server, &format!("{WELL_KNOWN}{path}"))];
    if !path.is_empty() {
        places.push(at(server, WELL_KNOWN));
    }
    places
}

/// The well-known places of an authorization server's metadata, in the order of the specification.
fn server_places(issuer: &Url) -> Vec<Url> {
    const OAUTH: &str = "/.well-known/oauth-authorization-server";
    const OPENID: &str = "/.well-known/openid-configuration";
    let path = issuer.path().trim_end_matches('/');
    let mut places =
        vec![at(issuer, &format!("{OAUTH}{path}")), at(issuer, &format!("{OPENID}{path}"))];
    if !path.is_empty() {
        places.push(at(issuer, &format!("{path}{OPENID}")));
    }
    places
}

fn at(base: &Url, path: &str) -> Url {
    let mut url = bare(base);
    url.set_path(path);
    url
}

fn read_resource(document: &Map<String, Value>, place: &Url, server: &Url) -> Result<Resource> {
    let Some(id) = text(document, "resource") else {
        return Err(Error::malformed(format!("{place} has no `resource`")));
    };
    if !covers(id, server) {
        return Err(Error::malformed(format!(
            "{place} describes the resource {id:?}, which is not {}; a token for it is not asked \
             for. Check the server's URL, and its `resource` if the server is yours",
            bare(server)
        )));
    }
    let issuers = texts(document, "authorization_servers").unwrap_or_default();
    if issuers.is_empty() {
        return Err(Error::malformed(format!("{place} names no `authorization_servers`")));
    }
    Ok(Resource { id: id.to_owned(), issuers, scopes: scopes(document) })
}

/// Whether a resource's identifier stands for this server: the same origin, and its path or one
/// above it.
fn covers(id: &str, server: &Url) -> bool {
    let Ok(id) = Url::parse(id) else { return false };
    let above = id.path().trim_end_matches('/');
    let below = server.path().strip_prefix(above);
    id.origin() == server.origin()
        && id.origin().is_tuple()
        && id.fragment().is_none()
        && (id.query().is_none() || id.query() == server.query())
        && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn read_server(
    document: &Map<String, Value>,
    place: &Url,
    fetch: &Fetch,
) -> Result<AuthorizationServer> {
    let endpoint = |name: &str| -> Result<Option<Url>> {
        let Some(value) = text(document, name) else { return Ok(None) };
        let url = Url::parse(value)
            .map_err(|error| Error::malformed(format!("`{name}` of {place}: {error}")))?;
        fetch.reach().check(&url)?;
        Ok(Some(url))
    };
    let needed = |name: &str| {
        endpoint(name)?.ok_or_else(|| Error::malformed(format!("{place} has no `{name}`")))
    };
    let challenges = texts(document, "code_challenge_methods_supported").unwrap_or_default();
    if !challenges.iter().any(|method| method == "S256") {
        return Err(Error::malformed(format!(
            "the authorization server does not support PKCE with S256 (see \
             `code_challenge_methods_supported` of {place}), without which codes can be stolen"
        )));
    }
    Ok(AuthorizationServer {
        issuer: text(document, "issuer").unwrap_or_default().to_owned(),
        authorization_endpoint: needed("authorization_endpoint")?,
        token_endpoint: needed("token_endpoint")?,
        registration_endpoint: endpoint("registration_endpoint")?,
        scopes: scopes(document).unwrap_or_default(),
        client_proofs: texts(document, "token_endpoint_auth_methods_supported"),
        grant_types: texts(document, "grant_types_supported"),
        names_itself: flag(document, "authorization_response_iss_parameter_supported"),
        takes_client_metadata_url: flag(document, "client_id_metadata_document_supported"),
    })
}

fn text<'a>(document: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    document.get(name)?.as_str()
}

fn flag(document: &Map<String, Value>, name: &str) -> bool {
    document.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn texts(document: &Map<String, Value>, name: &str) -> Option<Vec<String>> {
    let values = document.get(name)?.as_array()?;
    Some(values.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn scopes(document: &Map<String, Value>) -> Option<Scopes> {
    let values = document.get("scopes_supported")?.as_array()?;
    Some(values.iter().filter_map(Value::as_str).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn strings(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn the_well_known_places_of_a_resource() {
        assert_eq!(
            strings(&resource_places(&url("https://a.example:8443/public/mcp?x=1#y"))),
            [
                "https://a.example:8443/.well-known/oauth-protected-resource/public/mcp",
                "https://a.example:8443/.well-known/oauth-protected-resource",
            ]
        );
        assert_eq!(
            strings(&resource_places(&url("https://a.example"))),
            ["https://a.example/.well-known/oauth-protected-resource"]
        );
    }

    #[test]
    fn the_well_known_places_of_an_authorization_server() {
        assert_eq!(
            strings(&server_places(&url("https://a.example/tenant1/"))),
            [
                "https://a.example/.well-known/oauth-authorization-server/tenant1",
                "https://a.example/.well-known/openid-configuration/tenant1",
                "https://a.example/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            strings(&server_places(&url("https://a.example"))),
            [
                "https://a.example/.well-known/oauth-authorization-server",
                "https://a.example/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn an_identifier_covers_its_own_path_and_below() {
        let server = url("https://a.example/one/mcp");
        for id in ["https://a.example", "https://a.example/", "https://a.example/one"] {
            assert!(covers(id, &server), "{id}");
        }
        assert!(covers("https://A.example:443/one/mcp", &server));
        for id in [
            "https://evil.example/one/mcp",
            "http://a.example/one/mcp",
            "https://a.example:444/one/mcp",
            "https://a.example/on",
            "https://a.example/one/mcp/more",
            "https://a.example/one/mcp?tenant=2",
            "https://a.example/one/mcp#f",
            "urn:mcp",
            "",
        ] {
            assert!(!covers(id, &server), "{id}");
        }
    }

    #[test]
    fn a_server_without_metadata_is_called_by_its_url() {
        assert_eq!(canonical(&url("https://a.example/")), "https://a.example");
        assert_eq!(canonical(&url("https://a.example/mcp#x")), "https://a.example/mcp");
        assert_eq!(canonical(&url("https://a.example/?t=1")), "https://a.example/?t=1");
    }
}
