//! A Rust host: opens the library, makes the tool for one target, and sends it a message.
//!
//! `cargo run --example rust_host -- target/debug/deps/libopenclaw_remote_agent.so https://support.example "Hello"`
#![allow(clippy::print_stdout)]

use std::{env, error::Error};

use openclaw_remote_agent_interface::{RNone, load};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let [library, url, text] = [1, 2, 3].map(|nth| env::args().nth(nth).unwrap_or_default());
    let config = json!({ "targets": [{ "alias": "support", "baseUrl": url }] }).to_string();
    let tool = load(&library)?.new_tool()(config.as_str().into(), RNone);
    let tool = tool.into_result().map_err(String::from)?;

    let parts = json!([{ "kind": "text", "text": text }]);
    let request = json!({ "action": "send", "target_alias": "support", "parts": parts });
    let call = tool.execute(request.to_string().into(), RNone, RNone);
    println!("{}", call.future.await);
    Ok(())
}
