//! Refusals that a token does not mend, and token endpoints that answer badly.

use serde_json::{Value, json};

use super::world::{Reply, World};

#[tokio::test]
async fn what_is_not_about_tokens_is_left_to_the_caller() {
    for (status, challenge) in [
        (403, ""),
        (403, "Bearer realm=x"),
        (403, "Bearer error=invalid_token"),
        (401, "Basic realm=x"),
    ] {
        let world = World::start().await;
        world.route("mcp POST /mcp", move |_| {
            let reply = Reply::json(status, &json!({}));
            if challenge.is_empty() { reply } else { reply.with("www-authenticate", challenge) }
        });
        let error = world.call(&world.oauth()).await.unwrap_err().to_string();
        assert!(error.contains(&format!("refused with {status}")), "{challenge}: {error}");
        assert_eq!(world.log().len(), 1);
    }
}

#[tokio::test]
async fn token_endpoints_that_answer_badly() {
    let cases: [(u16, Value, &str); 6] = [
        (200, json!({}), "without `access_token`"),
        (200, json!([]), "without a JSON object"),
        (200, json!({ "access_token": "secret", "token_type": "DPoP" }), "DPoP"),
        (200, json!({ "access_token": "secret\u{7f}" }), "cannot be sent"),
        (400, json!({ "error": "invalid_grant", "error_description": "a\u{1b}[31mb" }), "a[31mb"),
        (302, json!({}), "302"),
    ];
    for (status, body, why) in cases {
        let world = World::start().await;
        let elsewhere = format!("{}/elsewhere", world.auth);
        world.route("as POST /token", move |_| {
            Reply::json(status, &body).with("location", elsewhere.as_str())
        });
        let error = world.call(&world.oauth()).await.unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("secret"), "{why}: {error}");
        assert!(world.seen("as POST /elsewhere").is_empty());
    }
}

#[tokio::test]
async fn documents_that_are_too_large_are_not_read() {
    let world = World::start().await;
    world.server("as", &world.auth, json!({ "padding": "x".repeat(2 << 20) }));
    assert!(world.call(&world.oauth()).await.is_err());
    assert!(world.seen("as POST").is_empty());
}

#[tokio::test]
async fn requests_refused_together_ask_the_user_once() {
    let world = World::start().await;
    let oauth = world.oauth();
    let calls = [world.call(&oauth), world.call(&oauth), world.call(&oauth)];
    let [a, b, c] = calls;
    let (a, b, c) = tokio::join!(a, b, c);
    assert_eq!(a.unwrap(), b.unwrap());
    c.unwrap();
    assert_eq!(world.seen("as GET /authorize").len(), 1);
}
