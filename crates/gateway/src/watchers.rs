//! Who wants to hear of what (000 §6.2).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::client::Client;

/// What can be subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// How agents are.
    Status,
    /// What the triad decides.
    Decisions,
}

impl Channel {
    pub(super) const ALL: [Self; 2] = [Self::Status, Self::Decisions];

    pub(super) fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|channel| channel.as_str() == word)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Status => "agent:status",
            Self::Decisions => "triad:decision",
        }
    }
}

/// Who wants to hear of what.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    status: HashMap<Arc<str>, Subscriber>,
    decisions: HashMap<Arc<str>, Arc<Client>>,
}

#[derive(Debug)]
struct Subscriber {
    client: Arc<Client>,
    /// The agents that it wants to hear of; of all where it names none.
    agents: Option<HashSet<String>>,
}

impl Subscriptions {
    /// From now on `client` hears of the channel, in place of what it subscribed to there before.
    pub(super) fn add(
        &mut self,
        channel: Channel,
        client: &Arc<Client>,
        agents: Option<HashSet<String>>,
    ) {
        let id = Arc::clone(client.id());
        let client = Arc::clone(client);
        match channel {
            Channel::Status => drop(self.status.insert(id, Subscriber { client, agents })),
            Channel::Decisions => drop(self.decisions.insert(id, client)),
        }
    }

    pub(super) fn remove(&mut self, channel: Channel, client: &Client) {
        match channel {
            Channel::Status => drop(self.status.remove(client.id())),
            Channel::Decisions => drop(self.decisions.remove(client.id())),
        }
    }

    pub(super) fn forget(&mut self, client: &Client) {
        for channel in Channel::ALL {
            self.remove(channel, client);
        }
    }

    /// Who has no room for the news misses it: it is not reading.
    pub(super) fn tell_status(&self, agent: &str, text: &Utf8Bytes) {
        for watcher in self.status.values() {
            if watcher
                .agents
                .as_ref()
                .is_none_or(|agents| agents.contains(agent))
            {
                let _ = watcher.client.outbox.text(text.clone());
            }
        }
    }

    pub(super) fn tell_decision(&self, text: &Utf8Bytes) {
        for client in self.decisions.values() {
            let _ = client.outbox.text(text.clone());
        }
    }
}
