//! The tool `remote_agent` as an MCP server, and its HTTP API.
//!
//! [`McpServer`] offers the tool to an MCP host: [`serve_stdio`] over the standard streams of the process, [`http::router`]
//! over HTTP, beside the routes of the HTTP API. The library of the product does not contain this crate.
//!
//! A long call is an MCP task where the client supports tasks. The id of that task *is* the tool's continuation, so the
//! server stores no tasks, and a task outlives the server.

#![forbid(unsafe_code)]

mod call;
mod caller;
mod elicitation;
pub mod http;
mod results;
mod server;
mod slots;
mod stdio;
mod task_id;
mod tool;

pub use server::{McpServer, Options};
pub use stdio::serve_stdio;
pub use task_id::TaskIdKey;
pub use tool::Tool;
