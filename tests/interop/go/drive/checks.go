package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	watched = "test://watched-resource"
	png     = "iVBORw0KGgo" // the PNG signature in base64
	wav     = "UklGR"       // "RIFF" in base64
	tools   = `echo add sleep fail big progress touch_watched list_roots test_simple_text test_image_content test_audio_content
		test_embedded_resource test_multiple_content_types test_tool_with_logging test_tool_with_progress test_error_handling
		test_sampling test_elicitation test_elicitation_sep1034_defaults test_elicitation_sep1330_enums json_schema_2020_12_tool
		test_trigger_tool_change`
)

func identity(_ context.Context, p *peer) {
	result := p.session.InitializeResult()
	ensure(result.ServerInfo != nil && result.ServerInfo.Name != "" && result.ServerInfo.Version != "", "%+v", result.ServerInfo)
	offered := toJSON(result.Capabilities)
	for _, capability := range []string{"tools", "resources", "prompts", "logging"} {
		ensure(offered[capability] != nil, "no %s in %v", capability, offered)
	}
	equal(object(offered["resources"])["subscribe"], true)
	equal(object(offered["tools"])["listChanged"], true)
	wanted := map[string]string{"auto": modernRevision, "legacy": legacyRevision}[p.era]
	if wanted == "" {
		wanted = p.era
	}
	equal(result.ProtocolVersion, wanted)
}

func tools_list(ctx context.Context, p *peer) {
	all := every(p.session.Tools(ctx, nil))
	includes(named(all, "name"), strings.Fields(tools))
	for _, tool := range all {
		ensure(tool["description"] != nil && tool["description"] != "", "no description: %v", tool)
		equal(object(tool["inputSchema"])["type"], "object")
	}
	schema := object(named(all, "name")["echo"]["inputSchema"])
	equal(object(object(schema["properties"])["message"])["type"], "string")
	equal(schema["required"], []any{"message"})
}

func schema_is_listed_verbatim(ctx context.Context, p *peer) {
	schema := object(named(every(p.session.Tools(ctx, nil)), "name")["json_schema_2020_12_tool"]["inputSchema"])
	equal(schema["$schema"], "https://json-schema.org/draft/2020-12/schema")
	equal(object(object(schema["$defs"])["address"])["$anchor"], "addressDef")
	equal(object(object(schema["properties"])["address"])["$ref"], "#/$defs/address")
	ensure(slices.ContainsFunc(list(list(schema["allOf"])[0]["anyOf"]), func(branch value) bool {
		return reflect.DeepEqual(branch["required"], []any{"phone"})
	}), "%v", schema["allOf"])
	for _, keyword := range []string{"if", "then", "else"} {
		ensure(schema[keyword] != nil, "no %s in %v", keyword, schema)
	}
	equal(schema["additionalProperties"], false)
}

func echo(ctx context.Context, p *peer) {
	for _, message := range []string{"hello", "", "ünïcødé 日本 🦀 \x00\u2028", "one\ntwo\r\n\ttab \"quoted\" \\", " spaces "} {
		equal(p.text(ctx, "echo", value{"message": message}), message)
	}
}

func add(ctx context.Context, p *peer) {
	equal(p.text(ctx, "add", value{"a": 2, "b": 40}), "42")
	equal(p.text(ctx, "add", value{"a": -7, "b": 3}), "-4")
}

func tool_error(ctx context.Context, p *peer) {
	equal(p.call(ctx, "fail", value{})["isError"], true)
	result := p.call(ctx, "test_error_handling", value{})
	equal(result["isError"], true)
	equal(list(result["content"])[0]["text"], "This tool intentionally returns an error for testing")
}

func wrong_arguments(ctx context.Context, p *peer) {
	for _, wrong := range []struct {
		tool  string
		args  value
		named string
	}{{"echo", value{}, "message"}, {"echo", value{"message": 5}, "message"}, {"add", value{"a": 1}, "b"}, {"add", value{"a": "x", "b": 1}, "a"}} {
		if p.revision() < "2025-11-25" {
			_, err := p.session.CallTool(ctx, &mcp.CallToolParams{Name: wrong.tool, Arguments: wrong.args})
			rejects(err, -32602)
			continue
		}
		result := p.call(ctx, wrong.tool, wrong.args)
		ensure(result["isError"] == true, "%s %v was accepted", wrong.tool, wrong.args)
		told := fmt.Sprint(list(result["content"])[0]["text"])
		ensure(regexp.MustCompile(`\b`+wrong.named+`\b`).MatchString(told), "no %s in %s", wrong.named, told)
	}
}

