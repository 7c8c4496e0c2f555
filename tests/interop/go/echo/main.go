// A server on the Go SDK: `echo`, over stdio, or `echo http|stateless|sse PORT`. It speaks both eras, the newer one not over HTTP with sessions.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type (
	nothing struct{}
	message struct {
		Message string `json:"message"`
	}
	numbers struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	count struct {
		Count int `json:"count"`
	}
	duration struct {
		MS int `json:"ms"`
	}
)

var cancelled atomic.Int64

const note = "memo://note"

func main() {
	var kind, port string
	if len(os.Args) == 3 {
		kind, port = os.Args[1], os.Args[2]
	}
	server := newServer(kind != "")
	same := func(*http.Request) *mcp.Server { return server }
	switch kind {
	case "http", "stateless":
		options := &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}
		if kind == "stateless" {
			options = &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}
		}
		log.Fatal(http.ListenAndServe("127.0.0.1:"+port, mcp.NewStreamableHTTPHandler(same, options)))
	case "sse":
		log.Fatal(http.ListenAndServe("127.0.0.1:"+port, mcp.NewSSEHandler(same, nil)))
	default:
		if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			log.Fatal(err)
		}
	}
}

func newServer(features bool) *mcp.Server {
	var options mcp.ServerOptions
	if features {
		// With these the server keeps count of who wants to know.
		options.SubscribeHandler = func(context.Context, *mcp.SubscribeRequest) error { return nil }
		options.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "echo-go", Version: "1.0.0"}, &options)
	add(server, "echo", func(_ context.Context, _ *mcp.CallToolRequest, in message) string { return in.Message })
	add(server, "add", func(_ context.Context, _ *mcp.CallToolRequest, in numbers) string { return strconv.Itoa(in.A + in.B) })
	if !features {
		return server
	}
	add(server, "steps", func(ctx context.Context, request *mcp.CallToolRequest, in count) string {
		for step := range in.Count {
			params := &mcp.ProgressNotificationParams{ProgressToken: request.Params.GetProgressToken(), Progress: float64(step + 1)}
			if err := request.Session.NotifyProgress(ctx, params); err != nil {
				return err.Error()
			}
		}
		return "done"
	})
	add(server, "sleep", func(ctx context.Context, _ *mcp.CallToolRequest, in duration) string {
		select {
		case <-ctx.Done():
			cancelled.Add(1)
		case <-time.After(time.Duration(in.MS) * time.Millisecond):
		}
		return "slept"
	})
	add(server, "cancelled", func(context.Context, *mcp.CallToolRequest, nothing) string { return fmt.Sprint(cancelled.Load()) })
	// The SDK asks as the client's era wants: with a request of its own, or with the call's result.
	mcp.AddTool(server, &mcp.Tool{Name: "ask"}, func(_ context.Context, request *mcp.CallToolRequest, _ nothing) (*mcp.CallToolResult, any, error) {
		if answer, ok := request.Params.InputResponses["who"].(*mcp.ElicitResult); ok {
			return text(fmt.Sprint(answer.Action, " ", answer.Content["name"])), nil, nil
		}
		schema := map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}}
		who := &mcp.ElicitParams{Message: "Who are you?", RequestedSchema: schema}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"who": who}}, nil, nil
	})
	add(server, "change", func(context.Context, *mcp.CallToolRequest, nothing) string {
		add(server, "extra", func(context.Context, *mcp.CallToolRequest, nothing) string { return "extra" })
		return "changed"
	})
	server.AddResource(&mcp.Resource{URI: note, Name: "note"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: note, Text: "A note."}}}, nil
	})
	add(server, "touch", func(ctx context.Context, _ *mcp.CallToolRequest, _ nothing) string {
		if err := server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: note}); err != nil {
			return err.Error()
		}
		return "touched"
	})
	add(server, "leave", func(_ context.Context, request *mcp.CallToolRequest, _ nothing) string {
		if leave := request.Extra.CloseSSEStream; leave != nil {
			leave(mcp.CloseSSEStreamArgs{RetryAfter: 50 * time.Millisecond})
		}
		time.Sleep(100 * time.Millisecond)
		return "came back"
	})
	return server
}

func add[In any](server *mcp.Server, name string, run func(context.Context, *mcp.CallToolRequest, In) string) {
	tool := &mcp.Tool{Name: name, Description: "The tool " + name + "."}
	mcp.AddTool(server, tool, func(ctx context.Context, request *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		return text(run(ctx, request, in)), nil, nil
	})
}

func text(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}
