//! The client against the server of this library, in both eras and over TLS.

use std::time::Duration;

use mcplane::client::EraChoice;
use mcplane::proto::version::{Era, Revision};
use mcplane::transport::http::client::{Http, Pool};
use mcplane::transport::http::server::{ConnectionLimits, Endpoint, serve};
use mcplane::transport::listen::{Limits, Listener};
use mcplane::types::{ElicitForm, ElicitResult};
use mcplane::{Context, Failure, NoArguments, Server, Tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::server::{builder, connect};

const ERAS: [(EraChoice, Era); 3] = [
    (EraChoice::Auto, Era::Modern),
    (EraChoice::Legacy, Era::Legacy),
    (EraChoice::Only(Revision::V2025_03_26), Era::Legacy),
];

#[derive(Deserialize, JsonSchema)]
struct Place {
    #[schemars(extend("x-mcp-header" = "City"))]
    city: String,
}

fn endpoint() -> Endpoint {
    let service = Server::new("own", "1")
        .tool(Tool::inline("add", |_, _: NoArguments| "3"))
        .tool(Tool::inline("where", |_, arguments: Place| format!("{:?}", arguments.city)))
        .tool(Tool::waiting("ask", |context: Context, _: NoArguments| async move {
            let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
            let form = ElicitForm::new("Who?", to_raw_value(&schema).unwrap());
            Ok::<_, Failure>(format!("{:?}", context.elicit(form).await?.action))
        }))
        .tool(Tool::waiting("steps", |context: Context, _: NoArguments| async move {
            context.progress(1.0, Some(2.0), Some("half"));
            // Sends a client of 2025-11-25 away, to come back for the answer.
            context.close_stream();
            tokio::time::sleep(Duration::from_millis(50)).await;
            "done"
        }))
        .start()
        .unwrap();
    Endpoint::builder(service).build()
}

async fn start(listener: Listener) -> (String, Endpoint) {
    let (address, endpoint) = (listener.local_address().to_string(), endpoint());
    let limits = ConnectionLimits::default();
    tokio::spawn(serve(listener, endpoint.clone(), limits, std::future::pending()));
    (address.rsplit_once(':').unwrap().1.to_owned(), endpoint)
}

async fn listener() -> Listener {
    Listener::bind(&"127.0.0.1:0".parse().unwrap(), Limits::default()).await.unwrap()
}

#[tokio::test]
async fn every_era_calls_asks_streams_and_ends() {
    let (port, endpoint) = start(listener().await).await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    for (choice, era) in ERAS {
        let accepts = |_| async { ElicitResult::accept() };
        let builder = builder().revision(choice).on_elicit_form(accepts);
        let client = connect(builder, Http::new(&url).unwrap()).await.unwrap();
        assert_eq!(client.peer().era(), era);
        assert_eq!(client.list_tools().await.unwrap().len(), 4);
        let text = async |name: &str| {
            let result = client.call_tool(name, &json!({"city": "Zürich"})).await.unwrap();
            result.content[0].as_text().unwrap().to_owned()
        };
        assert_eq!(text("add").await, "3");
        assert_eq!(text("where").await, "\"Zürich\"");
        if client.peer().revision >= Revision::V2025_06_18 {
            assert_eq!(text("ask").await, "Accept");
        }
        let (seen, mut figures) = tokio::sync::mpsc::channel(64);
        let steps =
            client.call("steps", &()).on_progress(move |p| seen.try_send(p.progress).unwrap());
        assert_eq!(steps.await.unwrap().content[0].as_text(), Some("done"));
        assert_eq!(figures.recv().await, Some(1.0));
        if era == Era::Legacy {
            assert_eq!(endpoint.sessions(), 1);
            // Every session is forgotten; the client does not show it.
            endpoint.close();
            assert_eq!(text("add").await, "3");
        }
        client.close().await;
        assert_eq!(endpoint.sessions(), 0);
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_negotiates_http2_or_http1() {
    use mcplane::transport::tls::{ClientTls, ServerTls};

    let data = |name: &str| format!("{}/tests/data/test-only-{name}", env!("CARGO_MANIFEST_DIR"));
    let trusting = || ClientTls::new().unwrap().ca_pem_file(data("ca.pem")).unwrap();
    for (offered, connections) in [(&["h2", "http/1.1"][..], 1), (&["http/1.1"], 2), (&[], 2)] {
        let certificate = ServerTls::from_pem_files(data("first.pem"), data("first.key.pem"));
        let listener = listener().await.with_tls(certificate.unwrap().alpn(offered));
        let (port, _) = start(listener).await;
        let url = format!("https://localhost:{port}/mcp");
        let pool = Pool::new().tls(trusting());
        let http = Http::new(&url).unwrap().pool(pool.clone());
        let client = connect(builder(), http).await.unwrap();
        client.call_tool("add", &()).await.unwrap();
        let (one, two) =
            tokio::join!(client.call_tool("steps", &()), client.call_tool("steps", &()));
        assert!(one.is_ok() && two.is_ok());
        assert!(format!("{pool:?}").contains(&format!("connections: {connections}")), "{pool:?}");
        let untrusted = Http::new(&url).unwrap();
        let error = connect(builder(), untrusted).await.unwrap_err();
        assert!(error.is_unreachable() && error.to_string().contains("TLS"), "{error}");
    }
}
