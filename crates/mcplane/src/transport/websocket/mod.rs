//! WebSocket: one message per text frame, subprotocol `mcp`.
