use serde::Serialize;
use serde::de::DeserializeOwned;

use super::raw;
use crate::meta::write_params;
use crate::types::*;
use crate::version::Revision;

/// Reads and writes again, byte for byte.
fn same<T: DeserializeOwned + Serialize>(json: &str) {
    let value: T = serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {json}"));
    assert_eq!(serde_json::to_string(&value).unwrap(), json);
}

fn same_params<P: Params>(json: &str) {
    let params: P = parse_params(Some(json.as_bytes())).unwrap();
    let mut out = Vec::new();
    write_params(&params, Revision::V2025_11_25, None, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), json);
}

fn same_result<R: WireResult + DeserializeOwned>(json: &str) {
    for revision in Revision::ALL {
        let result: R = serde_json::from_str(json).unwrap();
        let text = super::written(&result, revision);
        let tag = format!("{{\"resultType\":\"{}\"", R::RESULT_TYPE);
        if revision == Revision::LATEST {
            let rest = text.strip_prefix(&tag).unwrap_or_else(|| panic!("{text}"));
            assert!(rest == "}" || rest.starts_with(','), "{text}");
        } else {
            assert_eq!(text, json, "{revision}");
        }
    }
}

#[test]
fn content_blocks() {
    for block in [
        r#"{"type":"text","text":"hé\n\"","annotations":{"audience":["user","critic"],"priority":1,"lastModified":"2025-01-12T15:00:58Z"},"_meta":{"a/b":1.0}}"#,
        r#"{"type":"image","data":"aGk=","mimeType":"image/png"}"#,
        r#"{"type":"audio","data":"aGk=","mimeType":"audio/wav","annotations":{"priority":0.25}}"#,
        r#"{"type":"resource_link","uri":"file:///a","name":"a","title":"A","description":"d","mimeType":"text/plain","size":9007199254740993,"icons":[{"src":"https://x/i.png","mimeType":"image/png","sizes":["48x48","any"],"theme":"dark"}]}"#,
        r#"{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"hi","_meta":{}}}"#,
        r#"{"type":"resource","resource":{"uri":"file:///a","blob":"aGk="}}"#,
        r#"{"type":"tool_use","id":"1","name":"f","input":{"n":1.0,"big":12345678901234567890123}}"#,
        r#"{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"x"}],"structuredContent":null,"isError":false}"#,
        r#"{"type":"hologram","z":1,"a":[1.0,2e5]}"#,
    ] {
        same::<Content>(block);
        same::<Vec<Content>>(&format!("[{block},{block}]"));
    }
}

