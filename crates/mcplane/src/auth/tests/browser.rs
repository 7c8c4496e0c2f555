//! Answers that come to this machine.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use tokio::net::TcpListener;
use url::Url;

use super::world::World;
use crate::auth::{Interaction, LoopbackBrowser, OAuth};
use crate::transport::http::client::Pool;

async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

/// What a browser does: follows every redirect and shows the last page.
async fn browse(mut url: Url) -> String {
    loop {
        let request = Request::get(url.as_str()).body(Bytes::new()).unwrap();
        let answer = Pool::new().fetch(request, 1 << 20, Duration::from_secs(5)).await.unwrap();
        let Some(next) = answer.headers().get("location") else {
            return String::from_utf8(answer.body().to_vec()).unwrap();
        };
        url = next.to_str().unwrap().parse().unwrap();
    }
}

#[tokio::test]
async fn a_browser_brings_the_code_back() {
    let world = World::start().await;
    for host in ["127.0.0.1", "localhost"] {
        let redirect: Url = format!("http://{host}:{}/back", free_port().await).parse().unwrap();
        let (sender, pages) = std::sync::mpsc::channel();
        let noise = redirect.join("/favicon.ico").unwrap();
        let browser = LoopbackBrowser::new(move |url| {
            let (url, noise, sender) = (url.clone(), noise.clone(), sender.clone());
            tokio::spawn(async move {
                assert!(browse(noise).await.contains("Nothing is here"));
                let _ = sender.send(browse(url).await);
            });
        });
        let oauth = OAuth::new(world.url(), Pool::new(), browser).unwrap();
        world.call(&oauth.redirect_uri(redirect.clone()).unwrap()).await.unwrap();
        assert!(pages.recv().unwrap().contains("You can close this window"));
        TcpListener::bind(("127.0.0.1", redirect.port().unwrap())).await.expect("a freed port");
    }
}

#[tokio::test]
async fn a_user_who_never_answers_is_not_waited_for() {
    let redirect: Url = format!("http://127.0.0.1:{}/back", free_port().await).parse().unwrap();
    let url = "https://as.example.com/authorize?state=secret".parse().unwrap();
    let browser = LoopbackBrowser::new(|_| ()).wait(Duration::from_millis(20));
    let error = browser.authorize(&url, &redirect).await.unwrap_err();
    assert!(error.is_timeout() && !error.to_string().contains("secret"), "{error}");
}

#[tokio::test]
async fn only_this_machine_can_be_listened_on() {
    let browser = LoopbackBrowser::new(|_| panic!("nothing may be shown"));
    let url = "https://as.example.com/".parse().unwrap();
    for bad in ["https://localhost:1234/", "http://example.com:80/", "http://10.0.0.1:80/"] {
        let error = browser.authorize(&url, &bad.parse().unwrap()).await.unwrap_err();
        assert!(error.is_misuse(), "{bad}: {error}");
    }
    let pool = Pool::new();
    for bad in ["http://example.com/", "myapp://callback", "http://localhost:1/#x"] {
        let oauth = OAuth::new(
            "https://a.example/".parse().unwrap(),
            pool.clone(),
            LoopbackBrowser::new(|_| ()),
        );
        assert!(oauth.unwrap().redirect_uri(bad.parse().unwrap()).is_err(), "{bad}");
    }
    let open = OAuth::new("http://a.example/".parse().unwrap(), pool, LoopbackBrowser::new(|_| ()));
    assert!(open.is_err_and(|error| error.is_misuse()));
}
