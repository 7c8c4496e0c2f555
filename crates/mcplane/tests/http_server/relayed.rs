//! Answers that are passed on as somebody else wrote them.

use std::sync::Arc;

use http_body_util::BodyExt as _;
use mcplane::Service;
use mcplane::proto::frame::Output;
use mcplane::proto::headers::ParamHeader;
use mcplane::proto::message::Message;
use mcplane::proto::session::ServerConfig;
use mcplane::proto::session::listen::Offered;
use mcplane::proto::session::server::Features;
use mcplane::proto::types::{Cache, Implementation, LogLevel, ServerCapabilities};
use mcplane::proto::version::Revision;
use mcplane::server::relay::{Caller, Cancel, Relay, Relayed};
use mcplane::transport::http::server::Endpoint;
use serde_json::json;

use crate::modern::{body_of, mounted};
use crate::wire::{LATEST_LEGACY, Request, call};

/// Answers everything with the same bytes, at once or a little later.
struct Parrot {
    says: String,
    at_once: bool,
}

impl Cancel for Parrot {
    fn cancel(&self) {}
}

impl Relay for Parrot {
    fn config(&self, _: &Caller) -> Arc<ServerConfig> {
        Arc::new(ServerConfig {
            info: Implementation::new("parrot", "1"),
            capabilities: ServerCapabilities::new(),
            instructions: None,
            revisions: Revision::ALL.to_vec(),
            unsupported: None,
            features: Features { tools: true, ..Features::default() },
            offered: Offered::default(),
            cache: Cache::default(),
        })
    }

    fn mirrored(&self, _: &str) -> Option<Arc<[ParamHeader]>> {
        None
    }

    fn request(&self, request: Relayed, out: &mut Output) -> Option<Arc<dyn Cancel>> {
        let outcome = Message::scan(self.says.clone()).unwrap().outcome().unwrap();
        let bytes = self.says.clone().into_bytes();
        if self.at_once {
            request.answer_now(out, |_, out| {
                out.extend_from_slice(&bytes);
                outcome
            });
            return None;
        }
        tokio::spawn(async move { request.answer(bytes, outcome) });
        Some(Arc::new(Self { says: String::new(), at_once: false }))
    }

    fn watch(&self, _: &Caller, _: &str) {}

    fn unwatch(&self, _: &Caller, _: &str) {}

    fn set_log_level(&self, _: &Caller, _: &LogLevel) {}

    fn ended(&self, _: &Caller) {}
}

#[tokio::test]
async fn errors_have_their_status_however_they_are_written() {
    let error = r#"{"code":-32601,"message":"\"result\":"}"#;
    for (says, expected) in [
        (format!(r#"{{"jsonrpc":"2.0","id":7,"error":{error}}}"#), 404),
        (format!(r#"{{ "jsonrpc" : "2.0", "id" : 7, "error" : {error} }}"#), 404),
        (format!(r#"{{"error":{error},"id":7,"jsonrpc":"2.0"}}"#), 404),
        (r#"{"jsonrpc":"2.0","id":7,"error":{"message":"","code":-32602}}"#.to_owned(), 400),
        (r#"{"jsonrpc":"2.0","id":7,"error":{"message":"","code":5}}"#.to_owned(), 200),
        (r#"{"jsonrpc":"2.0","id":7,"error":{"message":"","code":"5"}}"#.to_owned(), 200),
        (r#"{"jsonrpc":"2.0","id":7,"result":{"error":{}}}"#.to_owned(), 200),
        (r#"{"result":{"error":{"code":-32601}},"jsonrpc":"2.0","id":7}"#.to_owned(), 200),
    ] {
        for at_once in [true, false] {
            let relay = Arc::new(Parrot { says: says.clone(), at_once });
            let service = Service::relay(relay).unwrap();
            let endpoint = Endpoint::builder(service).stateless().build();
            let request = Request::call(7, "any", json!({}));
            // A connection that has answered before is used again.
            for _ in 0..2 {
                let answer = mounted(&endpoint, &request, body_of(&request)).await;
                assert_eq!(answer.status(), expected, "{says}");
                assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), says);
            }
            let legacy = Request::post(call(7, "any", json!({})).to_string())
                .header("MCP-Protocol-Version", LATEST_LEGACY);
            let answer = mounted(&endpoint, &legacy, body_of(&legacy)).await;
            assert_eq!(answer.status(), 200, "of a legacy era: {says}");
        }
    }
}
