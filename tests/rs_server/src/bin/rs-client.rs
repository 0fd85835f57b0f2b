//! The official Rust client of A2A 1.0 under load. Takes commands of `benches/report` as lines of JSON.

use std::{io::BufRead, sync::Arc, time::Instant};

use a2a::{GetTaskRequest, Message, Part, Role, SendMessageRequest};
use a2a_client::{
    A2AClient, A2AClientFactory, agent_card::AgentCardResolver, transport::Transport,
};
use futures::{StreamExt, future::join_all};
use serde_json::{Value, json};

type Client = Arc<A2AClient<Box<dyn Transport>>>;

fn asking(text: &str) -> SendMessageRequest {
    SendMessageRequest {
        message: Message::new(Role::User, vec![Part::text(text)]),
        configuration: None,
        metadata: None,
        tenant: None,
    }
}

async fn send(client: Client) {
    client
        .send_message(&asking("Good morning"))
        .await
        .expect("an answer");
}

async fn status(client: Client) {
    let request = GetTaskRequest {
        id: "t-1".to_owned(),
        history_length: None,
        tenant: None,
    };
    client.get_task(&request).await.expect("a task");
}

async fn calls<F: Future<Output = ()>>(command: &Value, call: impl Fn() -> F) -> Value {
    let width = command["width"].as_u64().expect("a width");
    let seconds = command["seconds"].as_f64().expect("a time");
    let start = Instant::now();
    let workers = (0..width).map(|_| async {
        let mut made = 0;
        while made == 0 || start.elapsed().as_secs_f64() < seconds {
            call().await;
            made += 1;
        }
        made
    });
    let made: u64 = join_all(workers).await.iter().sum();
    json!({"calls": made, "seconds": start.elapsed().as_secs_f64()})
}

async fn stream(client: &Client, text: &str) -> Value {
    let (start, mut seen) = (Instant::now(), 0);
    let mut events = client
        .send_streaming_message(&asking(text))
        .await
        .expect("a stream");
    while let Some(event) = events.next().await {
        event.expect("an event");
        seen += 1;
    }
    json!({"seen": seen, "seconds": start.elapsed().as_secs_f64()})
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let settings = std::env::args().nth(1).expect("settings");
    let settings: Value = serde_json::from_str(&settings).expect("JSON");
    let origin = settings["origin"].as_str().expect("an origin");
    let card = AgentCardResolver::new(None)
        .resolve(origin)
        .await
        .expect("a card");
    let factory = A2AClientFactory::builder().build();
    let client = Arc::new(factory.create_from_card(&card).await.expect("a client"));
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let command: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let result = match command["op"].as_str() {
            Some("send") => calls(&command, || send(client.clone())).await,
            Some("status") => calls(&command, || status(client.clone())).await,
            _ => stream(&client, command["text"].as_str().expect("a text")).await,
        };
        println!("{result}");
    }
}
