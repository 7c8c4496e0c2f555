package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	modernRevision = "2026-07-28"
	legacyRevision = "2025-11-25"
	// One awaited notification.
	eventMax = 5 * time.Second
	// Long enough for a wrongly sent notification to arrive.
	silence = 150 * time.Millisecond
	// Lets the notifications that came with a response be dispatched.
	settle = 30 * time.Millisecond
)

var rootURIs = []string{"file:///projects/one", "file:///projects/two"}

type options struct {
	era, forget string
	command     []string
}

// The connected client, what it answers when asked, and what the server asked and announced.
type peer struct {
	options
	session *mcp.ClientSession

	mutex   sync.Mutex
	decline bool
	content map[string]any // the answer to an elicitation; nil: the schema's own kind of value for each property
	asked   []value
	seen    []event
}

type event struct {
	kind   string
	params value
}

// What came over the wire, as JSON knows it.
type value = map[string]any

func (p *peer) connect() error {
	if p.session != nil {
		_ = p.session.Close() // of a server that forgot it
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "drive-go", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, request *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return p.elicit(toJSON(request.Params)), nil
		},
		CreateMessageHandler: func(_ context.Context, request *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			p.mutex.Lock()
			defer p.mutex.Unlock()
			p.asked = append(p.asked, toJSON(request.Params))
			said := &mcp.TextContent{Text: "forty-two"}
			return &mcp.CreateMessageResult{Role: "assistant", Model: "driver", Content: said, StopReason: "endTurn"}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, request *mcp.ProgressNotificationClientRequest) {
			p.note("progress", request.Params)
		},
		LoggingMessageHandler: func(_ context.Context, request *mcp.LoggingMessageRequest) {
			p.note("message", request.Params)
		},
		ResourceUpdatedHandler: func(_ context.Context, request *mcp.ResourceUpdatedNotificationRequest) {
			p.note("updated", request.Params)
		},
		ToolListChangedHandler: func(_ context.Context, request *mcp.ToolListChangedRequest) {
			p.note("tools_changed", request.Params)
		},
	})
	for _, uri := range rootURIs {
		client.AddRoots(&mcp.Root{URI: uri})
	}
	var options *mcp.ClientSessionOptions
	switch p.era {
	case "auto":
	case "legacy":
		options = &mcp.ClientSessionOptions{ProtocolVersion: legacyRevision}
	default:
		options = &mcp.ClientSessionOptions{ProtocolVersion: p.era}
	}
	// The stream of HTTP+SSE ends with the context that it was opened in.
	session, err := client.Connect(context.Background(), p.transport(), options)
	p.session = session
	return err
}

func (p *peer) speaks() string {
	switch url := p.command[0]; {
	case !strings.HasPrefix(url, "http"):
		return "stdio"
	case strings.HasSuffix(url, "/sse"):
		return "sse"
	default:
		return "http"
	}
}

func (p *peer) transport() mcp.Transport {
	switch p.speaks() {
	case "http":
		return &mcp.StreamableClientTransport{Endpoint: p.command[0]}
	case "sse":
		return &mcp.SSEClientTransport{Endpoint: p.command[0]}
	default:
		return &mcp.CommandTransport{Command: exec.Command(p.command[0], p.command[1:]...)}
	}
}

func (p *peer) revision() string { return p.session.InitializeResult().ProtocolVersion }
func (p *peer) modern() bool     { return p.revision() == modernRevision }

func (p *peer) forgetSessions() {
	response := must1(http.Post(p.forget, "", nil))
	response.Body.Close()
	ensure(response.StatusCode < 300, "nothing was forgotten: %v", response.Status)
}

func (p *peer) elicit(asked value) *mcp.ElicitResult {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.asked = append(p.asked, asked)
	if p.decline {
		return &mcp.ElicitResult{Action: "decline"}
	}
	content := p.content
	if content == nil {
		content = fill(object(asked["requestedSchema"]))
	}
	return &mcp.ElicitResult{Action: "accept", Content: content}
}

// Runs a call during which the server asks, and returns what it asked.
func (p *peer) asking(decline bool, content map[string]any, call func()) []value {
	p.mutex.Lock()
	p.decline, p.content, p.asked = decline, content, nil
	p.mutex.Unlock()
	call()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.asked
}

func (p *peer) note(kind string, params any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.seen = append(p.seen, event{kind, toJSON(params)})
}

func (p *peer) mark() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.seen)
}

func (p *peer) since(from int, kind string) []value {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	found := []value{}
	for _, event := range p.seen[from:] {
		if event.kind == kind {
			found = append(found, event.params)
		}
	}
	return found
}

func (p *peer) until(from int, kind string) value {
	for end := time.Now().Add(eventMax); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if found := p.since(from, kind); len(found) > 0 {
			return found[0]
		}
	}
	panic(fmt.Sprintf("no %s within %v", kind, eventMax))
}

func (p *peer) call(ctx context.Context, tool string, args value) value {
	return toJSON(must1(p.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})))
}

// The one text block of a call that must succeed.
func (p *peer) text(ctx context.Context, tool string, args value) string {
	return textOf(p.call(ctx, tool, args))
}

func textOf(result value) string {
	ensure(result["isError"] != true, "isError: %v", result)
	content := list(result["content"])
	ensure(len(content) == 1 && content[0]["type"] == "text", "not one text: %v", result)
	return content[0]["text"].(string)
}

// The `data` of the error that a call must end in.
func rejects(err error, code int64) value {
	var told *jsonrpc.Error
	ensure(errors.As(err, &told), "%v instead of %d", err, code)
	ensure(told.Code == code, "%v instead of %d", told, code)
	var data value
	_ = json.Unmarshal(told.Data, &data) // an error without data has none
	return data
}

// The schema's own kind of value for each property.
func fill(schema value) map[string]any {
	filled := map[string]any{}
	plain := value{"string": "ada", "integer": 7, "number": 1.5, "boolean": true, "array": []string{}}
	for name, property := range object(schema["properties"]) {
		property := object(property)
		if choices, is := property["enum"].([]any); is {
			filled[name] = choices[0]
		} else if choices := list(property["oneOf"]); len(choices) > 0 {
			filled[name] = choices[0]["const"]
		} else {
			filled[name] = plain[property["type"].(string)]
		}
	}
	return filled
}

func object(of any) value {
	found, _ := of.(value)
	return found
}

func list(of any) []value {
	items, _ := of.([]any)
	found := make([]value, len(items))
	for i, item := range items {
		found[i] = object(item)
	}
	return found
}

func toJSON(of any) value {
	var found value
	must(json.Unmarshal(must1(json.Marshal(of)), &found))
	return found
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func must1[T any](of T, err error) T {
	must(err)
	return of
}

func ensure(holds bool, why string, of ...any) {
	if !holds {
		panic(fmt.Sprintf(why, of...))
	}
}
