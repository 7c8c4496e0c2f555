"""An echo server on the Python SDK 2.x over stdio. `run` speaks both eras: the client's opening decides."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("echo-python")


@server.tool(structured_output=False)
def echo(message: str) -> str:
    """Says the message back."""
    return message


@server.tool(structured_output=False)
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


if __name__ == "__main__":
    server.run()
