//! Subscriptions to channels (Heretek A2A §6.2), and the channel `gateway:events`, which reports the gateway's events to its
//! operator.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use base::text::shortened;
use collective::{Channel, Envelope, text_of};

use super::access::Identity;
use super::connected_client::Client;
use super::frames;
use super::frames::RequestError;

/// The number of events that the gateway keeps for resubscribing clients.
const RECENT_EVENTS: usize = 512;

/// The maximum number of subscribers. The gateway sends each event to all of them at once.
const MAX_SUBSCRIBERS: usize = 64;

/// The maximum number of subscribers of one identity, so that one identity cannot occupy all slots.
const MAX_SUBSCRIBERS_PER_IDENTITY: usize = 8;

/// The maximum length of a text in an event, in characters.
const MAX_TEXT_CHARS: usize = 2000;

/// The maximum length of an id in an event, in characters.
const MAX_ID_CHARS: usize = 128;

/// The subscriptions of all clients.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    status: HashMap<Arc<str>, StatusSubscriber>,
    decisions: HashMap<Arc<str>, Arc<Client>>,
}

#[derive(Debug)]
struct StatusSubscriber {
    client: Arc<Client>,
    /// The agents of the subscription; `None` means all.
    agents: Option<HashSet<String>>,
}

impl Subscriptions {
    /// Subscribes `client`. Replaces its previous subscription to the channel.
    pub(super) fn insert(
        &mut self,
        channel: Channel,
        client: &Arc<Client>,
        agents: Option<HashSet<String>>,
    ) {
        let id = Arc::clone(client.id());
        let client = Arc::clone(client);
        match channel {
            Channel::Status => drop(self.status.insert(id, StatusSubscriber { client, agents })),
            Channel::Decisions => drop(self.decisions.insert(id, client)),
            Channel::Events => {}
        }
    }

    pub(super) fn remove(&mut self, channel: Channel, client: &Client) {
        match channel {
            Channel::Status => drop(self.status.remove(client.id())),
            Channel::Decisions => drop(self.decisions.remove(client.id())),
            Channel::Events => {}
        }
    }

    pub(super) fn remove_client(&mut self, client: &Client) {
        for channel in Channel::ALL {
            self.remove(channel, client);
        }
    }

    /// Sends a status change to its subscribers. Skips a subscriber whose outbox is full.
    pub(super) fn publish_status(&self, agent: &str, text: &Utf8Bytes) {
        for subscriber in self.status.values() {
            let agents = subscriber.agents.as_ref();
            if agents.is_none_or(|agents| agents.contains(agent))
                && subscriber.client.may_see(agent)
            {
                let _ = subscriber.client.outbox.try_send(text.clone());
            }
        }
    }

    /// Sends a decision to its subscribers. Skips a subscriber whose outbox is full.
    pub(super) fn publish_decision(&self, text: &Utf8Bytes) {
        for client in self.decisions.values() {
            let _ = client.outbox.try_send(text.clone());
        }
    }
}

/// The events of a gateway and their subscribers.
pub(super) struct EventFeed {
    /// An id that distinguishes the events of this process from those of an earlier one.
    instance: String,
    feed: Mutex<Feed>,
}

struct Feed {
    /// The number of the last event.
    last: u64,
    /// Recent events without their texts, as frames.
    recent: VecDeque<(u64, Utf8Bytes)>,
    subscribers: Vec<Subscriber>,
}

struct Subscriber {
    client: Weak<Client>,
    /// Whether the subscriber receives the texts of messages; `None` until it receives events.
    content: Option<bool>,
    /// The number of events that the subscriber missed because its outbox was full.
    missed: u64,
}

/// An event at the gateway.
pub(super) struct GatewayEvent<'a> {
    fields: Map<String, Value>,
    text: Option<&'a Value>,
    keep: bool,
}

impl<'a> GatewayEvent<'a> {
    /// Creates an event. `kind` is `message`, `reply`, `request`, `broadcast`, `proposal`, `vote`,
    /// `late-vote`, `decision` or `refused`.
    pub(super) fn new(kind: &str) -> Self {
        let mut fields = Map::new();
        fields.insert("happened".to_owned(), kind.into());
        Self {
            fields,
            text: None,
            keep: true,
        }
    }

