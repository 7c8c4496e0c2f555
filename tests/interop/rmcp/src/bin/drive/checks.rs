//! What is checked. A value that rmcp reads into its own types is compared in the form in which it writes them again.
//!
//! Not checked, since rmcp cannot do it: progress without a token (it puts one into every request).

use std::{collections::HashSet, time::Duration};

use rmcp::model::*;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time,
};

use crate::{
    Outcome,
    expect::*,
    peer::{Peer, ROOTS, fill},
};

/// Long enough for a wrongly sent notification to arrive.
const SILENCE: Duration = Duration::from_millis(150);

const WATCHED: &str = "test://watched-resource";
const PNG: &str = "iVBORw0KGgo"; // the PNG signature in base64
const WAV: &str = "UklGR"; // "RIFF" in base64
const TOOLS: &str = "echo add sleep fail big progress touch_watched list_roots test_simple_text test_image_content \
    test_audio_content test_embedded_resource test_multiple_content_types test_tool_with_logging test_tool_with_progress \
    test_error_handling test_sampling test_elicitation test_elicitation_sep1034_defaults test_elicitation_sep1330_enums \
    json_schema_2020_12_tool test_trigger_tool_change";

pub async fn identity(peer: &Peer) -> Outcome {
    let info = to_json(peer.service.peer_info().as_deref())?;
    ensure!(
        info["serverInfo"]["name"] != "" && info["serverInfo"]["version"].is_string(),
        "{info}"
    );
    for capability in ["tools", "resources", "prompts", "completions", "logging"] {
        ensure!(info["capabilities"][capability].is_object(), "no {capability} in {info}");
    }
    equal(&info["capabilities"]["resources"]["subscribe"], &true)?;
    equal(&info["capabilities"]["tools"]["listChanged"], &true)?;
    equal(&info["protocolVersion"], &if peer.modern { "2026-07-28" } else { "2025-11-25" })
}

pub async fn tools_list(peer: &Peer) -> Outcome {
    let tools = to_json(peer.service.list_all_tools().await?)?;
    includes(&names(&tools, "name")?, TOOLS.split_whitespace())?;
    for tool in each(&tools) {
        ensure!(
            tool["description"] != "" && tool["description"].is_string(),
            "no description: {tool}"
        );
        equal(&tool["inputSchema"]["type"], &"object")?;
    }
    let echo = named(&tools, "echo")?;
    equal(&echo["inputSchema"]["properties"]["message"]["type"], &"string")?;
    equal(&echo["inputSchema"]["required"], &json!(["message"]))
}

pub async fn schema_is_listed_verbatim(peer: &Peer) -> Outcome {
    let tools = to_json(peer.service.list_all_tools().await?)?;
    let schema = &named(&tools, "json_schema_2020_12_tool")?["inputSchema"];
    equal(&schema["$schema"], &"https://json-schema.org/draft/2020-12/schema")?;
    equal(&schema["$defs"]["address"]["$anchor"], &"addressDef")?;
    equal(&schema["properties"]["address"]["$ref"], &"#/$defs/address")?;
    let branches = each(&schema["allOf"][0]["anyOf"]);
    ensure!(branches.iter().any(|branch| branch["required"] == json!(["phone"])), "{schema}");
    for keyword in ["if", "then", "else"] {
        ensure!(schema.get(keyword).is_some(), "no {keyword} in {schema}");
    }
    equal(&schema["additionalProperties"], &false)
}

pub async fn echo(peer: &Peer) -> Outcome {
    for message in
        ["hello", "", "ünïcødé 日本 🦀 \0\u{2028}", "one\ntwo\r\n\ttab \"quoted\" \\", " spaces "]
    {
        equal(&text(peer, "echo", json!({ "message": message })).await?, &message)?;
    }
    Ok(())
}

pub async fn add(peer: &Peer) -> Outcome {
    equal(&text(peer, "add", json!({ "a": 2, "b": 40 })).await?, &"42")?;
    equal(&text(peer, "add", json!({ "a": -7, "b": 3 })).await?, &"-4")
}

pub async fn tool_error(peer: &Peer) -> Outcome {
    equal(&call(peer, "fail", json!({})).await?["isError"], &true)?;
    let result = call(peer, "test_error_handling", json!({})).await?;
    equal(&result["isError"], &true)?;
    equal(&result["content"][0]["text"], &"This tool intentionally returns an error for testing")
}

