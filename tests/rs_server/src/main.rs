//! An agent on the official Rust A2A 1.0 server, for tests on loopback.
//!
//! The first word of a message chooses what the agent does (see `agent`). JSON-RPC is served at `/rpc`, HTTP+JSON at
//! `/rest`. Prints `READY <flavour>=<port>` and exits when stdin closes, so a test process that dies leaves nothing
//! behind.

mod agent;
mod watchers;
mod work;

use std::{io::Read, sync::Arc};

use a2a::{AgentCapabilities, AgentCard, AgentInterface, AgentSkill};
use a2a_server::{
    DefaultRequestHandler, HttpPushSender, HttpPushSenderConfig, InMemoryPushConfigStore,
    InMemoryTaskStore, StaticAgentCard, agent_card::agent_card_router, jsonrpc::jsonrpc_router,
    rest::rest_router,
};
use axum::{Router, middleware::from_fn_with_state};
use tokio::net::TcpListener;

use agent::Agent;
use watchers::Watchers;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let watchers = Watchers::default();
    // Callbacks of tests are on loopback, which the sender refuses by default.
    let sender = HttpPushSender::new(Some(HttpPushSenderConfig {
        validate_urls: false,
        ..HttpPushSenderConfig::default()
    }));
    let handler =
        DefaultRequestHandler::new(Agent::new(watchers.clone()), InMemoryTaskStore::new())
            .with_push_notifications(InMemoryPushConfigStore::new(), sender)
            .with_capabilities(capabilities());
    let handler = Arc::new(handler);
    let card = StaticAgentCard::new(card(&format!("http://127.0.0.1:{port}")));
    let app = Router::new()
        .merge(agent_card_router(Arc::new(card)))
        .nest("/rest", rest_router(Arc::clone(&handler)))
        .nest("/rpc", jsonrpc_router(handler))
        .layer(from_fn_with_state(watchers, watchers::observe));
    println!("READY 1.0={port}");
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    axum::serve(listener, app).await.expect("a server");
}

fn capabilities() -> AgentCapabilities {
    AgentCapabilities {
        streaming: Some(true),
        push_notifications: Some(true),
        ..AgentCapabilities::default()
    }
}

fn card(origin: &str) -> AgentCard {
    let modes = ["text/plain", "application/json", "application/octet-stream"].map(str::to_owned);
    AgentCard {
        name: "rs05".to_owned(),
        description: "Does what the first word of a message says.".to_owned(),
        version: "1.0.0".to_owned(),
        supported_interfaces: vec![
            AgentInterface::new(format!("{origin}/rpc"), "JSONRPC"),
            AgentInterface::new(format!("{origin}/rest"), "HTTP+JSON"),
        ],
        capabilities: capabilities(),
        default_input_modes: modes.to_vec(),
        default_output_modes: modes.to_vec(),
        skills: vec![AgentSkill {
            id: "act".to_owned(),
            name: "Act".to_owned(),
            description: "Acts.".to_owned(),
            tags: vec!["test".to_owned()],
            examples: None,
            input_modes: None,
            output_modes: None,
            security_requirements: None,
        }],
        provider: None,
        documentation_url: None,
        icon_url: None,
        security_schemes: None,
        security_requirements: None,
        signatures: None,
    }
}
