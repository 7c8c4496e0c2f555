//! What the checks are made of: asking the server, and holding its answers against what is wanted.

use std::{
    collections::HashSet,
    fmt::Debug,
    future::Future,
    time::{Duration, Instant},
};

use rmcp::{ServiceError, model::*, service::ServerSink};
use serde::Serialize;
use serde_json::Value;
use tokio::time;

use crate::{Outcome, peer::Peer};

/// One awaited notification.
const EVENT_MAX: Duration = Duration::from_secs(5);
/// Lets the notifications that came with a response be dispatched.
pub const SETTLE: Duration = Duration::from_millis(30);

macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+).into());
        }
    };
}

pub async fn call(peer: &Peer, tool: &'static str, args: Value) -> Outcome<Value> {
    to_json(
        peer.service
            .call_tool(CallToolRequestParams::new(tool).with_arguments(to_object(args)))
            .await?,
    )
}

/// The one text block of a call that must succeed.
pub async fn text(peer: &Peer, tool: &'static str, args: Value) -> Outcome<String> {
    let result = call(peer, tool, args).await?;
    ensure!(result["isError"] != true && each(&result["content"]).len() == 1, "{result}");
    Ok(result["content"][0]["text"].as_str().ok_or("not a text")?.to_owned())
}

pub async fn read(peer: &Peer, uri: &str) -> Outcome<Value> {
    let result = to_json(peer.service.read_resource(ReadResourceRequestParams::new(uri)).await?)?;
    equal(&each(&result["contents"]).len(), &1)?;
    equal(&result["contents"][0]["uri"], &uri)?;
    Ok(result["contents"][0].clone())
}

pub async fn prompt(peer: &Peer, name: &str, args: Value) -> Outcome<Value> {
    let params = GetPromptRequestParams::new(name).with_arguments(to_object(args));
    Ok(to_json(peer.service.get_prompt(params).await?)?["messages"].clone())
}

/// Runs a call during which the server asks, and returns what it asked.
pub async fn asking<T>(
    peer: &Peer,
    decline: bool,
    content: Option<Value>,
    call: impl Future<Output = T>,
) -> (T, Vec<Value>) {
    {
        let mut shared = peer.hands.lock();
        (shared.decline, shared.content) = (decline, content);
        shared.asked.clear();
    }
    let result = call.await;
    let asked = peer.hands.lock().asked.clone();
    (result, asked)
}

/// The first notification of a subscription that is open during `change`.
pub async fn announced(
    peer: &Peer,
    filter: SubscriptionFilter,
    change: impl Future<Output = Outcome<String>>,
) -> Outcome<Value> {
    let sink: &ServerSink = peer.service.peer();
    let mut subscription = sink.listen(filter).await?;
    change.await?;
    let notification = time::timeout(EVENT_MAX, subscription.next()).await??;
    subscription.cancel().await?;
    to_json(notification.ok_or("the subscription ended")?)
}

pub async fn logged(peer: &Peer, level: Option<LoggingLevel>) -> Outcome<Vec<Value>> {
    let from = peer.hands.lock().seen.len();
    let mut params = CallToolRequestParams::new("test_tool_with_logging");
    match level {
        Some(level) if peer.modern => params.meta.get_or_insert_default().set_log_level(level),
        Some(level) => peer.service.set_level(SetLevelRequestParams::new(level)).await?,
        None => {}
    }
    peer.service.call_tool(params).await?;
    time::sleep(SETTLE).await;
    Ok(since(peer, from, "message"))
}

pub async fn until(peer: &Peer, from: usize, kind: &str) -> Outcome<Value> {
    let started = Instant::now();
    while started.elapsed() < EVENT_MAX {
        if let Some(params) = since(peer, from, kind).into_iter().next() {
            return Ok(params);
        }
        time::sleep(Duration::from_millis(5)).await;
    }
    Err(format!("no {kind} within {EVENT_MAX:?}").into())
}

pub fn since(peer: &Peer, from: usize, kind: &str) -> Vec<Value> {
    let shared = peer.hands.lock();
    shared.seen[from..]
        .iter()
        .filter(|(seen, _)| *seen == kind)
        .map(|(_, params)| params.clone())
        .collect()
}

/// The `data` of the error that a call must end in.
pub fn rejects<T: Debug>(result: Result<T, ServiceError>, code: i32) -> Outcome<Value> {
    match result {
        Err(ServiceError::McpError(error)) if error.code.0 == code => {
            Ok(error.data.unwrap_or_default())
        }
        other => Err(format!("{other:?} instead of {code}").into()),
    }
}

pub fn media(block: &Value, kind: &str, mime_type: &str, start: &str) -> Outcome {
    equal(&block["type"], &kind)?;
    equal(&block["mimeType"], &mime_type)?;
    ensure!(block["data"].as_str().is_some_and(|data| data.starts_with(start)), "{block}");
    Ok(())
}

pub fn of_type<'a>(messages: &'a Value, kind: &str) -> Outcome<&'a Value> {
    let content = each(messages)
        .iter()
        .map(|message| &message["content"])
        .find(|content| content["type"] == kind);
    Ok(content.ok_or(format!("no {kind} in {messages}"))?)
}

pub fn named<'a>(items: &'a Value, name: &str) -> Outcome<&'a Value> {
    Ok(each(items).iter().find(|item| item["name"] == name).ok_or(format!("no {name}"))?)
}

/// The names of listed items, none of which may repeat.
pub fn names(items: &Value, key: &str) -> Outcome<HashSet<String>> {
    let names: HashSet<_> =
        each(items).iter().filter_map(|item| item[key].as_str().map(str::to_owned)).collect();
    ensure!(names.len() == each(items).len(), "a {key} is missing or repeated: {items}");
    Ok(names)
}

pub fn includes<'a>(
    actual: &HashSet<String>,
    wanted: impl IntoIterator<Item = &'a str>,
) -> Outcome {
    let missing: Vec<_> = wanted.into_iter().filter(|item| !actual.contains(*item)).collect();
    ensure!(missing.is_empty(), "missing {missing:?} in {actual:?}");
    Ok(())
}

pub fn equal<A: Debug + PartialEq<B>, B: Debug>(actual: &A, wanted: &B) -> Outcome {
    ensure!(actual == wanted, "{actual:?} instead of {wanted:?}");
    Ok(())
}

pub fn none(unwanted: &[Value]) -> Outcome {
    ensure!(unwanted.is_empty(), "unwanted {unwanted:?}");
    Ok(())
}

pub fn each(items: &Value) -> &[Value] {
    items.as_array().map_or(&[], Vec::as_slice)
}

pub fn to_object(value: Value) -> JsonObject {
    value.as_object().cloned().unwrap_or_default()
}

pub fn parsed(text: &Value) -> Outcome<Value> {
    Ok(serde_json::from_str(text.as_str().ok_or("not a text")?)?)
}

pub fn to_json(value: impl Serialize) -> Outcome<Value> {
    Ok(serde_json::to_value(value)?)
}