pub async fn wrong_arguments(peer: &Peer) -> Outcome {
    let wrong = [
        ("echo", json!({}), "message"),
        ("echo", json!({ "message": 5 }), "message"),
        ("add", json!({ "a": 1 }), "b"),
        ("add", json!({ "a": "x", "b": 1 }), "a"),
    ];
    for (tool, args, argument) in wrong {
        let result = call(peer, tool, args.clone()).await?;
        ensure!(result["isError"] == true, "{tool} {args} was accepted");
        let told = result["content"][0]["text"].as_str().unwrap_or_default();
        let mut words = told.split(|c: char| !c.is_alphanumeric());
        ensure!(words.any(|word| word == argument), "no {argument} in {told}");
    }
    Ok(())
}

pub async fn unknown_tool(peer: &Peer) -> Outcome {
    let params = CallToolRequestParams::new("no_such_tool");
    rejects(peer.service.call_tool(params).await, -32602).map(drop)
}

pub async fn big(peer: &Peer) -> Outcome {
    equal(&text(peer, "big", json!({ "bytes": 1 << 20 })).await?.len(), &(1 << 20))
}

pub async fn content_kinds(peer: &Peer) -> Outcome {
    let simple = peer.service.call_tool(CallToolRequestParams::new("test_simple_text")).await?;
    equal(&to_json(simple)?["content"][0]["text"], &"This is a simple text response for testing.")?;
    let image = &call(peer, "test_image_content", json!({})).await?["content"][0];
    media(image, "image", "image/png", PNG)?;
    let audio = &call(peer, "test_audio_content", json!({})).await?["content"][0];
    media(audio, "audio", "audio/wav", WAV)?;
    let embedded = &call(peer, "test_embedded_resource", json!({})).await?["content"][0];
    equal(&embedded["type"], &"resource")?;
    equal(
        &embedded["resource"],
        &json!({
            "uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource content.",
        }),
    )?;
    let mixed = &call(peer, "test_multiple_content_types", json!({})).await?["content"];
    equal(&mixed[0]["text"], &"Multiple content types test:")?;
    media(&mixed[1], "image", "image/png", PNG)?;
    let resource = &mixed[2]["resource"];
    equal(&resource["uri"], &"test://mixed-content-resource")?;
    equal(&resource["mimeType"], &"application/json")?;
    equal(&parsed(&resource["text"])?, &json!({ "test": "data", "value": 123 }))
}

pub async fn progress(peer: &Peer) -> Outcome {
    for (tool, args) in
        [("progress", json!({ "steps": 5 })), ("test_tool_with_progress", json!({}))]
    {
        let from = peer.hands.lock().seen.len();
        text(peer, tool, args).await?;
        time::sleep(SETTLE).await;
        let seen = since(peer, from, "progress");
        let values: Vec<_> = seen.iter().filter_map(|params| params["progress"].as_f64()).collect();
        ensure!(values.is_sorted_by(|a, b| a < b), "{tool} does not increase: {values:?}");
        match tool {
            "progress" => equal(&values.len(), &5)?,
            _ => equal(&values, &vec![0.0, 50.0, 100.0])?,
        }
    }
    Ok(())
}

pub async fn cancel(peer: &Peer) -> Outcome {
    let sleeping = call(peer, "sleep", json!({ "ms": 30_000 }));
    let dropped = time::timeout(Duration::from_millis(100), sleeping).await;
    ensure!(dropped.is_err(), "sleep returned early: {dropped:?}");
    equal(&text(peer, "echo", json!({ "message": "still here" })).await?, &"still here")
}

pub async fn concurrent_calls(peer: &Peer) -> Outcome {
    let mut calls = JoinSet::new();
    for i in 0..32 {
        let sink = peer.service.peer().clone();
        calls.spawn(async move {
            let message = format!("message {i}");
            let params = CallToolRequestParams::new("echo")
                .with_arguments(to_object(json!({ "message": message })));
            sink.call_tool(params).await.map(|result| (message, result))
        });
    }
    while let Some(done) = calls.join_next().await {
        let (message, result) = done??;
        equal(&to_json(result)?["content"][0]["text"], &message.as_str())?;
    }
    Ok(())
}

