// A server on mark3labs/mcp-go with a tool that reads, one that writes, and one that tells how often was written.
package main

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	var written atomic.Int64
	files := server.NewMCPServer("mark3labs-go", "1.0.0")
	add(files, "read_file", func() string { return "read" })
	add(files, "write_file", func() string { written.Add(1); return "wrote" })
	add(files, "written", func() string { return fmt.Sprint(written.Load()) })
	if err := server.ServeStdio(files); err != nil {
		log.Fatal(err)
	}
}

func add(files *server.MCPServer, name string, run func() string) {
	files.AddTool(mcp.NewTool(name), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(run()), nil
	})
}
