//! An MCP server that wants tokens, and the authorization server that gives them, on this machine.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use url::{Url, form_urlencoded};

use crate::auth::{FollowRedirect, OAuth};
use crate::error::{Error, Result};
use crate::transport::http::client::Pool;
use crate::transport::http::client::credentials::{Credentials, Refusal};

/// What a request looked like: `mcp POST /mcp`, its fields (query or form), its credentials.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) what: String,
    pub(super) fields: BTreeMap<String, String>,
    pub(super) body: String,
    pub(super) authorization: Option<String>,
}

impl Seen {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// The client of a token request, and how it proved itself.
    pub(super) fn client(&self) -> (String, &'static str) {
        if let Some(basic) = self.authorization.as_ref().and_then(|v| v.strip_prefix("Basic ")) {
            let pair = String::from_utf8(STANDARD.decode(basic).unwrap()).unwrap();
            return (pair, "basic");
        }
        let id = self.field("client_id").unwrap_or_default();
        match self.field("client_secret") {
            Some(secret) => (format!("{id}:{secret}"), "post"),
            None => (id.to_owned(), "none"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Reply {
    pub(super) fn json(status: u16, body: &Value) -> Self {
        Self { status, headers: Vec::new(), body: body.to_string() }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn denied(error: &str) -> Self {
        Self::json(400, &json!({ "error": error, "error_description": "in a test" }))
    }
}

type Route = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

#[derive(Default)]
struct State {
    routes: Mutex<HashMap<String, Route>>,
    log: Mutex<Vec<Seen>>,
    /// Codes that were given out: challenge, client, resource, scope.
    codes: Mutex<HashMap<String, [String; 4]>>,
    /// Tokens that are good, with their scopes.
    tokens: Mutex<HashMap<String, String>>,
}

pub(super) struct World {
    pub(super) mcp: String,
    pub(super) auth: String,
    state: Arc<State>,
    tasks: JoinSet<()>,
}

impl World {
    pub(super) async fn start() -> Self {
        let mut world = Self {
            mcp: String::new(),
            auth: String::new(),
            state: Arc::default(),
            tasks: JoinSet::new(),
        };
        world.mcp = world.listen("mcp").await;
        world.auth = world.listen("as").await;
        world.resource(json!({}));
        world.server("as", &world.auth, json!({}));
        world.authorizes("as", &world.auth);
        world.needs("");
        world
    }

    /// One more listener; `name` begins what its requests are called.
    pub(super) async fn listen(&mut self, name: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::clone(&self.state);
        self.tasks.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = Arc::clone(&state);
                let service = service_fn(move |request| respond(name, Arc::clone(&state), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        base
    }

    pub(super) fn route(&self, what: &str, route: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        self.state.routes.lock().unwrap().insert(what.to_owned(), Arc::new(route));
    }

    pub(super) fn remove(&self, what: &str) {
        self.state.routes.lock().unwrap().remove(what);
    }

    pub(super) fn document(&self, what: &str, document: Value) {
        self.route(what, move |_| Reply::json(200, &document));
    }

    /// The metadata of the MCP server, with these fields changed.
    pub(super) fn resource(&self, changes: Value) {
        let document = json!({
            "resource": format!("{}/mcp", self.mcp),
            "authorization_servers": [self.auth],
        });
        let what = "mcp GET /.well-known/oauth-protected-resource/mcp";
        self.document(what, merged(document, changes));
    }

    /// The metadata of an authorization server, with these fields changed.
    pub(super) fn server(&self, name: &str, base: &str, changes: Value) {
        let what = format!("{name} GET /.well-known/oauth-authorization-server");
        self.document(&what, self.metadata(base, changes));
    }

    pub(super) fn metadata(&self, base: &str, changes: Value) -> Value {
        let document = json!({
            "issuer": base,
            "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": true,
        });
        merged(document, changes)
    }

    /// The endpoints of an authorization server that keeps to the rules.
    pub(super) fn authorizes(&self, name: &str, issuer: &str) {
        let (state, iss) = (Arc::clone(&self.state), issuer.to_owned());
        self.route(&format!("{name} GET /authorize"), move |seen| {
            let iss = iss.as_str();
            redirect(seen, &[("code", &state.code(seen)), ("iss", iss)])
        });
        let state = Arc::clone(&self.state);
        self.route(&format!("{name} POST /token"), move |seen| state.token(seen));
        let name = name.to_owned();
        self.route(&format!("{name} POST /register"), move |seen| {
            let request: Value = serde_json::from_str(&seen.body).unwrap();
            let method = request["token_endpoint_auth_method"].as_str().unwrap();
            let mut reply = json!({ "client_id": format!("client-of-{name}") });
            if method != "none" {
                reply["client_secret"] = json!("s:e c%ret");
            }
            Reply::json(201, &reply)
        });
    }

    /// The MCP server takes good tokens that have this scope.
    pub(super) fn needs(&self, scope: &'static str) {
        let (state, mcp) = (Arc::clone(&self.state), self.mcp.clone());
        self.route("mcp POST /mcp", move |seen| {
            let metadata = format!("{mcp}/.well-known/oauth-protected-resource/mcp");
            let sent = seen.authorization.as_deref().and_then(|v| v.strip_prefix("Bearer "));
            let tokens = state.tokens.lock().unwrap();
            let mut challenge = format!("Basic realm=x, Bearer resource_metadata=\"{metadata}\"");
            if !scope.is_empty() {
                challenge += &format!(", scope=\"{scope}\"");
            }
            match sent.and_then(|token| tokens.get(token)) {
                None => Reply::json(401, &json!({})).with("www-authenticate", challenge),
                Some(has) if scope.split(' ').all(|s| s.is_empty() || has.contains(s)) => {
                    Reply::json(200, &json!({ "token": sent }))
                }
                Some(_) => Reply::json(403, &json!({}))
                    .with("www-authenticate", challenge + ", error=insufficient_scope"),
            }
        });
    }

    /// The token endpoint knows this client no longer.
    pub(super) fn forgets(&self, client: &'static str) {
        let state = Arc::clone(&self.state);
        self.route("as POST /token", move |seen| {
            if seen.client().0 == client {
                return Reply::denied("invalid_client");
            }
            state.token(seen)
        });
    }

    /// The token endpoint takes codes only.
    pub(super) fn denies_refresh(&self) {
        let state = Arc::clone(&self.state);
        self.route("as POST /token", move |seen| {
            if seen.field("grant_type") == Some("refresh_token") {
                return Reply::denied("invalid_grant");
            }
            state.token(seen)
        });
    }

    /// No token is good any more.
    pub(super) fn revoke(&self) {
        self.state.tokens.lock().unwrap().clear();
    }

    pub(super) fn log(&self) -> Vec<Seen> {
        self.state.log.lock().unwrap().clone()
    }

    /// The requests whose name begins like this.
    pub(super) fn seen(&self, what: &str) -> Vec<Seen> {
        self.log().into_iter().filter(|seen| seen.what.starts_with(what)).collect()
    }

    pub(super) fn url(&self) -> Url {
        format!("{}/mcp", self.mcp).parse().unwrap()
    }

    pub(super) fn oauth(&self) -> OAuth {
        let pool = Pool::new();
        OAuth::new(self.url(), pool.clone(), FollowRedirect::new(pool)).unwrap()
    }

    /// One request to the MCP server as a client makes it; the token that it was answered for.
    pub(super) async fn call(&self, credentials: &impl Credentials) -> Result<String> {
        let pool = Pool::new();
        for _ in 0..10 {
            let sent = credentials.header();
            let mut request = Request::post(self.url().as_str());
            if let Some(value) = &sent {
                request = request.header("authorization", value);
            }
            let request = request.body(Bytes::new()).unwrap();
            let answer = pool.fetch(request, 1 << 20, std::time::Duration::from_secs(5)).await?;
            let status = answer.status();
            if status == StatusCode::OK {
                let body: Value = serde_json::from_slice(answer.body()).unwrap();
                return Ok(body["token"].as_str().unwrap().to_owned());
            }
            let values = answer.headers().get_all("www-authenticate").iter();
            let challenges = values.map(|value| value.to_str().unwrap().to_owned()).collect();
            let method = Some("tools/call".to_owned());
            let refusal = Refusal { url: self.url(), status, challenges, sent, method };
            if !credentials.refused(&refusal).await? {
                return Err(Error::misuse(format!("refused with {status}")));
            }
        }
        panic!("the client never gives up");
    }
}

impl State {
    fn code(&self, seen: &Seen) -> String {
        let field = |name: &str| seen.field(name).unwrap_or_default().to_owned();
        assert_eq!(field("code_challenge_method"), "S256");
        assert_eq!(field("response_type"), "code");
        let mut codes = self.codes.lock().unwrap();
        let code = format!("secret-code-{}", codes.len());
        let terms = ["code_challenge", "client_id", "resource", "scope"].map(field);
        codes.insert(code.clone(), terms);
        code
    }

    fn token(&self, seen: &Seen) -> Reply {
        let field = |name: &str| seen.field(name).unwrap_or_default();
        let client = seen.client().0;
        let scope = match field("grant_type") {
            "authorization_code" => {
                let codes = self.codes.lock().unwrap();
                let Some([challenge, client_id, resource, scope]) = codes.get(field("code")) else {
                    return Reply::denied("invalid_grant");
                };
                let digest = Sha256::digest(field("code_verifier").as_bytes());
                let proved = URL_SAFE_NO_PAD.encode(digest) == *challenge;
                if !proved || !client.starts_with(client_id.as_str()) {
                    return Reply::denied("invalid_grant");
                }
                if field("resource") != resource || resource.is_empty() {
                    return Reply::denied("invalid_target");
                }
                scope.clone()
            }
            "refresh_token" if field("refresh_token").starts_with("secret-refresh") => {
                String::new()
            }
            _ => return Reply::denied("invalid_grant"),
        };
        let mut tokens = self.tokens.lock().unwrap();
        let number = self.log.lock().unwrap().len();
        let token = format!("secret-token-{number}");
        tokens.insert(token.clone(), scope);
        Reply::json(
            200,
            &json!({
                "access_token": token,
                "token_type": "bearer",
                "expires_in": "3600",
                "refresh_token": format!("secret-refresh-{number}"),
            }),
        )
    }
}

/// The answer to an authorization request.
pub(super) fn redirect(seen: &Seen, fields: &[(&str, &str)]) -> Reply {
    let mut url: Url = seen.field("redirect_uri").unwrap().parse().unwrap();
    url.query_pairs_mut().append_pair("state", seen.field("state").unwrap()).extend_pairs(fields);
    Reply::json(302, &json!({})).with("location", url.as_str())
}

async fn respond(
    name: &'static str,
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let query = parts.uri.query().unwrap_or_default();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let fields = form_urlencoded::parse(query.as_bytes())
        .chain(form_urlencoded::parse(body.as_bytes()))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let what = format!("{name} {} {}", parts.method, parts.uri.path());
    let authorization = parts.headers.get("authorization").map(HeaderValue::to_str);
    let authorization = authorization.map(|value| value.unwrap().to_owned());
    let seen = Seen { what, fields, body, authorization };
    state.log.lock().unwrap().push(seen.clone());
    let route = state.routes.lock().unwrap().get(&seen.what).cloned();
    let reply = route.map_or_else(|| Reply::json(404, &json!({})), |route| route(&seen));
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(reply.body))).unwrap())
}

/// `null` removes a field.
fn merged(mut document: Value, changes: Value) -> Value {
    let object = document.as_object_mut().unwrap();
    for (name, value) in changes.as_object().unwrap().clone() {
        if value.is_null() {
            object.remove(&name);
        } else {
            object.insert(name, value);
        }
    }
    document
}