func unknown_tool(ctx context.Context, p *peer) {
	_, err := p.session.CallTool(ctx, &mcp.CallToolParams{Name: "no_such_tool"})
	rejects(err, -32602)
}

func big(ctx context.Context, p *peer) {
	// The SDK reads events up to 1 MiB; what is around the text must fit too.
	size := 1 << 20
	if p.speaks() == "sse" {
		size -= 1 << 10
	}
	equal(len(p.text(ctx, "big", value{"bytes": size})), size)
}

func content_kinds(ctx context.Context, p *peer) {
	equal(p.text(ctx, "test_simple_text", value{}), "This is a simple text response for testing.")
	media(list(p.call(ctx, "test_image_content", value{})["content"])[0], "image", "image/png", png)
	if p.revision() > "2024-11-05" {
		media(list(p.call(ctx, "test_audio_content", value{})["content"])[0], "audio", "audio/wav", wav)
	}
	embedded := list(p.call(ctx, "test_embedded_resource", value{})["content"])[0]
	equal(embedded["type"], "resource")
	equal(embedded["resource"], value{
		"uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource content.",
	})
	mixed := list(p.call(ctx, "test_multiple_content_types", value{})["content"])
	equal(mixed[0]["text"], "Multiple content types test:")
	media(mixed[1], "image", "image/png", png)
	resource := object(mixed[2]["resource"])
	equal(resource["uri"], "test://mixed-content-resource")
	equal(resource["mimeType"], "application/json")
	equal(parsed(resource["text"]), value{"test": "data", "value": 123.0})
}

func progress(ctx context.Context, p *peer) {
	for _, wanted := range []struct {
		tool   string
		args   value
		values []any
		count  int
	}{{"progress", value{"steps": 5}, nil, 5}, {"test_tool_with_progress", value{}, []any{0.0, 50.0, 100.0}, 3}} {
		from := p.mark()
		params := &mcp.CallToolParams{Name: wanted.tool, Arguments: wanted.args}
		params.SetProgressToken("token " + wanted.tool)
		must1(p.session.CallTool(ctx, params))
		for end := time.Now().Add(eventMax); len(p.since(from, "progress")) < wanted.count && time.Now().Before(end); {
			time.Sleep(settle) // the SDK hands them over behind the caller's back
		}
		values, last := []any{}, -1.0
		for _, params := range p.since(from, "progress") {
			value := params["progress"].(float64)
			ensure(value > last, "%s does not increase: %v after %v", wanted.tool, value, last)
			equal(params["progressToken"], "token "+wanted.tool)
			last, values = value, append(values, value)
		}
		equal(len(values), wanted.count)
		if wanted.values != nil {
			equal(values, wanted.values)
		}
	}
	from := p.mark()
	p.text(ctx, "progress", value{"steps": 2})
	time.Sleep(settle)
	equal(len(p.since(from, "progress")), 0)
}

func cancel(ctx context.Context, p *peer) {
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	_, err := p.session.CallTool(short, &mcp.CallToolParams{Name: "sleep", Arguments: value{"ms": 30_000}})
	ensure(errors.Is(err, context.DeadlineExceeded), "sleep returned early: %v", err)
	equal(p.text(ctx, "echo", value{"message": "still here"}), "still here")
}

func concurrent_calls(ctx context.Context, p *peer) {
	calls := []func(){}
	for i := range 32 {
		message := fmt.Sprintf("message %d", i)
		calls = append(calls, func() { equal(p.text(ctx, "echo", value{"message": message}), message) })
	}
	atOnce(calls)
}

func resources_list(ctx context.Context, p *peer) {
	resources := every(p.session.Resources(ctx, nil))
	includes(named(resources, "uri"), []string{"test://static-text", "test://static-binary", watched})
	for _, resource := range resources {
		ensure(resource["name"] != "" && resource["description"] != nil, "%v", resource)
	}
	templates := every(p.session.ResourceTemplates(ctx, nil))
	includes(named(templates, "uriTemplate"), []string{"test://template/{id}/data"})
}

