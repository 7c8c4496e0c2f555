//! Who the client is.

use serde_json::json;

use super::world::{Reply, World};

#[tokio::test]
async fn the_client_proves_itself_as_the_server_likes() {
    for (method, proof) in
        [("client_secret_basic", "basic"), ("client_secret_post", "post"), ("none", "none")]
    {
        let world = World::start().await;
        let only = json!({ "token_endpoint_auth_methods_supported": ["private_key_jwt", method] });
        world.server("as", &world.auth, only);
        world.call(&world.oauth()).await.unwrap();
        let (client, used) = world.seen("as POST /token")[0].client();
        assert_eq!(used, proof);
        assert_eq!(
            client,
            match proof {
                "basic" => "client-of-as:s%3Ae+c%25ret",
                "post" => "client-of-as:s:e c%ret",
                _ => "client-of-as",
            }
        );
    }
}

#[tokio::test]
async fn a_server_that_wants_what_is_not_known_here_is_refused() {
    let world = World::start().await;
    let only = json!({ "token_endpoint_auth_methods_supported": ["private_key_jwt"] });
    world.server("as", &world.auth, only);
    let error = world.call(&world.oauth()).await.unwrap_err();
    assert!(error.is_misuse() && error.to_string().contains("client_secret_basic"), "{error}");
}

#[tokio::test]
async fn a_client_registered_by_hand_goes_before_all_others() {
    let world = World::start().await;
    world.server(
        "as",
        &world.auth,
        json!({
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "client_id_metadata_document_supported": true,
        }),
    );
    let oauth = world
        .oauth()
        .client("by-hand", Some("hidden".to_owned()))
        .client_issuer(&world.auth)
        .client_metadata_url("https://client.example/metadata.json".parse().unwrap())
        .unwrap();
    world.call(&oauth).await.unwrap();
    assert_eq!(world.seen("as POST /token")[0].client(), ("by-hand:hidden".to_owned(), "basic"));
    assert!(world.seen("as POST /register").is_empty());
}

#[tokio::test]
async fn a_client_registered_by_hand_is_shown_to_its_own_server_only() {
    let world = World::start().await;
    let oauth = || world.oauth().client("by-hand", Some("hidden".to_owned()));
    let elsewhere = oauth().client_issuer("https://other.example");
    world.call(&elsewhere).await.unwrap();
    assert_eq!(world.seen("as POST /token")[0].client().0, "client-of-as");

    world.server("as", &world.auth, json!({ "registration_endpoint": null }));
    let error = world.call(&oauth().client_issuer("https://other.example")).await.unwrap_err();
    assert!(error.to_string().contains("belongs to https://other.example"), "{error}");
}

#[tokio::test]
async fn metadata_of_the_client_go_before_registration() {
    let world = World::start().await;
    let url = "https://client.example/metadata.json";
    let oauth = || world.oauth().client_metadata_url(url.parse().unwrap()).unwrap();
    world.call(&oauth()).await.unwrap();
    assert_eq!(world.seen("as POST /token")[0].client().0, "client-of-as");

    world.server("as", &world.auth, json!({ "client_id_metadata_document_supported": true }));
    world.call(&oauth()).await.unwrap();
    assert_eq!(world.seen("as POST /token")[1].client(), (url.to_owned(), "none"));
    assert_eq!(world.seen("as POST /register").len(), 1);
    for bad in ["http://client.example/x", "https://client.example/", "https://c.example/x#y"] {
        assert!(world.oauth().client_metadata_url(bad.parse().unwrap()).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_refused_registration_says_why() {
    let world = World::start().await;
    world.route("as POST /register", |_| Reply::denied("invalid_redirect_uri"));
    let error = world.call(&world.oauth()).await.unwrap_err().to_string();
    assert!(error.contains("invalid_redirect_uri") && error.contains("/register"), "{error}");
}

#[tokio::test]
async fn a_client_that_the_server_forgot_is_registered_again() {
    let world = World::start().await;
    let oauth = world.oauth();
    world.call(&oauth).await.unwrap();
    world.revoke();
    world.server("as", &world.auth, json!({}));
    world.route("as POST /register", |_| Reply::json(201, &json!({ "client_id": "again" })));
    let before = world.seen("as POST /token").len();
    world.forgets("client-of-as");
    world.call(&oauth).await.unwrap();
    let clients: Vec<_> =
        world.seen("as POST /token")[before..].iter().map(|seen| seen.client().0).collect();
    assert_eq!(clients, ["client-of-as", "client-of-as", "again"]);
}
