//! States that travel through clients. What a server gives comes back as it was, from who got it and
//! for the same request; whatever else a client sends opens nothing.

use std::sync::{Arc, Mutex};

use mcplane::proto::error::{Code, ErrorObject};
use mcplane::proto::frame::Output;
use mcplane::proto::headers::ParamHeader;
use mcplane::proto::limits::REQUEST_STATE_BYTES_MAX;
use mcplane::proto::session::ServerConfig;
use mcplane::proto::session::listen::Offered;
use mcplane::proto::session::server::Features;
use mcplane::proto::types::{Cache, Implementation, LogLevel, ServerCapabilities};
use mcplane::proto::version::Revision;
use mcplane::server::relay::{Caller, Cancel, Relay, Relayed, Seal};
use mcplane::transport::{Transport, memory};
use mcplane::{Context, Server, Service, Tool};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// Any bytes: a place and a change to what is there, and then what a server gives or a client sends.
pub fn run(data: &[u8]) {
    let [at, change, data @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(data) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        relayed(text, usize::from(*at), *change).await;
        asked(text, usize::from(*at), *change).await;
    });
}

/// With one byte changed, and UTF-8 still; `None` if nothing changes.
fn changed(text: &str, at: usize, change: u8) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    let at = at % bytes.len().max(1);
    let byte = bytes.get_mut(at)?;
    *byte ^= change & 0x7f;
    String::from_utf8(bytes).ok().filter(|changed| changed != text)
}

/// The seals of a gateway, on requests as they come to it.
async fn relayed(text: &str, at: usize, change: u8) {
    // What a server gives is JSON of its own writing; any text can be written so.
    let is_string = serde_json::from_str::<String>(text).is_ok() && !text.contains(['\n', '\r']);
    let json = if is_string { text.trim().to_owned() } else { Value::from(text).to_string() };
    let seals = Arc::new(Seals {
        seal: Seal::of_secret(b"a key"),
        json,
        sent: text.to_owned(),
        change: (at, change),
        sealed: Mutex::default(),
        wrong: Mutex::default(),
    });
    let service = Service::relay(Arc::clone(&seals) as Arc<dyn Relay>).expect("a service");
    let calls = [call(1, json!({}), None), call(2, json!({"other": true}), None)];
    say(&service, &calls).await;
    let wrong = seals.wrong.lock().expect("nobody panics").take();
    assert!(wrong.is_none(), "{wrong:?}");
}

/// Looks at each request, and answers none.
struct Seals {
    seal: Seal,
    /// What a server gave.
    json: String,
    /// What a client sends.
    sent: String,
    change: (usize, u8),
    /// Of the first request.
    sealed: Mutex<Option<String>>,
    wrong: Mutex<Option<String>>,
}

impl Seals {
    fn look(&self, request: &Relayed) -> Result<(), String> {
        let open = |sealed: &str, server| self.seal.open(sealed, server, request);
        if open(&self.sent, "server").is_some() {
            return Err("what was never sealed opens".into());
        }
        let mut first = self.sealed.lock().expect("nobody panics");
        if let Some(sealed) = &*first {
            return match open(sealed, "server") {
                Some(_) => Err("the state of another request opens".into()),
                None => Ok(()),
            };
        }
        let Some(sealed) = self.seal.close(&self.json, "server", request) else {
            // In base64 it is a third longer, and the seal comes in front.
            let is_long = self.json.len() * 4 / 3 + 100 > REQUEST_STATE_BYTES_MAX;
            return if is_long { Ok(()) } else { Err("what fits is not sealed".into()) };
        };
        if open(&sealed, "server").as_ref() != Some(&self.json) {
            return Err(format!("{:?}, not {:?}", open(&sealed, "server"), self.json));
        }
        if open(&sealed, "other").is_some() {
            return Err("another server's state opens".into());
        }
        let (at, change) = self.change;
        if let Some(forged) = changed(&sealed, at, change)
            && open(&forged, "server").is_some()
        {
            return Err(format!("{forged} opens as {sealed}"));
        }
        *first = Some(sealed);
        Ok(())
    }
}

impl Relay for Seals {
    fn config(&self, _caller: &Caller) -> Arc<ServerConfig> {
        Arc::new(ServerConfig {
            info: Implementation::new("fuzz", "1"),
            capabilities: ServerCapabilities::new(),
            instructions: None,
            revisions: Revision::ALL.to_vec(),
            unsupported: None,
            features: Features { tools: true, ..Features::default() },
            offered: Offered::default(),
            cache: Cache::default(),
        })
    }

    fn mirrored(&self, _tool: &str) -> Option<Arc<[ParamHeader]>> {
        None
    }

    fn request(&self, request: Relayed, out: &mut Output) -> Option<Arc<dyn Cancel>> {
        if let Err(why) = self.look(&request) {
            *self.wrong.lock().expect("nobody panics") = Some(why);
        }
        let error = ErrorObject::new(Code::INTERNAL_ERROR, "looked at");
        request.fail_now(out, &error);
        None
    }

    fn watch(&self, _caller: &Caller, _uri: &str) {}

    fn unwatch(&self, _caller: &Caller, _uri: &str) {}

    fn set_log_level(&self, _caller: &Caller, _level: &LogLevel) {}

    fn ended(&self, _caller: &Caller) {}
}

/// The states of the library's own server, whose tool asks.
async fn asked(text: &str, at: usize, change: u8) {
    let tool = Tool::waiting("asks", async |context: Context, _: Map<String, Value>| {
        context.roots().await.map(|roots| format!("{} roots", roots.len()))
    });
    let service = Server::new("fuzz", "1").tool(tool).start().expect("a service");
    let first = say(&service, &[call(1, json!({}), None)]).await;
    let state = first[0]["result"]["requestState"].as_str();
    let state = state.unwrap_or_else(|| panic!("no state: {first:?}"));
    let own = |state: &str| call(2, json!({}), Some(state));
    let forged = changed(state, at, change);
    let mut wrong = vec![own(text), call(3, json!({"other": 1}), Some(state))];
    wrong.extend(forged.as_deref().map(own));
    wrong.push(own(state));
    let mut answers = say(&service, &wrong).await;
    let genuine = answers.pop().expect("as many as requests");
    assert_eq!(genuine["result"]["content"][0]["text"], "0 roots", "{genuine}");
    for answer in answers {
        assert_eq!(answer["error"]["code"], -32602, "{answer} for {text:?} and {forged:?}");
    }
}

/// A call of 2026-07-28.
fn call(id: u32, arguments: Value, state: Option<&str>) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
    });
    let mut params = json!({"name": "asks", "arguments": arguments, "_meta": meta});
    if let Some(state) = state {
        params["requestState"] = state.into();
        params["inputResponses"] = json!({"roots": {"roots": []}});
    }
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// Sends requests over a connection of their own; the answers, in their order.
async fn say(service: &Service, requests: &[Value]) -> Vec<Value> {
    let (ours, theirs) = memory::pair();
    let (reader, mut writer) = ours.open().expect("memory opens");
    let ask = async {
        let mut lines = BufReader::new(reader).lines();
        let mut answers = Vec::new();
        for request in requests {
            let line = format!("{request}\n");
            writer.write_all(line.as_bytes()).await.expect("somebody listens");
            writer.flush().await.expect("somebody listens");
            let answer = lines.next_line().await.expect("text").expect("an answer");
            answers.push(serde_json::from_str(&answer).expect("an answer is JSON"));
        }
        answers
    };
    tokio::select! {
        answers = ask => answers,
        ended = service.serve(theirs) => panic!("it ended: {ended:?}"),
    }
}
