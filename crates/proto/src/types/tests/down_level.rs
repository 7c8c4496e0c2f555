use std::borrow::Cow;

use serde_json::{Value, json};

use super::{raw, written};
use crate::types::*;
use crate::version::Revision::{self, *};

fn body(result: &impl WireResult, revision: Revision) -> Value {
    serde_json::from_str(&written(result, revision)).unwrap()
}

#[test]
fn a_plain_result_is_written_as_it_is() {
    let result = CallToolResult::text("pong");
    for revision in Revision::ALL {
        assert!(matches!(result.at(revision), Cow::Borrowed(_)), "{revision} copies");
    }
    let plain = r#"{"content":[{"type":"text","text":"pong"}]}"#;
    assert_eq!(written(&result, V2024_11_05), plain);
    assert_eq!(written(&result, V2025_11_25), plain);
    assert_eq!(
        written(&result, V2026_07_28),
        r#"{"resultType":"complete","content":[{"type":"text","text":"pong"}]}"#
    );
}

#[test]
fn sound_and_links_become_text_where_they_are_unknown() {
    let link = Resource::new("file:///a", "a").title("A").description("d").icon(Icon::new("i"));
    let result =
        CallToolResult::new(vec![Content::audio("aGkh", "audio/wav"), Content::link(link)]);
    let types = |revision| {
        let body = body(&result, revision);
        let kind = |at: usize| body["content"][at]["type"].as_str().unwrap().to_owned();
        (kind(0), kind(1))
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(types(V2024_11_05), pair("text", "text"));
    assert_eq!(types(V2025_03_26), pair("audio", "text"));
    assert_eq!(types(V2025_06_18), pair("audio", "resource_link"));
    let oldest = body(&result, V2024_11_05);
    assert_eq!(oldest["content"][0]["text"], "[audio of type audio/wav, about 3 bytes, left out]");
    assert_eq!(oldest["content"][1]["text"], "A: file:///a (d)");
    assert_eq!(body(&result, V2025_06_18)["content"][1].get("icons"), None);
    assert_eq!(body(&result, V2025_06_18)["content"][1]["title"], "A");
    assert!(body(&result, V2025_11_25)["content"][1]["icons"].is_array());
}

#[test]
fn structured_content_becomes_text_unless_a_text_says_it() {
    let data = || raw(r#"{"b": 1, "a": 2}"#);
    let silent = CallToolResult::text("done").structured_content(data());
    let telling = CallToolResult::text(r#" {"a":2,"b":1} "#).structured_content(data());
    for revision in [V2024_11_05, V2025_03_26] {
        let old = body(&silent, revision);
        assert_eq!(old["content"][1]["text"], r#"{"b": 1, "a": 2}"#);
        assert_eq!(old.get("structuredContent"), None);
        assert_eq!(body(&telling, revision)["content"].as_array().unwrap().len(), 1);
    }
    for revision in [V2025_06_18, V2025_11_25, V2026_07_28] {
        assert!(matches!(silent.at(revision), Cow::Borrowed(_)));
        assert_eq!(body(&silent, revision)["structuredContent"]["a"], 2);
    }
}

#[test]
fn structured_content_is_an_object_before_2026() {
    for value in ["null", "[1]", "\"{\"", "1.0"] {
        let result = CallToolResult::new(vec![]).structured_content(raw(value));
        let wrapped = format!(r#"{{"content":[],"structuredContent":{{"result":{value}}}}}"#);
        assert_eq!(written(&result, V2025_06_18), wrapped);
        assert_eq!(written(&result, V2025_11_25), wrapped);
        assert_eq!(
            written(&result, V2026_07_28),
            format!(r#"{{"resultType":"complete","content":[],"structuredContent":{value}}}"#)
        );
    }
    let object = CallToolResult::new(vec![]).structured_content(raw(r#"{"a":1}"#)).wrapped();
    assert_eq!(body(&object, V2025_11_25)["structuredContent"], json!({"result": {"a": 1}}));
}

#[test]
fn output_schemas_are_objects_before_2026() {
    let tool = |schema: &str| Tool::without_arguments("t").output_schema(raw(schema));
    let array = tool(
        r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"array","items":{"$ref":"#/$defs/x"},"$defs":{"x":{"enum":[{"$ref":"#/no"}],"properties":{"const":{"$ref":"#"},"$ref":{"$ref":"#named"}}},"y":{"$id":"https://y","$ref":"#/$defs/z"}}}"##,
    );
    let wrapped = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"result":{"type":"array","items":{"$ref":"#/properties/result/$defs/x"},"$defs":{"x":{"enum":[{"$ref":"#/no"}],"properties":{"const":{"$ref":"#/properties/result"},"$ref":{"$ref":"#named"}}},"y":{"$id":"https://y","$ref":"#/$defs/z"}}}},"required":["result"]}"##;
    for revision in [V2025_06_18, V2025_11_25] {
        assert!(array.wraps_output(revision));
        assert_eq!(array.at(revision).output_schema.as_deref().unwrap().get(), wrapped);
    }
    assert!(!array.wraps_output(V2026_07_28) && !array.wraps_output(V2025_03_26));
    assert!(matches!(array.at(V2026_07_28), Cow::Borrowed(_)));
    assert!(array.at(V2025_03_26).output_schema.is_none());
    let object = tool(r#"{"type":"object","additionalProperties":true}"#);
    assert!(matches!(object.at(V2025_06_18), Cow::Borrowed(_)));
    let any = tool("true").at(V2025_11_25).into_owned().output_schema.unwrap();
    assert_eq!(
        any.get(),
        r#"{"type":"object","properties":{"result":true},"required":["result"]}"#
    );
    let rooted = tool(r##"{"$id":"https://x","$ref":"#/$defs/a"}"##).at(V2025_11_25).into_owned();
    assert!(rooted.output_schema.unwrap().get().contains(r##""$ref":"#/$defs/a""##));
}

#[test]
fn a_schema_too_deep_to_rewrite_is_left_out() {
    let deep = format!("{}1{}", r#"{"not":"#.repeat(200), "}".repeat(200));
    let tool = Tool::without_arguments("t").output_schema(raw(&deep));
    assert!(tool.at(V2025_11_25).output_schema.is_none());
    assert!(tool.at(V2026_07_28).output_schema.is_some());
}

#[test]
fn tools_lose_what_older_revisions_do_not_know() {
    let tool = Tool::without_arguments("t")
        .title("T")
        .annotations(ToolAnnotations::new().read_only_hint(true))
        .execution(ToolExecution { task_support: Some(TaskSupport::Required) })
        .output_schema(raw(r#"{"type":"object"}"#))
        .icon(Icon::new("i"));
    let result = ListToolsResult::new(vec![tool]).cached(5, CacheScope::Public);
    let keys = |revision| {
        let body = body(&result, revision);
        let tool = body["tools"][0].as_object().unwrap();
        tool.keys().filter(|k| !["name", "inputSchema"].contains(&k.as_str())).cloned().collect()
    };
    let expect = |revision, expected: &[&str]| {
        let found: Vec<String> = keys(revision);
        assert_eq!(found, expected, "{revision}");
    };
    expect(V2024_11_05, &[]);
    expect(V2025_03_26, &["annotations"]);
    expect(V2025_06_18, &["annotations", "outputSchema", "title"]);
    expect(V2025_11_25, &["annotations", "execution", "icons", "outputSchema", "title"]);
    expect(V2026_07_28, &["annotations", "icons", "outputSchema", "title"]);
    assert_eq!(body(&result, V2025_03_26)["tools"][0]["annotations"]["title"], "T");
    assert_eq!(body(&result, V2026_07_28)["ttlMs"], 5);
    assert_eq!(body(&result, V2026_07_28)["cacheScope"], "public");
    assert_eq!(body(&result, V2025_11_25).get("ttlMs"), None);
}

#[test]
fn prompts_and_resources_lose_titles_and_icons() {
    let prompt = Prompt::new("p")
        .title("P")
        .icon(Icon::new("i"))
        .argument(PromptArgument::required("a").title("A"));
    let prompts = ListPromptsResult::new(vec![prompt]);
    let old = body(&prompts, V2025_03_26);
    assert_eq!(old, json!({"prompts":[{"name":"p","arguments":[{"name":"a","required":true}]}]}));
    assert_eq!(body(&prompts, V2025_06_18)["prompts"][0].get("icons"), None);
    assert_eq!(body(&prompts, V2025_06_18)["prompts"][0]["arguments"][0]["title"], "A");
    let resources =
        ListResourcesResult::new(vec![Resource::new("u", "n").title("T").icon(Icon::new("i"))]);
    assert_eq!(body(&resources, V2024_11_05), json!({"resources":[{"uri":"u","name":"n"}]}));
    let template = ResourceTemplate::new("u", "n").title("T").icon(Icon::new("i"));
    let templates = ListResourceTemplatesResult::new(vec![template]);
    assert_eq!(
        body(&templates, V2025_06_18),
        json!({"resourceTemplates":[{"uriTemplate":"u","name":"n","title":"T"}]})
    );
}

#[test]
fn handshakes_lose_what_the_session_does_not_know() {
    let info = Implementation::new("n", "1").title("t").description("d").icon(Icon::new("i"));
    let capabilities: ServerCapabilities =
        serde_json::from_str(r#"{"tasks":{"list":{}},"tools":{},"x":1.0}"#).unwrap();
    let result = |revision| {
        let result = InitializeResult::new(revision, capabilities.clone(), info.clone());
        body(&result, revision)
    };
    assert_eq!(result(V2024_11_05)["serverInfo"], json!({"name":"n","version":"1"}));
    assert_eq!(result(V2025_06_18)["serverInfo"]["title"], "t");
    assert_eq!(result(V2025_06_18)["capabilities"], json!({"tools":{},"x":1.0}));
    assert_eq!(result(V2025_11_25)["capabilities"]["tasks"], json!({"list":{}}));
    assert_eq!(result(V2025_11_25)["serverInfo"]["description"], "d");
    let client: ClientCapabilities =
        serde_json::from_str(r#"{"tasks":{},"roots":{"listChanged":true,"y":1}}"#).unwrap();
    assert_eq!(client.at(V2026_07_28).raw().get(), r#"{"roots":{"y":1}}"#);
    assert_eq!(client.at(V2025_06_18).raw().get(), r#"{"roots":{"listChanged":true,"y":1}}"#);
    assert!(matches!(client.at(V2025_11_25), Cow::Borrowed(_)));
}

#[test]
fn parameters_lose_what_older_revisions_do_not_know() {
    let mut complete = CompleteParams::new(CompletionReference::prompt("p"), "a", "v");
    complete.context = Some(CompletionContext::default());
    assert!(complete.at(V2025_03_26).context.is_none());
    assert!(complete.at(V2025_06_18).context.is_some());
    let progress = ProgressParams::new("t", 1.0).message("m");
    assert!(progress.at(V2024_11_05).message.is_none());
    assert!(progress.at(V2025_03_26).message.is_some());
    let call = CallToolParams { task: Some(TaskRequest::default()), ..CallToolParams::new("t") };
    assert!(call.at(V2025_11_25).task.is_some());
    assert!(call.at(V2026_07_28).task.is_none() && call.at(V2025_06_18).task.is_none());
    let form = ElicitParams::from(ElicitForm {
        mode: Some("form".into()),
        ..ElicitForm::new("m", raw("{}"))
    });
    let json = |revision| serde_json::to_string(&*form.at(revision)).unwrap();
    assert_eq!(json(V2025_06_18), r#"{"message":"m","requestedSchema":{}}"#);
    assert_eq!(json(V2026_07_28), r#"{"mode":"form","message":"m","requestedSchema":{}}"#);
    let url = ElicitParams::from(ElicitUrl::new("m", "https://x").elicitation_id("1"));
    let json = serde_json::to_string(&*url.at(V2026_07_28)).unwrap();
    assert_eq!(json, r#"{"mode":"url","message":"m","url":"https://x"}"#);
}

#[test]
fn sampling_without_tools_has_one_block_per_message() {
    let blocks = vec![Content::text("a"), Content::audio("aGk=", "audio/wav")];
    let message = SamplingMessage { content: blocks, ..SamplingMessage::user(Content::text("")) };
    let ask = CreateMessageParams::new(vec![message], 1).tools(raw("[]"));
    let old = ask.at(V2024_11_05);
    assert!(old.tools.is_none() && ask.at(V2025_11_25).tools.is_some());
    assert_eq!(old.messages.len(), 2);
    assert!(old.messages[1].content[0].as_text().unwrap().starts_with("[audio"));
    let sampling = ClientCapabilities::new().with_sampling();
    assert!(!ask.fits(&sampling) && ask.fits(&sampling.clone().with_sampling_tools()));
    assert!(
        CreateMessageParams::new(vec![SamplingMessage::user(Content::text("a"))], 1)
            .fits(&sampling)
    );
    let mut answer = CreateMessageResult::new("m", Content::text("a"));
    answer.content.extend([Content::image("aGk=", "image/png"), Content::text("b")]);
    assert_eq!(body(&answer, V2025_06_18)["content"], json!({"type":"text","text":"a\nb"}));
    assert_eq!(body(&answer, V2025_11_25)["content"].as_array().unwrap().len(), 3);
}
