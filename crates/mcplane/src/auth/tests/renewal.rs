//! Tokens that are no longer enough.

use std::sync::{Arc, Mutex};

use serde_json::json;

use super::world::{Reply, World};
use crate::auth::{Grant, Key, TokenStore};
use crate::error::Result;
use crate::transport::http::Work;
use crate::transport::http::client::credentials::Credentials;

#[tokio::test]
async fn a_token_that_ended_is_refreshed_without_the_user() {
    let world = World::start().await;
    let oauth = world.oauth();
    let first = world.call(&oauth).await.unwrap();
    world.revoke();
    let second = world.call(&oauth).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(world.seen("as GET /authorize").len(), 1);
    let refresh = &world.seen("as POST /token")[1];
    assert_eq!(refresh.field("grant_type"), Some("refresh_token"));
    assert_eq!(refresh.field("resource"), Some(world.url().as_str()));
    assert_eq!(refresh.client().0, "client-of-as");
}

#[tokio::test]
async fn a_refresh_that_is_denied_asks_the_user() {
    let world = World::start().await;
    let oauth = world.oauth();
    world.call(&oauth).await.unwrap();
    world.revoke();
    world.denies_refresh();
    world.call(&oauth).await.unwrap();
    assert_eq!(world.seen("as GET /authorize").len(), 2);
    assert_eq!(world.seen("as POST /register").len(), 1);
}

#[tokio::test]
async fn a_token_endpoint_that_fails_does_not_ask_the_user() {
    let world = World::start().await;
    let oauth = world.oauth();
    world.call(&oauth).await.unwrap();
    world.revoke();
    world.route("as POST /token", |_| Reply::json(503, &json!({})));
    let error = world.call(&oauth).await.unwrap_err().to_string();
    assert!(error.contains("503"), "{error}");
    assert_eq!(world.seen("as GET /authorize").len(), 1);
}

#[tokio::test]
async fn a_step_up_asks_for_the_union() {
    let world = World::start().await;
    world.needs("read");
    world.resource(json!({ "scopes_supported": ["profile"] }));
    world.server("as", &world.auth, json!({ "scopes_supported": ["read", "offline_access"] }));
    let oauth = world.oauth().scopes(["extra"]);
    world.call(&oauth).await.unwrap();
    world.needs("write");
    world.call(&oauth).await.unwrap();
    let asked = world.seen("as GET /authorize");
    assert_eq!(asked[0].field("scope"), Some("read extra offline_access"));
    assert_eq!(asked[0].field("prompt"), Some("consent"));
    assert_eq!(asked[1].field("scope"), Some("write read extra offline_access"));
    assert_eq!(world.seen("as POST /register").len(), 1);
}

#[tokio::test]
async fn all_scopes_of_the_resource_when_the_challenge_names_none() {
    let world = World::start().await;
    world.resource(json!({ "scopes_supported": ["a", "b"] }));
    world.call(&world.oauth()).await.unwrap();
    assert_eq!(world.seen("as GET /authorize")[0].field("scope"), Some("a b"));
}

#[tokio::test]
async fn a_server_that_is_never_content_is_given_up() {
    let world = World::start().await;
    let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", world.mcp);
    world.route("mcp POST /mcp", move |seen| {
        let challenge = format!("Bearer resource_metadata=\"{metadata}\", scope=admin");
        let known = seen.authorization.is_some();
        let reply = Reply::json(if known { 403 } else { 401 }, &json!({}));
        reply.with("www-authenticate", challenge + ", error=insufficient_scope")
    });
    let error = world.call(&world.oauth()).await.unwrap_err().to_string();
    assert!(error.contains("refused with 403"), "{error}");
    assert_eq!(world.seen("as GET /authorize").len(), 3);

    world.route("mcp POST /mcp", |_| Reply::json(401, &json!({})));
    let error = world.call(&world.oauth()).await.unwrap_err().to_string();
    assert!(error.contains("refused with 401"), "{error}");
    assert_eq!(world.seen("as GET /authorize").len(), 4, "one by the user, one refreshed");
}

#[tokio::test]
async fn another_authorization_server_gets_nothing_of_the_first() {
    let mut world = World::start().await;
    let oauth = world.oauth().client("by-hand", Some("hidden".to_owned()));
    let first = world.call(&oauth).await.unwrap();
    let second = world.listen("second").await;
    world.server("second", &second, json!({}));
    world.authorizes("second", &second);
    world.resource(json!({ "authorization_servers": [second] }));
    world.revoke();
    world.call(&oauth).await.unwrap();
    assert_eq!(world.seen("second POST /register").len(), 1);
    assert_eq!(world.seen("second POST /token")[0].client().0, "client-of-second");
    for seen in world.seen("second ") {
        let text = format!("{seen:?}");
        for secret in [first.as_str(), "secret-refresh", "by-hand", "hidden", "client-of-as"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

#[tokio::test]
async fn a_token_goes_to_its_own_server_only() {
    let world = World::start().await;
    let oauth = world.oauth();
    let token = world.call(&oauth).await.unwrap();
    for seen in world.log() {
        let sent = seen.authorization.unwrap_or_default() + &seen.body;
        assert_eq!(sent.contains(&token), seen.what == "mcp POST /mcp" && !sent.is_empty());
    }
    let other = World::start().await;
    let error = other.call(&oauth).await.unwrap_err();
    assert!(error.is_misuse(), "{error}");
}

#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<(Key, String)>>>);

impl TokenStore for File {
    fn load<'a>(&'a self, key: &'a Key) -> Work<'a, Result<Option<Grant>>> {
        let saved = self.0.lock().unwrap();
        let found = saved.iter().rev().find(|(known, _)| known == key);
        let grant = found.map(|(_, text)| serde_json::from_str(text).unwrap());
        Box::pin(async { Ok(grant) })
    }

    fn save<'a>(&'a self, key: &'a Key, grant: &'a Grant) -> Work<'a, Result<()>> {
        assert!(!format!("{key:?} {grant:?}").contains("secret"));
        self.0.lock().unwrap().push((key.clone(), serde_json::to_string(grant).unwrap()));
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn a_kept_grant_spares_the_next_process_the_user() {
    let world = World::start().await;
    let file = File::default();
    let token = world.call(&world.oauth().store(file.clone())).await.unwrap();
    assert_eq!(world.call(&world.oauth().store(file.clone())).await.unwrap(), token);
    world.revoke();
    assert_ne!(world.call(&world.oauth().store(file.clone())).await.unwrap(), token);
    assert_eq!(world.seen("as GET /authorize").len(), 1);
    assert_eq!(world.seen("as POST /register").len(), 1);
    let (key, _) = file.0.lock().unwrap()[0].clone();
    assert_eq!((key.issuer, key.resource), (world.auth.clone(), world.url().to_string()));
}

#[tokio::test]
async fn nothing_secret_is_printed() {
    let world = World::start().await;
    let oauth = world.oauth().client("by-hand", Some("secret".to_owned()));
    world.call(&oauth).await.unwrap();
    assert!(!format!("{oauth:?} {:?}", oauth.header()).contains("secret"));
    world.revoke();
    world.route("as POST /token", |_| {
        Reply::json(200, &json!({ "access_token": "secret\n", "token_type": "Bearer" }))
    });
    let error = world.call(&oauth).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
}
