//! Where tokens are got.

use serde_json::{Value, json};

use super::world::{Reply, World, redirect};

#[tokio::test]
async fn the_whole_way_with_a_client_that_registers_itself() {
    let world = World::start().await;
    let oauth = world.oauth().client_name("Test");
    let token = world.call(&oauth).await.unwrap();
    assert!(token.starts_with("secret-token"));
    assert_eq!(world.call(&oauth).await.unwrap(), token);

    let steps: Vec<_> = world.log().into_iter().map(|seen| seen.what).collect();
    assert_eq!(
        steps,
        [
            "mcp POST /mcp",
            "mcp GET /.well-known/oauth-protected-resource/mcp",
            "as GET /.well-known/oauth-authorization-server",
            "as POST /register",
            "as GET /authorize",
            "as POST /token",
            "mcp POST /mcp",
            "mcp POST /mcp",
        ]
    );
    let registration: Value = serde_json::from_str(&world.seen("as POST /reg")[0].body).unwrap();
    assert_eq!(
        registration,
        json!({
            "client_name": "Test",
            "application_type": "native",
            "redirect_uris": ["http://localhost:33717/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        })
    );
    let question = &world.seen("as GET /authorize")[0];
    assert_eq!(question.field("resource"), Some(format!("{}/mcp", world.mcp).as_str()));
    assert_eq!(question.field("scope"), None);
}

#[tokio::test]
async fn the_resource_is_named_as_published_to_the_byte() {
    let world = World::start().await;
    world.remove("mcp GET /.well-known/oauth-protected-resource/mcp");
    let document = json!({ "resource": world.mcp, "authorization_servers": [world.auth] });
    world.document("mcp GET /.well-known/oauth-protected-resource", document);
    world.call(&world.oauth()).await.unwrap();
    assert_eq!(world.seen("as GET /authorize")[0].field("resource"), Some(world.mcp.as_str()));
    assert_eq!(world.seen("as POST /token")[0].field("resource"), Some(world.mcp.as_str()));
}

#[tokio::test]
async fn an_issuer_with_a_path_is_never_looked_for_at_the_root() {
    let world = World::start().await;
    let issuer = format!("{}/tenant1", world.auth);
    world.resource(json!({ "authorization_servers": [issuer] }));
    let metadata = world.metadata(&world.auth, json!({ "issuer": issuer }));
    world.document("as GET /tenant1/.well-known/openid-configuration", metadata);
    world.authorizes("as", &issuer);
    world.call(&world.oauth()).await.unwrap();
    assert!(world.seen("as GET /.well-known/oauth-authorization-server/tenant1").len() == 1);
    assert!(world.log().iter().all(|s| s.what != "as GET /.well-known/oauth-authorization-server"));
}

#[tokio::test]
async fn a_redirected_document_is_followed_within_reach() {
    let world = World::start().await;
    let what = "mcp GET /.well-known/oauth-protected-resource/mcp";
    world.document(
        "mcp GET /moved",
        json!({
            "resource": format!("{}/mcp", world.mcp), "authorization_servers": [world.auth],
        }),
    );
    world.route(what, |_| Reply::json(307, &json!({})).with("location", "/moved"));
    world.call(&world.oauth()).await.unwrap();

    world.route(what, |_| {
        Reply::json(307, &json!({})).with("location", "http://169.254.169.254/latest")
    });
    let error = world.call(&world.oauth()).await.unwrap_err().to_string();
    assert!(error.contains("169.254.169.254"), "{error}");
}

#[tokio::test]
async fn a_server_that_fails_is_not_a_server_of_2025_03_26() {
    let world = World::start().await;
    let what = "mcp GET /.well-known/oauth-protected-resource/mcp";
    world.route(what, |_| Reply::json(503, &json!({})));
    let error = world.call(&world.oauth()).await.unwrap_err().to_string();
    assert!(error.contains("503"), "{error}");
    assert!(world.seen("mcp POST /register").is_empty());
}

#[tokio::test]
async fn a_server_of_2025_03_26_authorizes_by_itself() {
    let world = World::start().await;
    world.remove("mcp GET /.well-known/oauth-protected-resource/mcp");
    // Without metadata: the paths are fixed, and nothing names the server in its answers.
    world.authorizes("mcp", &world.mcp);
    world.call(&world.oauth()).await.unwrap();
    assert_eq!(world.seen("mcp POST /register").len(), 1);

    // With metadata, at the origin.
    let oauth = world.metadata(&format!("{}/oauth", world.mcp), json!({ "issuer": world.mcp }));
    world.document("mcp GET /.well-known/oauth-authorization-server", oauth);
    let error = world.call(&world.oauth()).await.unwrap_err().to_string();
    assert!(error.contains("/oauth/register"), "{error}");
    assert!(world.seen("as ").is_empty());
}

#[tokio::test]
async fn metadata_that_cannot_be_trusted_end_before_the_user_is_asked() {
    type Change = fn(&World) -> Value;
    let cases: [(&str, Change); 6] = [
        ("to the byte", |_| json!({ "issuer": "https://attacker.example.com" })),
        ("to the byte", |world| json!({ "issuer": format!("{}/", world.auth) })),
        ("S256", |_| json!({ "code_challenge_methods_supported": null })),
        ("S256", |_| json!({ "code_challenge_methods_supported": ["plain"] })),
        ("https", |_| json!({ "token_endpoint": "http://10.0.0.1/token" })),
        ("javascript", |_| json!({ "authorization_endpoint": "javascript:alert(1)" })),
    ];
    for (why, changes) in cases {
        let world = World::start().await;
        world.server("as", &world.auth, changes(&world));
        let error = world.call(&world.oauth()).await.unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
        assert!(world.seen("as POST").is_empty() && world.seen("as GET /authorize").is_empty());
    }
}

#[tokio::test]
async fn a_resource_of_another_server_is_not_authorized_for() {
    let world = World::start().await;
    world.resource(json!({ "resource": "https://evil.example.com/mcp" }));
    let error = world.call(&world.oauth()).await.unwrap_err().to_string();
    assert!(error.contains("https://evil.example.com/mcp"), "{error}");
    assert!(world.seen("as ").is_empty());
}

#[tokio::test]
async fn an_answer_from_another_issuer_never_reaches_the_token_endpoint() {
    for iss in ["https://evil.example.com", "ISSUER/", ""] {
        let world = World::start().await;
        let iss = iss.replace("ISSUER", &world.auth);
        world.route("as GET /authorize", move |seen| {
            let named = [("code", "secret-code"), ("iss", iss.as_str())];
            redirect(seen, if iss.is_empty() { &named[..1] } else { &named })
        });
        let error = world.call(&world.oauth()).await.unwrap_err().to_string();
        assert!(error.contains("`iss`") && !error.contains("secret"), "{error}");
        assert!(world.seen("as POST /token").is_empty());
    }
}

#[tokio::test]
async fn a_server_that_does_not_name_itself_is_believed() {
    let world = World::start().await;
    let silent = json!({ "authorization_response_iss_parameter_supported": null });
    world.server("as", &world.auth, silent);
    world.route("as GET /authorize", |seen| redirect(seen, &[("code", "unknown")]));
    let error = world.call(&world.oauth()).await.unwrap_err().to_string();
    assert!(error.contains("invalid_grant"), "{error}");
    world.authorizes("as", &world.auth);
    world.call(&world.oauth()).await.unwrap();
}
