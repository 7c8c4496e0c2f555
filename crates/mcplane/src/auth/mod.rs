//! Authorization: the client's side of OAuth 2.1 as MCP profiles it.