#[test]
fn known_blocks_must_be_whole_and_unknown_members_are_ignored() {
    for (block, error) in [
        (r#"{"type":"text"}"#, "text content: missing field `text`"),
        (r#"{"type":"image","data":"a"}"#, "image content: missing field `mimeType`"),
        (r#"{"text":"a"}"#, "content block: missing field `type`"),
        (
            r#"{"type":"resource","resource":{"uri":"a"}}"#,
            "resource contents need `text` or `blob`",
        ),
        (r#""text""#, "content block: invalid type"),
    ] {
        let found = serde_json::from_str::<Content>(block).unwrap_err().to_string();
        assert!(found.contains(error), "{found}");
    }
    let block: Content = serde_json::from_str(r#"{"type":"text","new":1,"text":"a"}"#).unwrap();
    assert_eq!(block.as_text(), Some("a"));
}

#[test]
fn results_inside_results_end_somewhere() {
    let nested = |levels: usize| {
        let open = r#"{"type":"tool_result","toolUseId":"1","content":["#.repeat(levels);
        serde_json::from_str::<Content>(&format!("{open}{}", "]}".repeat(levels)))
    };
    assert!(nested(50).is_ok());
    let error = nested(51).unwrap_err().to_string();
    assert!(error.contains("tool_result content is nested deeper than 100 levels"), "{error}");
    assert!(nested(100_000).is_err());
}

#[test]
fn definitions() {
    same::<Tool>(
        r#"{"name":"t","title":"T","description":"d","inputSchema":{"type":"object","properties":{"b":{},"a":{"default":1.0}}},"outputSchema":true,"annotations":{"title":"x","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false},"execution":{"taskSupport":"maybe"},"icons":[{"src":"data:,"}],"_meta":{"ui":{"z":1,"a":2}}}"#,
    );
    same::<ResourceTemplate>(r#"{"uriTemplate":"file:///{p}","name":"t","title":"T"}"#);
    same::<Prompt>(
        r#"{"name":"p","title":"T","arguments":[{"name":"a","title":"A","description":"d","required":true}]}"#,
    );
    same::<Implementation>(
        r#"{"name":"n","version":"1","title":"t","description":"d","websiteUrl":"https://x","icons":[{"src":"data:,"}]}"#,
    );
    let lenient = r#"{"name":"t","title":null,"inputSchema":{},"icons":null,"annotations":null}"#;
    let tool: Tool = serde_json::from_str(lenient).unwrap();
    assert_eq!(tool.display_name(), "t");
}

#[test]
fn display_names_follow_the_order() {
    let tool = Tool::without_arguments("name");
    let hints = ToolAnnotations::new().title("hint");
    assert_eq!(tool.clone().annotations(hints.clone()).display_name(), "hint");
    assert_eq!(tool.annotations(hints).title("title").display_name(), "title");
}

#[test]
fn parameters_of_requests() {
    same_params::<InitializeParams>(
        r#"{"_meta":{"x":1},"protocolVersion":"1999-01-01","capabilities":{"roots":{"listChanged":true},"tasks":{},"new":[1.0]},"clientInfo":{"name":"c","version":"1"}}"#,
    );
    same_params::<CallToolParams>(
        r#"{"_meta":{"progressToken":"a"},"name":"t","arguments":{"z":1.0,"a":18446744073709551616},"inputResponses":{"k":{"action":"accept","content":{"n":1.50}}},"requestState":"\u0000","task":{"ttl":60000}}"#,
    );
    same_params::<ListToolsParams>(r#"{"cursor":""}"#);
    same_params::<ListToolsParams>("{}");
    same_params::<ReadResourceParams>(r#"{"uri":"file:///a"}"#);
    same_params::<GetPromptParams>(r#"{"name":"p","arguments":{"z":"1","a":"2"}}"#);
    same_params::<CompleteParams>(
        r#"{"ref":{"type":"ref/prompt","name":"p","title":"P"},"argument":{"name":"a","value":"v"},"context":{"arguments":{"b":"w"}}}"#,
    );
    same_params::<CompleteParams>(
        r#"{"ref":{"type":"ref/resource","uri":"file:///{p}"},"argument":{"name":"a","value":""}}"#,
    );
    same_params::<SetLevelParams>(r#"{"level":"verbose"}"#);
    same_params::<SubscribeParams>(r#"{"uri":"file:///a"}"#);
    same_params::<ListenParams>(
        r#"{"notifications":{"toolsListChanged":true,"resourcesListChanged":false,"resourceSubscriptions":["file:///a"],"taskIds":["1"]}}"#,
    );
    same_params::<UpdateTaskParams>(r#"{"taskId":"t","inputResponses":{"a":{"roots":[]}}}"#);
}

#[test]
fn parameters_of_client_features() {
    same_params::<CreateMessageParams>(
        r#"{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"oracle","content":[{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"new"}],"_meta":{}}],"maxTokens":10,"modelPreferences":{"hints":[{"name":"x"},{}],"costPriority":0.5},"systemPrompt":"s","includeContext":"someServers","temperature":0.5,"stopSequences":["."],"metadata":{"b":1,"a":2},"tools":[{"name":"f","inputSchema":{}}],"toolChoice":{"mode":"any"}}"#,
    );
    same_params::<ElicitParams>(
        r#"{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"b":{"type":"number","minimum":1.0},"a":{}}}}"#,
    );
    same_params::<ElicitParams>(
        r#"{"mode":"url","message":"m","url":"https://x","elicitationId":"1"}"#,
    );
    same_params::<ElicitParams>(r#"{"mode":"smell","strength":3}"#);
    same_params::<ListRootsParams>("{}");
}

#[test]
fn parameters_of_notifications() {
    same_params::<ProgressParams>(
        r#"{"progressToken":"a","progress":0.5,"total":2,"message":"m"}"#,
    );
    same_params::<CancelledParams>(r#"{"requestId":7,"reason":"r"}"#);
    same_params::<CancelledParams>("{}");
    same_params::<LogMessageParams>(r#"{"level":"info","logger":"l","data":{"b":1.0,"a":null}}"#);
    same_params::<LogMessageParams>(r#"{"level":"loud","data":null}"#);
    same_params::<ResourceUpdatedParams>(
        r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"},"uri":"file:///a"}"#,
    );
    same_params::<ElicitationCompleteParams>(r#"{"elicitationId":"1"}"#);
    same_params::<LegacyTask>(
        r#"{"taskId":"t","status":"paused","createdAt":"a","lastUpdatedAt":"b","ttl":null,"pollInterval":5}"#,
    );
    same_params::<Task>(
        r#"{"taskId":"t","status":"failed","createdAt":"a","lastUpdatedAt":"b","ttlMs":60000,"error":{"code":-32603,"message":"m"}}"#,
    );
}

#[test]
fn results_of_every_method() {
    same_result::<CallToolResult>(
        r#"{"content":[{"type":"text","text":"a"},{"type":"new","x":1.0}],"isError":true}"#,
    );
    same_result::<CallToolResult>(r#"{"content":[]}"#);
    same_result::<ListToolsResult>(
        r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"nextCursor":""}"#,
    );
    same_result::<ListResourcesResult>(r#"{"resources":[{"uri":"u","name":"n"}]}"#);
    same_result::<ListResourceTemplatesResult>(
        r#"{"resourceTemplates":[{"uriTemplate":"u","name":"n"}]}"#,
    );
    same_result::<ReadResourceResult>(r#"{"contents":[{"uri":"u","text":""}]}"#);
    same_result::<ListPromptsResult>(r#"{"prompts":[{"name":"n"}]}"#);
    same_result::<GetPromptResult>(
        r#"{"_meta":{"a":1},"description":"d","messages":[{"role":"user","content":{"type":"text","text":"a"}}]}"#,
    );
    same_result::<CompleteResult>(r#"{"completion":{"values":["a"],"total":12,"hasMore":false}}"#);
    same_result::<InitializeResult>(
        r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"i"}"#,
    );
    same_result::<DiscoverResult>(
        r#"{"supportedVersions":["2026-07-28","3000-01-01"],"capabilities":{}}"#,
    );
    same_result::<EmptyResult>("{}");
    same_result::<EmptyResult>(r#"{"_meta":{"b":1,"a":2}}"#);
    same_result::<ListRootsResult>(r#"{"roots":[{"uri":"file:///a","name":"a"}]}"#);
    same_result::<ElicitResult>(r#"{"action":"shrug","content":{"b":1.0,"a":["x"]}}"#);
    same_result::<CreateMessageResult>(
        r#"{"role":"assistant","content":{"type":"text","text":"a"},"model":"m","stopReason":"bored"}"#,
    );
    same_result::<CreatedTask>(
        r#"{"taskId":"t","status":"working","createdAt":"a","lastUpdatedAt":"b","ttlMs":null}"#,
    );
}

#[test]
fn errors_name_the_method_and_the_member() {
    let error = parse_params::<CallToolParams>(None).unwrap_err();
    assert_eq!(error.code, crate::Code::INVALID_PARAMS);
    assert_eq!(
        error.message,
        "invalid params of tools/call: missing field `name` at line 1 column 2"
    );
    assert!(parse_params::<PingParams>(None).is_ok());
    assert!(
        parse_params::<InitializeParams>(Some(
            br#"{"protocolVersion":"x","capabilities":[],"clientInfo":{"name":"","version":""}}"#
        ))
        .unwrap_err()
        .message
        .contains("capabilities must be an object")
    );
}

#[test]
fn null_is_structured_content_and_absence_is_not() {
    let read = |json| serde_json::from_str::<CallToolResult>(json).unwrap().structured_content;
    assert_eq!(read(r#"{"content":[],"structuredContent":null}"#).unwrap().get(), "null");
    assert!(read(r#"{"content":[]}"#).is_none());
}

#[test]
fn builders_make_what_they_say() {
    let result = CallToolResult::structured(&[1, 2]).unwrap().error();
    assert!(result.is_error());
    assert_eq!(result.data::<Vec<u8>>().unwrap().unwrap(), [1, 2]);
    assert_eq!(result.content[0].as_text(), Some("[1,2]"));
    let accepted = ElicitResult::accept().with("name", "x").with("age", 3);
    let fields: std::collections::BTreeMap<String, serde_json::Value> =
        accepted.data().unwrap().unwrap();
    assert_eq!(fields["age"], 3);
    let many = CompleteResult::new((0..101).map(|n| n.to_string())).completion;
    assert_eq!((many.values.len(), many.has_more), (100, Some(true)));
    assert_eq!(many.total.unwrap().as_u64(), Some(101));
    assert_eq!(CompleteResult::new(["a"]).completion.has_more, None);
}

#[test]
fn capabilities_answer_and_keep_what_they_do_not_know() {
    let client = |json| serde_json::from_str::<ClientCapabilities>(json).unwrap();
    let forms = |c: ClientCapabilities| (c.elicitation_form(), c.elicitation_url());
    assert_eq!(forms(client(r#"{"elicitation":{}}"#)), (true, false));
    assert_eq!(forms(client(r#"{"elicitation":{"url":{}}}"#)), (false, true));
    assert_eq!(forms(client(r#"{"elicitation":{"form":{},"url":{}}}"#)), (true, true));
    assert_eq!(forms(client(r#"{"elicitation":null}"#)), (false, false));
    assert_eq!(forms(client(r#"{"elicitation":{}}"#).with_elicitation_url()), (true, true));
    let built = client(r#"{"x":{"n":1.0},"roots":{"y":1}}"#)
        .with_sampling_tools()
        .with_sampling()
        .with_extension("io.modelcontextprotocol/tasks", &raw("{}"));
    assert_eq!(
        built.raw().get(),
        r#"{"x":{"n":1.0},"roots":{"y":1},"sampling":{"tools":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#
    );
    assert!(built.sampling() && built.sampling_tools() && built.roots());
    assert!(!built.sampling_context() && !built.roots_list_changed());
    assert_eq!(built.extension(TASKS_EXTENSION).unwrap().get(), "{}");
    let server = ServerCapabilities::new().with_tools(true).with_resources(false, true);
    assert_eq!(
        server.raw().get(),
        r#"{"tools":{"listChanged":true},"resources":{"subscribe":true}}"#
    );
    assert!(server.tools_list_changed() && server.resources_subscribe());
    assert!(!server.resources_list_changed() && !server.prompts() && !server.logging());
}

#[test]
fn log_levels_have_an_order() {
    assert!(LogLevel::Error.passes(&LogLevel::Warning));
    assert!(LogLevel::Error.passes(&LogLevel::Error));
    assert!(!LogLevel::Debug.passes(&LogLevel::Info));
    assert!(!LogLevel::from("loud").passes(&LogLevel::Debug));
}

#[test]
fn tool_results_answer_tool_uses() {
    fn message(json: &str) -> SamplingMessage {
        serde_json::from_str(json).unwrap()
    }
    let uses = || {
        message(
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"tool_use","id":"2","name":"f","input":{}}]}"#,
        )
    };
    let answers = |ids: &[&str], text: &str| {
        let blocks: Vec<_> = ids
            .iter()
            .map(|id| format!(r#"{{"type":"tool_result","toolUseId":"{id}","content":[]}}"#))
            .collect();
        message(&format!(r#"{{"role":"user","content":[{}{text}]}}"#, blocks.join(",")))
    };
    let answered = |messages| CreateMessageParams::new(messages, 1).tools_are_answered();
    let text = || SamplingMessage::user(Content::text("a"));
    assert!(answered(vec![text(), uses(), answers(&["2", "1"], ""), text()]));
    assert!(!answered(vec![uses(), answers(&["1"], "")]), "one is missing");
    assert!(
        !answered(vec![uses(), answers(&["1", "2"], r#",{"type":"text","text":"a"}"#)]),
        "mixed"
    );
    assert!(!answered(vec![uses(), text()]), "none");
    assert!(!answered(vec![uses()]), "open at the end");
    assert!(!answered(vec![text(), answers(&["1"], "")]), "to no question");
}
