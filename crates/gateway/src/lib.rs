//! The gateway: many MCP clients, any revision, over a warm pool of any MCP servers.
//!
//! # Layout, in reading order
//!
//! * [`config`] — what to serve: the model, reading it, importing it, watching it.
//! * [`catalog`] — what the upstreams offer, merged; which server answers to which name.

pub mod catalog;
pub mod config;
