//! The tool `remote_agent` as an MCP server, and its HTTP API.
//!
//! [`McpServer`] offers the tool to an MCP host: [`serve_stdio`] over the standard streams of the process, [`http::router`]
//! over HTTP, beside the routes of the HTTP API. The library of the product does not contain this crate.
//!
//! A message arrives in `stdio.rs` or `http.rs`, `message.rs` reads it, and `server.rs` answers it. `call.rs` runs a call of
//! the tool, `elicitation.rs` asks the person at the client, `results.rs` and `files.rs` write the result, and `task_id.rs`
//! the id of a task.
//!
//! A long call becomes an MCP task if the client supports tasks. The id of that task *is* the tool's continuation, so the
//! server stores no tasks, and a task outlives the server.
//!
//! # Examples
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use openclaw_remote_agent_interface::{RNone, load};
//! use mcp_server::{McpServer, Options, Tool, serve_stdio};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let module = load("/opt/remote-agent/lib/libopenclaw_remote_agent.so")?;
//! let config = r#"{"targets": [{"alias": "desk", "baseUrl": "https://desk.example"}]}"#;
//! let tool = Arc::new(module.new_tool()(config.into(), RNone).into_result().map_err(String::from)?);
//! let unconfigured = Arc::clone(&tool);
//! let tool = Tool::new(unconfigured, move || Ok(Arc::clone(&tool)));
//! let server = McpServer::new(tool, Options::default());
//! serve_stdio(server, CancellationToken::new()).await?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod call;
mod caller;
mod elicitation;
mod files;
pub mod http;
mod message;
mod results;
mod server;
mod stdio;
mod task_id;
mod tool;

pub use files::FileStore;
pub use server::{McpServer, Options};
pub use stdio::serve_stdio;
pub use task_id::TaskIdKey;
pub use tool::Tool;