func resources_read(ctx context.Context, p *peer) {
	read := func(uri string) value {
		contents := list(toJSON(must1(p.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})))["contents"])
		equal(len(contents), 1)
		equal(contents[0]["uri"], uri)
		return contents[0]
	}
	equal(read("test://static-text")["text"], "This is the content of the static text resource.")
	binary := read("test://static-binary")
	equal(binary["mimeType"], "image/png")
	ensure(strings.HasPrefix(binary["blob"].(string), png), "%v", binary)
	equal(parsed(read("test://template/123/data")["text"]), value{"id": "123", "templateTest": true, "data": "Data for ID: 123"})
}

func unknown_resource(ctx context.Context, p *peer) {
	code := int64(-32002)
	if p.modern() {
		code = -32602
	}
	_, err := p.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://no-such-resource"})
	equal(rejects(err, code)["uri"], "test://no-such-resource")
}

func resource_updated(ctx context.Context, p *peer) {
	must(p.session.Subscribe(ctx, &mcp.SubscribeParams{URI: watched}))
	from := p.mark()
	p.text(ctx, "touch_watched", value{})
	equal(p.until(from, "updated")["uri"], watched)
	must(p.session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: watched}))
	if p.modern() {
		time.Sleep(settle) // the SDK ends the subscription behind the caller's back
	}
	from = p.mark()
	p.text(ctx, "touch_watched", value{})
	time.Sleep(silence)
	equal(len(p.since(from, "updated")), 0)
}

func tools_changed(ctx context.Context, p *peer) {
	count := func() int { return len(every(p.session.Tools(ctx, nil))) }
	before, from := count(), p.mark()
	p.text(ctx, "test_trigger_tool_change", value{})
	p.until(from, "tools_changed")
	ensure(count() != before, "the list is the same")
}

func prompts(ctx context.Context, p *peer) {
	all := every(p.session.Prompts(ctx, nil))
	found := named(all, "name")
	includes(found, strings.Fields(
		"test_simple_prompt test_prompt_with_arguments test_prompt_with_embedded_resource test_prompt_with_image"))
	for _, prompt := range all {
		ensure(prompt["description"] != nil && prompt["description"] != "", "no description: %v", prompt)
	}
	arguments := list(found["test_prompt_with_arguments"]["arguments"])
	equal([]any{arguments[0]["name"], arguments[1]["name"]}, []any{"arg1", "arg2"})

	messages := func(name string, args map[string]string) []value {
		result := must1(p.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: name, Arguments: args}))
		return list(toJSON(result)["messages"])
	}
	content := func(name, kind string, args map[string]string) value {
		for _, message := range messages(name, args) {
			if content := object(message["content"]); content["type"] == kind {
				return content
			}
		}
		panic("no " + kind + " in " + name)
	}
	equal(messages("test_simple_prompt", nil)[0]["role"], "user")
	ensure(content("test_simple_prompt", "text", nil)["text"] != "", "test_simple_prompt says nothing")
	filled := content("test_prompt_with_arguments", "text", map[string]string{"arg1": "hello", "arg2": "wörld"})
	equal(filled["text"], "Prompt with arguments: arg1='hello', arg2='wörld'")
	uri := "test://example-resource"
	embedded := content("test_prompt_with_embedded_resource", "resource", map[string]string{"resourceUri": uri})
	equal(object(embedded["resource"])["uri"], uri)
	media(content("test_prompt_with_image", "image", nil), "image", "image/png", png)
}

func unknown_prompt(ctx context.Context, p *peer) {
	_, err := p.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "no_such_prompt"})
	rejects(err, -32602)
}

func completion(ctx context.Context, p *peer) {
	result := must1(p.session.Complete(ctx, &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "test_prompt_with_arguments"},
		Argument: mcp.CompleteParamsArgument{Name: "arg1", Value: "te"},
	}))
	equal(result.Completion.Values, []string{"test", "testing", "text"})
}

