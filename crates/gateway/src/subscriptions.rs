//! Subscriptions to channels (Heretek A2A §6.2).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::connected_client::Client;

/// A channel that clients subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// Status changes of agents.
    Status,
    /// Decisions of the triad.
    Decisions,
    /// Events of the gateway, for its operator. `events.rs` manages the subscribers.
    Events,
}

impl Channel {
    pub(super) const ALL: [Self; 3] = [Self::Status, Self::Decisions, Self::Events];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|channel| channel.as_str() == name)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Status => "agent:status",
            Self::Decisions => "triad:decision",
            Self::Events => "gateway:events",
        }
    }
}

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
            if subscriber
                .agents
                .as_ref()
                .is_none_or(|agents| agents.contains(agent))
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