pub async fn resources_list(peer: &Peer) -> Outcome {
    let resources = to_json(peer.service.list_all_resources().await?)?;
    includes(&names(&resources, "uri")?, ["test://static-text", "test://static-binary", WATCHED])?;
    for resource in each(&resources) {
        ensure!(resource["name"] != "" && resource["description"].is_string(), "{resource}");
    }
    let templates = to_json(peer.service.list_all_resource_templates().await?)?;
    includes(&names(&templates, "uriTemplate")?, ["test://template/{id}/data"])
}

pub async fn resources_read(peer: &Peer) -> Outcome {
    let text = read(peer, "test://static-text").await?;
    equal(&text["text"], &"This is the content of the static text resource.")?;
    let binary = read(peer, "test://static-binary").await?;
    equal(&binary["mimeType"], &"image/png")?;
    ensure!(binary["blob"].as_str().is_some_and(|blob| blob.starts_with(PNG)), "{binary}");
    let data = read(peer, "test://template/123/data").await?;
    equal(
        &parsed(&data["text"])?,
        &json!({ "id": "123", "templateTest": true, "data": "Data for ID: 123" }),
    )
}

pub async fn unknown_resource(peer: &Peer) -> Outcome {
    let params = ReadResourceRequestParams::new("test://no-such-resource");
    let code = if peer.modern { -32602 } else { -32002 };
    let data = rejects(peer.service.read_resource(params).await, code)?;
    equal(&data["uri"], &"test://no-such-resource")
}

pub async fn resource_updated(peer: &Peer) -> Outcome {
    if peer.modern {
        let filter = SubscriptionFilter::builder().resource_subscriptions([WATCHED]).build();
        let touched = announced(peer, filter, text(peer, "touch_watched", json!({}))).await?;
        equal(&touched["params"]["uri"], &WATCHED)?;
    } else {
        peer.service.subscribe(SubscribeRequestParams::new(WATCHED)).await?;
        let from = peer.hands.lock().seen.len();
        text(peer, "touch_watched", json!({})).await?;
        equal(&until(peer, from, "updated").await?["uri"], &WATCHED)?;
        peer.service.unsubscribe(UnsubscribeRequestParams::new(WATCHED)).await?;
    }
    let from = peer.hands.lock().seen.len();
    text(peer, "touch_watched", json!({})).await?;
    time::sleep(SILENCE).await;
    none(&since(peer, from, "updated"))
}

pub async fn tools_changed(peer: &Peer) -> Outcome {
    let list = || async { names(&to_json(peer.service.list_all_tools().await?)?, "name") };
    let before = list().await?;
    let change = text(peer, "test_trigger_tool_change", json!({}));
    if peer.modern {
        announced(peer, SubscriptionFilter::builder().tools_list_changed().build(), change).await?;
    } else {
        let from = peer.hands.lock().seen.len();
        change.await?;
        until(peer, from, "tools_changed").await?;
    }
    ensure!(list().await? != before, "the list is the same");
    Ok(())
}

pub async fn prompts(peer: &Peer) -> Outcome {
    let prompts = to_json(peer.service.list_all_prompts().await?)?;
    let wanted = "test_simple_prompt test_prompt_with_arguments test_prompt_with_embedded_resource test_prompt_with_image";
    includes(&names(&prompts, "name")?, wanted.split_whitespace())?;
    for prompt in each(&prompts) {
        ensure!(
            prompt["description"].is_string() && prompt["description"] != "",
            "no description: {prompt}"
        );
    }
    let arguments = &named(&prompts, "test_prompt_with_arguments")?["arguments"];
    equal(
        &each(arguments).iter().map(|a| a["name"].clone()).collect::<Vec<_>>(),
        &vec![json!("arg1"), json!("arg2")],
    )?;

    let simple = prompt(peer, "test_simple_prompt", json!({})).await?;
    equal(&simple[0]["role"], &"user")?;
    ensure!(simple[0]["content"]["text"].as_str().is_some_and(|text| !text.is_empty()), "{simple}");
    let filled =
        prompt(peer, "test_prompt_with_arguments", json!({ "arg1": "hello", "arg2": "wörld" }))
            .await?;
    equal(&filled[0]["content"]["text"], &"Prompt with arguments: arg1='hello', arg2='wörld'")?;
    let uri = "test://example-resource";
    let embedded =
        prompt(peer, "test_prompt_with_embedded_resource", json!({ "resourceUri": uri })).await?;
    equal(&of_type(&embedded, "resource")?["resource"]["uri"], &uri)?;
    let pictured = prompt(peer, "test_prompt_with_image", json!({})).await?;
    media(of_type(&pictured, "image")?, "image", "image/png", PNG)
}