func elicitation_accepted(ctx context.Context, p *peer) {
	var told string
	asked := p.asking(false, nil, func() { told = p.text(ctx, "test_elicitation", value{"message": "Who are you?"}) })
	equal(len(asked), 1)
	equal(asked[0]["message"], "Who are you?")
	content, is := strings.CutPrefix(told, "User response: action=accept, content=")
	ensure(is, "%s", told)
	equal(parsed(content), fill(object(asked[0]["requestedSchema"])))
}

func elicitation_declined(ctx context.Context, p *peer) {
	var told string
	asked := p.asking(true, nil, func() { told = p.text(ctx, "test_elicitation", value{"message": "Who are you?"}) })
	equal(len(asked), 1)
	ensure(strings.HasPrefix(told, "User response: action=decline"), "%s", told)
}

func elicitation_defaults(ctx context.Context, p *peer) {
	asked := p.asking(false, nil, func() { p.text(ctx, "test_elicitation_sep1034_defaults", value{}) })
	properties := object(object(asked[0]["requestedSchema"])["properties"])
	told := value{}
	for name, property := range properties {
		told[name] = object(property)["default"]
	}
	equal(told, value{"name": "John Doe", "age": 30.0, "score": 95.5, "status": "active", "verified": true})
	equal(object(properties["status"])["enum"], []any{"active", "inactive", "pending"})
}

func elicitation_enums(ctx context.Context, p *peer) {
	asked := p.asking(false, nil, func() { p.text(ctx, "test_elicitation_sep1330_enums", value{}) })
	property := func(name string) value {
		return object(object(object(asked[0]["requestedSchema"])["properties"])[name])
	}
	constants := func(choices any) []any {
		found := []any{}
		for _, choice := range list(choices) {
			found = append(found, choice["const"])
		}
		return found
	}
	options, values := []any{"option1", "option2", "option3"}, []any{"value1", "value2", "value3"}
	equal(property("untitledSingle")["enum"], options)
	equal(constants(property("titledSingle")["oneOf"]), values)
	equal(len(property("legacyEnum")["enumNames"].([]any)), 3)
	equal(object(property("untitledMulti")["items"])["enum"], options)
	equal(constants(object(property("titledMulti")["items"])["anyOf"]), values)
}

func sampling(ctx context.Context, p *peer) {
	asked := p.asking(false, nil, func() {
		equal(p.text(ctx, "test_sampling", value{"prompt": "The answer?"}), "LLM response: forty-two")
	})
	message := list(asked[0]["messages"])[0]
	equal(message["role"], "user")
	equal(object(message["content"])["text"], "The answer?")
	equal(asked[0]["maxTokens"], 100.0)
}

func roots(ctx context.Context, p *peer) {
	told := strings.Fields(p.text(ctx, "list_roots", value{}))
	slices.Sort(told) // the SDK keeps them in a map
	equal(told, rootURIs)
}

func logging(ctx context.Context, p *peer) {
	told := func(level mcp.LoggingLevel) []value {
		params := &mcp.CallToolParams{Name: "test_tool_with_logging"}
		if p.modern() && level != "" {
			params.Meta = mcp.Meta{"io.modelcontextprotocol/logLevel": level}
		} else if level != "" {
			must(p.session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: level}))
		}
		from := p.mark()
		must1(p.session.CallTool(ctx, params))
		time.Sleep(settle)
		return p.since(from, "message")
	}
	messages := told("info")
	data := map[string]value{}
	for _, message := range messages {
		equal(message["level"], "info")
		data[fmt.Sprint(message["data"])] = message
	}
	includes(data, []string{"Tool execution started", "Tool processing data", "Tool execution completed"})
	equal(len(told("error")), 0)
	if p.modern() {
		equal(len(told("")), 0)
	}
}

func ping(ctx context.Context, p *peer) { must(p.session.Ping(ctx, nil)) }

func input_required(ctx context.Context, p *peer) {
	p.asking(false, map[string]any{"name": "Ada"}, func() {
		equal(p.text(ctx, "test_input_required_result_elicitation", value{}), "Hello, Ada!")
	})
	p.asking(false, nil, func() {
		told := p.text(ctx, "test_input_required_result_request_state", value{})
		ensure(strings.Contains(told, "state-ok"), "%s", told)
	})
}

