// A server of 2025-11-25 on nothing but encoding/json, as a person writes one in an afternoon. Its tools are those of `mark3labs`.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
	} `json:"params"`
}

var tools = []string{"read_file", "write_file", "written"}

func main() {
	written := 0
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil || asked.ID == nil {
			continue
		}
		switch asked.Method {
		case "initialize":
			answer(asked.ID, map[string]any{
				"protocolVersion": "2025-11-25",
				"capabilities":    map[string]any{"tools": map[string]any{}},
				"serverInfo":      map[string]any{"name": "plain-go", "version": "1.0.0"},
			})
		case "ping":
			answer(asked.ID, map[string]any{})
		case "tools/list":
			var list []any
			for _, name := range tools {
				list = append(list, map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}})
			}
			answer(asked.ID, map[string]any{"tools": list})
		case "tools/call":
			said := "read"
			switch asked.Params.Name {
			case "write_file":
				written++
				said = "wrote"
			case "written":
				said = fmt.Sprint(written)
			}
			answer(asked.ID, map[string]any{"content": []any{map[string]any{"type": "text", "text": said}}})
		default:
			say(map[string]any{"jsonrpc": "2.0", "id": asked.ID, "error": map[string]any{"code": -32601, "message": "unknown method"}})
		}
	}
}

func answer(id json.RawMessage, result any) {
	say(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
}

func say(message any) {
	line, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}