pub async fn unknown_prompt(peer: &Peer) -> Outcome {
    let params = GetPromptRequestParams::new("no_such_prompt");
    rejects(peer.service.get_prompt(params).await, -32602).map(drop)
}

pub async fn completion(peer: &Peer) -> Outcome {
    let values =
        peer.service.complete_prompt_simple("test_prompt_with_arguments", "arg1", "te").await?;
    ensure!(
        values.len() <= 100 && values.iter().all(|value| value.starts_with("te")),
        "{values:?}"
    );
    Ok(())
}

pub async fn elicitation_accepted(peer: &Peer) -> Outcome {
    let (told, asked) = asking(
        peer,
        false,
        None,
        text(peer, "test_elicitation", json!({ "message": "Who are you?" })),
    )
    .await;
    let told = told?;
    equal(&asked.len(), &1)?;
    equal(&asked[0]["message"], &"Who are you?")?;
    let content =
        told.strip_prefix("User response: action=accept, content=").ok_or(told.clone())?;
    equal(&serde_json::from_str::<Value>(content)?, &fill(&asked[0]["requestedSchema"]))
}

pub async fn elicitation_declined(peer: &Peer) -> Outcome {
    let (told, asked) = asking(
        peer,
        true,
        None,
        text(peer, "test_elicitation", json!({ "message": "Who are you?" })),
    )
    .await;
    equal(&asked.len(), &1)?;
    let told = told?;
    ensure!(told.starts_with("User response: action=decline"), "{told}");
    Ok(())
}

pub async fn elicitation_defaults(peer: &Peer) -> Outcome {
    let (told, asked) =
        asking(peer, false, None, text(peer, "test_elicitation_sep1034_defaults", json!({}))).await;
    told?;
    let properties = &asked[0]["requestedSchema"]["properties"];
    let wanted = json!({ "name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": true });
    for (name, default) in wanted.as_object().into_iter().flatten() {
        equal(&properties[name]["default"], default)?;
    }
    equal(&properties["status"]["enum"], &json!(["active", "inactive", "pending"]))
}

pub async fn elicitation_enums(peer: &Peer) -> Outcome {
    let (told, asked) =
        asking(peer, false, None, text(peer, "test_elicitation_sep1330_enums", json!({}))).await;
    told?;
    let properties = &asked[0]["requestedSchema"]["properties"];
    let options = json!(["option1", "option2", "option3"]);
    let constants = |choices: &Value| {
        each(choices).iter().map(|choice| choice["const"].clone()).collect::<Value>()
    };
    let values = json!(["value1", "value2", "value3"]);
    equal(&properties["untitledSingle"]["enum"], &options)?;
    equal(&constants(&properties["titledSingle"]["oneOf"]), &values)?;
    equal(&each(&properties["legacyEnum"]["enumNames"]).len(), &3)?;
    equal(&properties["untitledMulti"]["items"]["enum"], &options)?;
    equal(&constants(&properties["titledMulti"]["items"]["anyOf"]), &values)
}

pub async fn sampling(peer: &Peer) -> Outcome {
    let (told, asked) =
        asking(peer, false, None, text(peer, "test_sampling", json!({ "prompt": "The answer?" })))
            .await;
    equal(&told?, &"LLM response: forty-two")?;
    let message = &asked[0]["messages"][0];
    let content = message["content"].get(0).unwrap_or(&message["content"]);
    equal(&message["role"], &"user")?;
    equal(&content["text"], &"The answer?")?;
    equal(&asked[0]["maxTokens"], &100)
}

pub async fn roots(peer: &Peer) -> Outcome {
    equal(&text(peer, "list_roots", json!({})).await?, &ROOTS.join("\n"))
}