    /// Adds a field. Truncates long strings, and ignores `null`.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = match value.into() {
            Value::Null => return self,
            Value::String(text) => Value::String(shortened(&text, MAX_ID_CHARS)),
            other => other,
        };
        self.fields.insert(name.to_owned(), value);
        self
    }

    /// Adds the text, which only subscribers with `content` receive.
    pub(super) fn with_text(mut self, text: &'a Value) -> Self {
        self.text = Some(text).filter(|text| !text.is_null());
        self
    }

    /// Excludes the event from the stored recent events.
    pub(super) fn live_only(mut self) -> Self {
        self.keep = false;
        self
    }
}

impl EventFeed {
    pub(super) fn new(instance: String) -> Self {
        Self {
            instance,
            feed: Mutex::new(Feed {
                last: 0,
                recent: VecDeque::new(),
                subscribers: Vec::new(),
            }),
        }
    }

    /// Sends an event to the subscribers. A subscriber with a full outbox misses the event. The next event it receives
    /// contains the number of missed events.
    pub(super) fn publish(&self, event: GatewayEvent<'_>, now: u64) {
        let mut feed = self.feed.lock();
        feed.last += 1;
        let number = feed.last;
        let mut fields = event.fields;
        fields.insert("time".to_owned(), now.into());
        fields.insert("cursor".to_owned(), self.cursor(number).into());
        feed.remove_closed();
        let with_text = || {
            let mut fields = fields.clone();
            if let Some(text) = event.text {
                fields.insert("text".to_owned(), short_text(text).into());
            }
            fields
        };
        // Serialize each form at most once, regardless of the number of subscribers.
        let plain = LazyCell::new(|| frame(fields.clone()));
        let full = LazyCell::new(|| frame(with_text()));
        for subscriber in &mut feed.subscribers {
            let (Some(client), Some(content)) = (subscriber.client.upgrade(), subscriber.content)
            else {
                continue;
            };
            let frame = match (subscriber.missed, content) {
                (0, false) => plain.clone(),
                (0, true) => full.clone(),
                (missed, content) => {
                    let mut fields = if content { with_text() } else { fields.clone() };
                    fields.insert("missed".to_owned(), missed.into());
                    frame(fields)
                }
            };
            match client.outbox.try_send(frame) {
                Ok(_) => subscriber.missed = 0,
                Err(_) => subscriber.missed += 1,
            }
        }
        if event.keep {
            if feed.recent.len() == RECENT_EVENTS {
                feed.recent.pop_front();
            }
            feed.recent.push_back((number, plain.clone()));
        }
    }

    /// Reserves a slot for a subscriber.
    ///
    /// # Errors
    /// 3003 if there are [`MAX_SUBSCRIBERS`] others, or [`MAX_SUBSCRIBERS_PER_IDENTITY`] others of its identity.
    pub(super) fn reserve(&self, client: &Arc<Client>) -> Result<(), RequestError> {
        let mut feed = self.feed.lock();
        feed.remove_closed();
        let is_known = |one: &Subscriber| Weak::ptr_eq(&one.client, &Arc::downgrade(client));
        if feed.subscribers.iter().any(is_known) {
            return Ok(());
        }
        let own = |one: &&Subscriber| {
            let identity = client.identity().map(Identity::share_key);
            let other = one.client.upgrade();
            let other = other.as_ref().and_then(|other| other.identity());
            identity.is_some() && identity == other.map(Identity::share_key)
        };
        let taken = if feed.subscribers.len() >= MAX_SUBSCRIBERS {
            Some(MAX_SUBSCRIBERS)
        } else {
            let own = feed.subscribers.iter().filter(own).count();
            (own >= MAX_SUBSCRIBERS_PER_IDENTITY).then_some(own)
        };
        if let Some(taken) = taken {
            let message = format!(
                "{taken} clients subscribe to the gateway's events; end one of them, or try again later"
            );
            return Err(RequestError::busy(message, Duration::from_mins(1)));
        }
        feed.subscribers.push(Subscriber {
            client: Arc::downgrade(client),
            content: None,
            missed: 0,
        });
        Ok(())
    }

