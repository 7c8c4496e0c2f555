//! A client that is refused, asks for a token, and gets in: over HTTP, against a server of this
//! library and an authorization server made for the test.

#![cfg(feature = "auth")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, request::Parts};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mcplane::auth::{FollowRedirect, OAuth};
use mcplane::transport::http::Work;
use mcplane::transport::http::client::{Http, Pool};
use mcplane::transport::http::server::{Authenticate, ConnectionLimits, Denied, Endpoint, serve};
use mcplane::transport::listen::{Limits, Listener};
use mcplane::{Client, Context, Server, tool};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use url::{Url, form_urlencoded};

/// Says who asks.
#[tool]
fn whoami(context: &Context) -> String {
    context.principal().unwrap_or("nobody").to_owned()
}

/// Changes something.
#[tool]
fn change() -> String {
    "changed".to_owned()
}

#[tokio::test]
async fn a_client_gets_in_and_asks_for_more_when_it_needs_more() {
    let world = World::start(false).await;
    let client = Client::builder("test", "1").connect(world.http()).await.unwrap();
    assert_eq!(client.list_tools().await.unwrap().len(), 2);
    let who = client.call_tool("whoami", &json!({})).await.unwrap();
    assert_eq!(who.content[0].as_text(), Some("holder of read"));
    client.call_tool("change", &json!({})).await.unwrap();
    let who = client.call_tool("whoami", &json!({})).await.unwrap();
    assert_eq!(who.content[0].as_text(), Some("holder of write read"));
    assert_eq!(world.server.asked.lock().unwrap().as_slice(), ["read", "write read"]);
}

#[tokio::test]
async fn without_credentials_the_refusal_is_the_callers() {
    let world = World::start(false).await;
    let bare = Http::new(&world.url).unwrap();
    let error = Client::builder("test", "1").connect(bare).await.unwrap_err();
    assert!(error.is_unauthorized(), "{error}");
}

#[tokio::test]
async fn a_user_who_says_no_is_quoted() {
    let world = World::start(true).await;
    let error = Client::builder("test", "1").connect(world.http()).await.unwrap_err();
    assert!(error.is_unauthorized(), "{error:?}");
    assert!(error.to_string().contains("access_denied not today"), "{error}");
    assert_eq!(world.server.asked.lock().unwrap().len(), 1);
}

struct World {
    url: String,
    server: Arc<AuthorizationServer>,
}

impl World {
    async fn start(refuses: bool) -> Self {
        let server = AuthorizationServer::start(refuses).await;
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&any, Limits::default()).await.unwrap();
        let base = format!("http://{}", listener.local_address());
        let url = format!("{base}/mcp");
        let service = Server::new("protected", "1").tool(whoami).tool(change).start().unwrap();
        let endpoint = Endpoint::builder(service)
            .authenticate(Door { base, server: Arc::clone(&server) })
            .resource_metadata(&json!({ "resource": url, "authorization_servers": [server.base] }))
            .build();
        let limits = ConnectionLimits::default();
        tokio::spawn(serve(listener, endpoint, limits, std::future::pending()));
        Self { url, server }
    }

    fn http(&self) -> Http {
        let pool = Pool::new();
        let user = FollowRedirect::new(pool.clone());
        let credentials = OAuth::new(self.url.parse().unwrap(), pool.clone(), user).unwrap();
        Http::new(&self.url).unwrap().pool(pool).credentials(Arc::new(credentials))
    }
}

/// Lets in who has a token; `change` needs one that may write.
struct Door {
    base: String,
    server: Arc<AuthorizationServer>,
}

impl Authenticate for Door {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> Work<'a, Result<Arc<str>, Denied>> {
        let value = head.headers.get("authorization").and_then(|value| value.to_str().ok());
        let tokens = self.server.scopes.lock().unwrap();
        let scopes = value.and_then(|value| tokens.get(value.strip_prefix("Bearer ")?)).cloned();
        let writes = head.headers.get("mcp-name").is_some_and(|name| name == "change");
        let needed = if writes { "write" } else { "read" };
        let challenge = format!(
            "Bearer error=\"insufficient_scope\", scope=\"{needed}\", \
             resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"",
            self.base
        );
        let challenge = HeaderValue::try_from(challenge).unwrap();
        let verdict = match scopes {
            None => Err(Denied::unauthorized(challenge)),
            Some(scopes) if !scopes.contains(needed) => Err(Denied::forbidden(challenge)),
            Some(scopes) => Ok(Arc::from(format!("holder of {scopes}"))),
        };
        Box::pin(std::future::ready(verdict))
    }
}

/// Gives out tokens named after the code they were asked for with.
struct AuthorizationServer {
    base: String,
    refuses: bool,
    asked: Mutex<Vec<String>>,
    scopes: Mutex<HashMap<String, String>>,
}

impl AuthorizationServer {
    async fn start(refuses: bool) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (asked, scopes) = Default::default();
        let server = Arc::new(Self { base, refuses, asked, scopes });
        let shared = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                let service = service_fn(move |request| respond(Arc::clone(&shared), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        server
    }

    fn answer(&self, path: &str, fields: &HashMap<String, String>) -> Result<Value, Url> {
        let base = &self.base;
        Ok(match path {
            "/.well-known/oauth-authorization-server" => json!({
                "issuer": base,
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"),
                "registration_endpoint": format!("{base}/register"),
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            }),
            "/register" => json!({ "client_id": "client" }),
            "/authorize" => {
                let mut asked = self.asked.lock().unwrap();
                asked.push(fields["scope"].clone());
                let mut url: Url = fields["redirect_uri"].parse().unwrap();
                let mut query = url.query_pairs_mut();
                query.append_pair("state", &fields["state"]).append_pair("iss", base);
                if self.refuses {
                    query.append_pair("error", "access_denied");
                    query.append_pair("error_description", "not today");
                } else {
                    query.append_pair("code", &asked.len().to_string());
                }
                drop(query);
                return Err(url);
            }
            "/token" => {
                let token = format!("token-{}", fields["code"]);
                let number: usize = fields["code"].parse().unwrap();
                let scope = self.asked.lock().unwrap()[number - 1].clone();
                self.scopes.lock().unwrap().insert(token.clone(), scope);
                json!({ "access_token": token, "token_type": "Bearer", "expires_in": 3600 })
            }
            other => panic!("{other} was asked for"),
        })
    }
}

async fn respond(
    server: Arc<AuthorizationServer>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let query = parts.uri.query().unwrap_or_default().as_bytes();
    let fields = form_urlencoded::parse(query).chain(form_urlencoded::parse(&body));
    let fields = fields.map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    let response = match server.answer(parts.uri.path(), &fields) {
        Ok(document) => Response::new(Full::new(Bytes::from(document.to_string()))),
        Err(elsewhere) => {
            let redirect = Response::builder().status(302).header("location", elsewhere.as_str());
            redirect.body(Full::default()).unwrap()
        }
    };
    Ok(response)
}