pub async fn logging(peer: &Peer) -> Outcome {
    let told = logged(peer, Some(LoggingLevel::Info)).await?;
    let data: HashSet<_> =
        told.iter().filter_map(|params| params["data"].as_str().map(str::to_owned)).collect();
    includes(
        &data,
        ["Tool execution started", "Tool processing data", "Tool execution completed"],
    )?;
    ensure!(told.iter().all(|params| params["level"] == "info"), "{told:?}");
    none(&logged(peer, Some(LoggingLevel::Error)).await?)?;
    if peer.modern {
        none(&logged(peer, None).await?)?;
    }
    Ok(())
}

pub async fn ping(peer: &Peer) -> Outcome {
    peer.service.send_request(ClientRequest::PingRequest(PingRequest::default())).await?;
    Ok(())
}

pub async fn input_required(peer: &Peer) -> Outcome {
    let name = Some(json!({ "name": "Ada" }));
    let (told, _) =
        asking(peer, false, name, text(peer, "test_input_required_result_elicitation", json!({})))
            .await;
    equal(&told?, &"Hello, Ada!")?;
    let (told, _) = asking(
        peer,
        false,
        None,
        text(peer, "test_input_required_result_request_state", json!({})),
    )
    .await;
    let told = told?;
    ensure!(told.contains("state-ok"), "{told}");
    Ok(())
}

pub async fn input_required_many(peer: &Peer) -> Outcome {
    for tool in
        ["test_input_required_result_multi_round", "test_input_required_result_multiple_inputs"]
    {
        let (result, asked) = asking(peer, false, None, call(peer, tool, json!({}))).await;
        ensure!(result?["isError"] != true, "{tool} failed");
        ensure!(asked.len() >= 2, "{tool} asked {} times", asked.len());
    }
    Ok(())
}

/// Legacy: the stream of the answer ends in the middle of the call, and the SDK must come back for the rest.
pub async fn resumed(peer: &Peer) -> Outcome {
    let again = async || {
        let told = text(peer, "test_reconnection", json!({})).await?;
        equal(&told, &"Reconnection test completed successfully")
    };
    again().await?;
    let (first, second, third) = tokio::join!(again(), again(), again());
    first.and(second).and(third)
}

pub async fn many_kinds_at_once(peer: &Peer) -> Outcome {
    (peer.hands.lock().decline, peer.hands.lock().content) = (false, None);
    let mut calls = Vec::new();
    for i in 0..6 {
        for (tool, args) in [
            ("echo", json!({ "message": "x" })),
            ("sleep", json!({ "ms": 20 * i })),
            ("progress", json!({ "steps": 3 })),
            ("big", json!({ "bytes": 100_000 })),
            ("test_elicitation", json!({ "message": "x" })),
            ("test_sampling", json!({ "prompt": "x" })),
            ("list_roots", json!({})),
        ] {
            calls.push(text(peer, tool, args));
        }
    }
    for told in futures::future::join_all(calls).await {
        ensure!(told? != "", "nothing was said");
    }
    Ok(())
}

/// An argument that travels in a header too; what a header cannot hold is encoded.
pub async fn mirrored_argument(peer: &Peer) -> Outcome {
    peer.service.list_all_tools().await?;
    for region in ["eu-west-1", "Zürich", " padded ", "=?base64?eA==?="] {
        let told = text(peer, "test_x_mcp_header", json!({ "region": region })).await?;
        equal(&told, &format!("Region: {region}"))?;
    }
    equal(&text(peer, "test_x_mcp_header", json!({})).await?, &"Region: none")
}

/// rmcp opens a new session by itself and repeats the call.
pub async fn forgotten_session(peer: &Peer, forget: &str) -> Outcome {
    let address = forget.strip_prefix("http://").and_then(|url| url.split_once('/'));
    let (address, path) = address.ok_or(format!("not an address: {forget}"))?;
    let mut socket = TcpStream::connect(address).await?;
    let head = format!("POST /{path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    socket.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await?;
    ensure!(answer.starts_with("HTTP/1.1 2"), "nothing was forgotten: {answer}");
    for message in ["found", "and again"] {
        equal(&text(peer, "echo", json!({ "message": message })).await?, &message)?;
    }
    Ok(())
}
