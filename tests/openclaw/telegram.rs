//! A Telegram that answers OpenClaw's own channel: the Bot API on loopback, with one person who writes to the bot.

use std::{
    collections::VecDeque,
    net::{SocketAddr, TcpStream},
    sync::{Arc, Condvar, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::{
    http::{self, Request},
    journal::Journal,
};

/// The person who writes, whose private chat with the bot has the same id.
pub const PERSON: i64 = 42;

/// How long a request for updates waits for one.
const POLL_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Telegram {
    address: SocketAddr,
    /// The messages of the bot, as sent, each with its `message_id`.
    pub sent: Journal<Value>,
    chat: Arc<Chat>,
}

#[derive(Default)]
struct Chat {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    messages: i64,
    updates: VecDeque<Value>,
}

impl Telegram {
    pub fn start() -> Self {
        let (sent, chat) = (Journal::new(), Arc::<Chat>::default());
        let (journal, served) = (sent.clone(), Arc::clone(&chat));
        let address = http::serve(move |request, stream| {
            respond(request, stream, &served, &journal);
        });
        Self {
            address,
            sent,
            chat,
        }
    }

    /// Returns the settings of OpenClaw's channel.
    pub fn config(&self) -> Value {
        json!({
            "enabled": true, "botToken": "1000:token", "apiRoot": format!("http://{}", self.address),
            "dmPolicy": "allowlist", "allowFrom": [PERSON.to_string()], "streaming": {"mode": "off"},
            "network": {"dangerouslyAllowPrivateNetwork": true},
        })
    }

    /// The person writes a message, or replies to one of the bot.
    pub fn write(&self, text: &str, reply_to: Option<&Value>) {
        let mut state = self.chat.state.lock().unwrap();
        state.messages += 1;
        let id = state.messages;
        let mut message = message(id, text);
        message["from"] = json!({"id": PERSON, "is_bot": false, "first_name": "Ada"});
        if let Some(sent) = reply_to {
            message["reply_to_message"] = sent.clone();
        }
        let update = json!({"update_id": id, "message": message});
        state.updates.push_back(update);
        self.chat.changed.notify_all();
    }
}

/// Returns a message in the person's chat.
fn message(id: i64, text: &str) -> Value {
    let date = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let chat = json!({"id": PERSON, "type": "private", "first_name": "Ada"});
    json!({"message_id": id, "date": date.as_secs(), "chat": chat, "text": text})
}

fn bot() -> Value {
    json!({"id": 1000, "is_bot": true, "first_name": "Bot", "username": "remote_agent_bot", "can_join_groups": true,
        "can_read_all_group_messages": false, "supports_inline_queries": false})
}

fn respond(request: &Request, stream: &mut TcpStream, chat: &Chat, sent: &Journal<Value>) {
    let method = request.target.rsplit('/').next().unwrap_or_default();
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let result = match method {
        "getMe" => bot(),
        "getWebhookInfo" => {
            json!({"url": "", "has_custom_certificate": false, "pending_update_count": 0})
        }
        "getUpdates" => updates(chat, body["offset"].as_i64().unwrap_or_default()),
        method if method.starts_with("send") && body["text"].is_string() => {
            let mut state = chat.state.lock().unwrap();
            state.messages += 1;
            let mut message = message(state.messages, body["text"].as_str().unwrap());
            message["from"] = bot();
            sent.push(message.clone());
            message
        }
        _ => json!(true),
    };
    let answer = json!({"ok": true, "result": result}).to_string();
    http::answer(stream, "200 OK", "application/json", &answer);
}

/// Returns the updates from `offset` on, as soon as there is one.
fn updates(chat: &Chat, offset: i64) -> Value {
    let state = chat.state.lock().unwrap();
    let is_new = |update: &Value| update["update_id"].as_i64() >= Some(offset);
    let has_none = |state: &mut State| !state.updates.iter().any(is_new);
    let waited = chat
        .changed
        .wait_timeout_while(state, POLL_TIMEOUT, has_none);
    let (mut state, _) = waited.unwrap();
    state.updates.retain(is_new);
    state.updates.iter().cloned().collect()
}
