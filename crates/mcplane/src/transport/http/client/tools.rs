//! The arguments that tools want mirrored in headers, learned from the lists that pass through
//! (2026-07-28, SEP-2243).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use mcplane_proto::error::ErrorObject;
use mcplane_proto::headers::{self, ANNOTATION, Body, ParamHeader, name_member};
use mcplane_proto::message::{Message, Part};
use mcplane_proto::method::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The most tools whose mirrored arguments are remembered.
pub const MIRRORED_TOOLS_MAX: usize = 10_000;

/// The most tools for which the reason of their omission is remembered.
pub const DROPPED_TOOLS_MAX: usize = 100;

/// A tool that the server lists and the client must not show: its `x-mcp-header` is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DroppedTool {
    /// The tool's name.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

#[derive(Debug, Default)]
pub(super) struct Tools(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    mirrored: HashMap<String, Vec<ParamHeader>>,
    dropped: Vec<DroppedTool>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    tools: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    name: String,
    input_schema: Option<Box<RawValue>>,
}

impl Tools {
    /// The tools that were left out.
    pub(super) fn dropped(&self) -> Vec<DroppedTool> {
        self.lock().dropped.clone()
    }

    /// Learns from a page of `tools/list`. Returns the result without the tools that must not
    /// be shown, if there are any.
    pub(super) fn learn(&self, list: &Message) -> Option<Bytes> {
        let result = std::str::from_utf8(list.part(Part::Result)?).ok()?;
        let mut known = self.lock();
        if !result.contains(ANNOTATION) && !result.contains("\\u") && known.mirrored.is_empty() {
            return None;
        }
        let page: Page<'_> = serde_json::from_str(result).ok()?;
        let tools: Vec<&RawValue> = serde_json::from_str(page.tools.get()).ok()?;
        let count = tools.len();
        let shown: Vec<&str> =
            tools.into_iter().map(RawValue::get).filter(|tool| known.learn(tool)).collect();
        drop(known);
        if shown.len() == count {
            return None;
        }
        // `page.tools` borrows from `result`, so its place is the difference of the two.
        let start = page.tools.get().as_ptr() as usize - result.as_ptr() as usize;
        let (before, rest) = result.split_at_checked(start)?;
        let (_, after) = rest.split_at_checked(page.tools.get().len())?;
        let result = format!("{before}[{}]{after}", shown.join(","));
        Some(list.splice(&[(Part::Result, result.as_bytes())]).into())
    }

    /// The headers that mirror a request.
    ///
    /// # Errors
    /// -32602 for an argument that no header can carry.
    pub(super) fn mirror(
        &self,
        message: &Message,
        headers: &mut HeaderMap,
    ) -> Result<(), ErrorObject> {
        let method = message.method_name();
        let version = message.text(Part::ProtocolVersion).unwrap_or_default();
        let name = message.method().and_then(name_member).and_then(|member| match member {
            "name" => message.text(Part::Name),
            "uri" => message.text(Part::Uri),
            _ => message.text(Part::TaskId),
        });
        let body =
            Body { version: &version, method: &method, name: name.as_deref(), arguments: None };
        for (name, value) in headers::standard(&body) {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
        if message.method() != Some(Method::ToolsCall) {
            return Ok(());
        }
        let known = self.lock();
        let Some(params) = name.and_then(|name| known.mirrored.get(&*name)) else { return Ok(()) };
        let arguments = message.part(Part::Arguments);
        let arguments = arguments.and_then(|json| serde_json::from_slice::<&RawValue>(json).ok());
        for (name, value) in headers::mirror(params, arguments)? {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(value))
            {
                headers.insert(name, value);
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Notes what a tool wants mirrored. `false` if it must not be shown.
    fn learn(&mut self, tool: &str) -> bool {
        // What is not a tool is for the caller to judge.
        let Ok(Tool { name, input_schema }) = serde_json::from_str(tool) else { return true };
        let schema = input_schema.as_deref().map_or("{}", RawValue::get);
        match headers::param_headers(schema) {
            Ok(params) if params.is_empty() => {
                self.mirrored.remove(&name);
            }
            Ok(params) => {
                if self.mirrored.len() < MIRRORED_TOOLS_MAX || self.mirrored.contains_key(&name) {
                    self.mirrored.insert(name, params);
                }
            }
            Err(error) => {
                self.mirrored.remove(&name);
                let dropped = DroppedTool { name, reason: error.to_string() };
                if self.dropped.len() < DROPPED_TOOLS_MAX && !self.dropped.contains(&dropped) {
                    self.dropped.push(dropped);
                }
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(json: &'static str) -> Message {
        Message::scan(Bytes::from_static(json.as_bytes())).unwrap()
    }

    #[test]
    fn a_bad_tool_is_left_out_and_every_other_byte_stays() {
        let tools = Tools::default();
        let kept = tools.learn(&list(concat!(
            r#"{"jsonrpc":"2.0","id":1,"result":{"x": 1.0 ,"tools": [ {"name":"a","n":1e2},"#,
            r#"{"name":"bad","inputSchema":{"type":"object","properties":{"p":{"type":"string","x-mcp-header":""}}}},"#,
            r#"{"name":"c","inputSchema":{"type":"object","properties":{"p":{"type":"string","x-mcp-header":"P"}}}} ] ,"ttlMs":0}}"#
        )));
        let text = String::from_utf8(kept.unwrap().to_vec()).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"jsonrpc":"2.0","id":1,"result":{"x": 1.0 ,"tools": [{"name":"a","n":1e2},"#,
                r#"{"name":"c","inputSchema":{"type":"object","properties":{"p":{"type":"string","x-mcp-header":"P"}}}}] ,"ttlMs":0}}"#
            )
        );
        let dropped = tools.dropped();
        assert_eq!((dropped.len(), &*dropped[0].name), (1, "bad"));
        assert!(dropped[0].reason.contains("#/p"), "{}", dropped[0].reason);
    }

    #[test]
    fn calls_are_mirrored_with_the_newest_schema() {
        let tools = Tools::default();
        let call = list(concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"c","arguments":{"p":"ü","q":null},"#,
            r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#
        ));
        let headers = |tools: &Tools| {
            let mut headers = HeaderMap::new();
            tools.mirror(&call, &mut headers).unwrap();
            headers
        };
        assert_eq!(headers(&tools).len(), 3);
        let annotated = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"c","inputSchema":{"type":"object","properties":{"p":{"type":"string","x-mcp-header":"P"},"q":{"type":"string","x-mcp-header":"Q"}}}}]}}"#;
        assert!(tools.learn(&list(annotated)).is_none());
        let mirrored = headers(&tools);
        assert_eq!(
            (&mirrored["mcp-name"], &mirrored["mcp-param-p"]),
            (&HeaderValue::from_static("c"), &HeaderValue::from_static("=?base64?w7w=?="))
        );
        assert!(!mirrored.contains_key("mcp-param-q"));
        tools.learn(&list(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"c"}]}}"#));
        assert_eq!(headers(&tools).len(), 3);
    }
}