    /// Returns the cursor of the last event.
    pub(super) fn last_cursor(&self) -> String {
        self.cursor(self.feed.lock().last)
    }

    /// Subscribes a client and sends it the recent events after `cursor`, or all recent events if the cursor is unknown.
    /// Counts the events that do not fit into its outbox as missed. Replaces an earlier subscription of the client.
    pub(super) fn subscribe(&self, client: &Arc<Client>, cursor: &str, content: bool) {
        let mut feed = self.feed.lock();
        let after = self.number(cursor).unwrap_or(0);
        let recent = feed.recent.iter().filter(|(number, _)| *number > after);
        let mut missed = 0;
        for (_, frame) in recent {
            missed += u64::from(client.outbox.try_send(frame.clone()).is_err());
        }
        remove(&mut feed.subscribers, client);
        feed.subscribers.push(Subscriber {
            client: Arc::downgrade(client),
            content: Some(content),
            missed,
        });
    }

    pub(super) fn unsubscribe(&self, client: &Client) {
        remove(&mut self.feed.lock().subscribers, client);
    }

    fn cursor(&self, number: u64) -> String {
        format!("{}:{number}", self.instance)
    }

    fn number(&self, cursor: &str) -> Option<u64> {
        let (instance, number) = cursor.rsplit_once(':')?;
        (instance == self.instance).then(|| number.parse().ok())?
    }
}

impl Feed {
    fn remove_closed(&mut self) {
        self.subscribers.retain(|subscriber| {
            let client = subscriber.client.upgrade();
            client.is_some_and(|client| !client.outbox.is_closed())
        });
    }
}

fn remove(subscribers: &mut Vec<Subscriber>, client: &Client) {
    subscribers.retain(|one| {
        let known = one.client.upgrade();
        known.is_some_and(|known| known.id() != client.id())
    });
}

fn frame(fields: Map<String, Value>) -> Utf8Bytes {
    frames::event(Channel::Events.as_str(), fields.into()).into()
}

/// Returns the text of a message or of its parts, truncated to [`MAX_TEXT_CHARS`].
fn short_text(content: &Value) -> String {
    shortened(&text_of(content), MAX_TEXT_CHARS)
}

/// Creates the event of a message before its delivery.
pub(super) fn delivery<'a>(kind: &str, envelope: &'a Envelope, to: &str) -> GatewayEvent<'a> {
    let content = envelope.content();
    let text = content.get("content").or_else(|| content.get("message"));
    GatewayEvent::new(kind)
        .with("id", envelope.id())
        .with("from", envelope.from())
        .with("to", to)
        .with("sessionId", envelope.session_id())
        .with_text(text.unwrap_or(content))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened("äöü", 2), "äö…");
        let long = json!("x".repeat(1 << 20));
        assert_eq!(short_text(&long).chars().count(), MAX_TEXT_CHARS + 1);
    }

    #[test]
    fn limits_of_subscribers_are_documented() {
        let documented = include_str!("../../../docs/reference/gateway.md").replace('\n', " ");
        for limit in [
            format!("At most {MAX_SUBSCRIBERS} clients subscribe to `gateway:events`"),
            format!("at most {MAX_SUBSCRIBERS_PER_IDENTITY} of one identity"),
        ] {
            assert!(documented.contains(&limit), "{limit}");
        }
    }

    #[test]
    fn text_of_parts_is_joined() {
        let parts = json!({"parts": [{"text": "one"}, {"data": {}}, {"text": "two"}]});
        assert_eq!(short_text(&parts), "one\ntwo");
        assert_eq!(short_text(&json!({"a": 1})), r#"{"a":1}"#);
    }

    #[test]
    fn cursor_of_another_process_is_unknown() {
        let feed = EventFeed::new("a".to_owned());
        assert_eq!(feed.number(&feed.cursor(7)), Some(7));
        assert_eq!(feed.number("b:7"), None);
        assert_eq!(feed.number("nonsense"), None);
    }
}
