//! What a call returns, for people: text as it is, everything else as one line.

use mcplane::types::{
    CallToolResult, Content, GetPromptResult, MediaContent, ReadResourceResult, ResourceBody,
    ResourceContents,
};
use serde_json::Value;

use super::text::{Style, decoded_len, line, size};

/// The content of a tool's result. Structured content is shown unless a text says the same.
pub(super) fn tool(result: &CallToolResult, style: Style) -> String {
    let mut out = String::new();
    for block in &result.content {
        push(&mut out, &shown(block, style));
    }
    let structured = result.structured_content.as_deref();
    let value = structured.and_then(|json| serde_json::from_str::<Value>(json.get()).ok());
    if let Some(value) = value.filter(|value| !says(&result.content, value)) {
        let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
        push(&mut out, &style.verbatim(&pretty));
    }
    out
}

/// The messages of a prompt, each under its role.
pub(super) fn prompt(result: &GetPromptResult, style: Style) -> String {
    let mut out = String::new();
    for message in &result.messages {
        push(&mut out, &style.bold(&format!("{}:", line(message.role.as_str()))));
        push(&mut out, &shown(&message.content, style));
    }
    out
}

/// The contents of a resource.
pub(super) fn resource(result: &ReadResourceResult, style: Style) -> String {
    let mut out = String::new();
    for contents in &result.contents {
        push(&mut out, &embedded(contents, style));
    }
    out
}

fn shown(block: &Content, style: Style) -> String {
    match block {
        Content::Text(block) => style.verbatim(&block.text),
        Content::Image(block) => media("image", block),
        Content::Audio(block) => media("audio", block),
        Content::ResourceLink(link) => {
            let title = link.title.as_ref().unwrap_or(&link.name);
            format!("[link {} {}]", line(&link.uri), line(title))
        }
        Content::Resource(block) => embedded(&block.resource, style),
        Content::ToolUse(_) | Content::ToolResult(_) | Content::Other(_) => {
            style.verbatim(&serde_json::to_string(block).unwrap_or_default())
        }
    }
}

fn media(kind: &str, block: &MediaContent) -> String {
    format!("[{kind} {}, {}]", line(&block.mime_type), size(decoded_len(&block.data)))
}

fn embedded(contents: &ResourceContents, style: Style) -> String {
    match &contents.body {
        ResourceBody::Text(text) => style.verbatim(text),
        ResourceBody::Blob(base64) => {
            let kind = contents.mime_type.as_deref().unwrap_or("bytes");
            let (uri, size) = (line(&contents.uri), size(decoded_len(base64)));
            format!("[resource {uri} {}, {size}]", line(kind))
        }
    }
}

fn says(content: &[Content], value: &Value) -> bool {
    let texts = content.iter().filter_map(Content::as_text);
    texts.map(serde_json::from_str::<Value>).any(|text| text.is_ok_and(|text| text == *value))
}

/// Appends a text; what follows starts on a line of its own.
fn push(out: &mut String, text: &str) {
    out.push_str(text);
    if !text.ends_with('\n') {
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use mcplane::types::{PromptMessage, Resource};
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_as_it_is_and_media_one_line() {
        let result = CallToolResult::text("two\nlines")
            .and(Content::image("aGVsbG8=", "image/png"))
            .and(Content::link(Resource::new("file:///a", "A")))
            .and(Content::resource(ResourceContents::blob("file:///b", "aGk=")));
        assert_eq!(
            tool(&result, Style::PLAIN),
            "two\nlines\n[image image/png, 5 B]\n[link file:///a A]\n[resource file:///b bytes, 2 B]\n"
        );
    }

    #[test]
    fn structured_content_is_shown_once() {
        let both = CallToolResult::structured(&json!({"a": 1})).unwrap();
        assert_eq!(tool(&both, Style::PLAIN), "{\"a\":1}\n");
        let only = CallToolResult { content: vec![], ..both };
        assert_eq!(tool(&only, Style::PLAIN), "{\n  \"a\": 1\n}\n");
    }

    #[test]
    fn a_prompt_says_who_speaks() {
        let messages = vec![
            PromptMessage::user(Content::text("hi")),
            PromptMessage::assistant(Content::text("hello")),
        ];
        let shown = prompt(&GetPromptResult::new(messages), Style::PLAIN);
        assert_eq!(shown, "user:\nhi\nassistant:\nhello\n");
    }
}
