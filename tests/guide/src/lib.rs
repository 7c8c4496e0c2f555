//! The examples of the documents. The documentation tests of a crate see what it depends on, so here
//! they see what a reader who follows the documents has, and not what `mcplane` is made of.
//! `tests/dependencies.rs` holds what each document names against what it uses.

#![cfg(doctest)]
#![allow(missing_docs, reason = "the documents are the documentation")]

#[doc = include_str!("../../../docs/guide/client.md")]
pub struct Client;

#[doc = include_str!("../../../docs/guide/network.md")]
pub struct Network;

#[doc = include_str!("../../../README.md")]
pub struct Readme;

#[doc = include_str!("../../../docs/guide/server.md")]
pub struct Server;

#[doc = include_str!("../../../docs/guide/testing.md")]
pub struct Testing;