func input_required_many(ctx context.Context, p *peer) {
	for _, tool := range []string{"test_input_required_result_multi_round", "test_input_required_result_multiple_inputs"} {
		asked := p.asking(false, nil, func() { ensure(p.call(ctx, tool, value{})["isError"] != true, "%s failed", tool) })
		ensure(len(asked) >= 2, "%s asked %d times", tool, len(asked))
	}
}

// Legacy: the stream of the answer ends in the middle of the call, and the SDK must come back for the rest.
func resumed(ctx context.Context, p *peer) {
	again := func() { equal(p.text(ctx, "test_reconnection", value{}), "Reconnection test completed successfully") }
	again()
	atOnce([]func(){again, again, again})
}

func many_kinds_at_once(ctx context.Context, p *peer) {
	calls := []func(){}
	for i := range 6 {
		for tool, args := range map[string]value{
			"echo": {"message": "x"}, "sleep": {"ms": 20 * i}, "progress": {"steps": 3}, "big": {"bytes": 100_000},
			"test_sampling": {"prompt": "x"}, "list_roots": {},
		} {
			calls = append(calls, func() { p.text(ctx, tool, args) })
		}
		if p.revision() >= "2025-06-18" {
			calls = append(calls, func() { p.text(ctx, "test_elicitation", value{"message": "x"}) })
		}
	}
	p.asking(false, nil, func() { atOnce(calls) })
}

// An argument that travels in a header too; what a header cannot hold is encoded.
func mirrored_argument(ctx context.Context, p *peer) {
	every(p.session.Tools(ctx, nil))
	for _, region := range []string{"eu-west-1", "Zürich", " padded ", "=?base64?eA==?="} {
		equal(p.text(ctx, "test_x_mcp_header", value{"region": region}), "Region: "+region)
	}
	equal(p.text(ctx, "test_x_mcp_header", value{}), "Region: none")
}

// The SDK tells its user, who connects anew.
func forgotten_session(ctx context.Context, p *peer) {
	before := p.session.ID()
	ensure(before != "", "no session")
	p.forgetSessions()
	_, err := p.session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: value{"message": "lost"}})
	// Where an answer of the client is refused first, the SDK has it in the text alone.
	isMissing := errors.Is(err, mcp.ErrSessionMissing) || strings.Contains(fmt.Sprint(err), mcp.ErrSessionMissing.Error())
	ensure(isMissing, "%v instead of %v", err, mcp.ErrSessionMissing)
	must(p.connect())
	equal(p.text(ctx, "echo", value{"message": "found"}), "found")
	ensure(p.session.ID() != "" && p.session.ID() != before, "the session is not a new one")
}

func atOnce(calls []func()) {
	var group sync.WaitGroup
	failures := make(chan any, len(calls))
	for _, call := range calls {
		group.Go(func() {
			defer func() {
				if failure := recover(); failure != nil {
					failures <- failure
				}
			}()
			call()
		})
	}
	group.Wait()
	if len(failures) > 0 {
		panic(<-failures)
	}
}

// All items of a paginated list.
func every[T any](items iter.Seq2[*T, error]) []value {
	found := []value{}
	for item, err := range items {
		must(err)
		found = append(found, toJSON(item))
	}
	return found
}

// Items by name, none of which may repeat.
func named(items []value, key string) map[string]value {
	found := map[string]value{}
	for _, item := range items {
		name := item[key].(string)
		ensure(found[name] == nil, "%s is repeated", name)
		found[name] = item
	}
	return found
}

func includes(actual map[string]value, wanted []string) {
	for _, name := range wanted {
		ensure(actual[name] != nil, "missing %s in %v", name, actual)
	}
}

func media(block value, kind, mimeType, start string) {
	equal(block["type"], kind)
	equal(block["mimeType"], mimeType)
	ensure(strings.HasPrefix(block["data"].(string), start), "%v", block)
}

func parsed(text any) value {
	var found value
	must(json.Unmarshal([]byte(text.(string)), &found))
	return found
}

func equal(actual, wanted any) {
	ensure(reflect.DeepEqual(actual, wanted), "%#v instead of %#v", actual, wanted)
}
