//! What the agent card means for a call: the active extensions, and the report of a card that has changed.

use std::collections::BTreeMap;

use base::log::Level;
use peer::Extension;
use serde_json::{Map, Value, json};

use super::Call;
use crate::targets::add_changes;

impl Call<'_> {
    /// Returns the URIs of the active extensions, and the metadata that they add to a message.
    pub(in crate::remote_agent) fn active_extensions(&self) -> (Vec<String>, Map<String, Value>) {
        let config = &self.target.peer_config;
        let card = self.card.as_ref().map(|known| &known.card);
        let (mut uris, mut metadata) = (Vec::new(), Map::new());
        for extension in card
            .into_iter()
            .flat_map(|card| config.active_extensions(card))
        {
            uris.push(extension.uri.clone());
            metadata.extend(extension.metadata.clone());
        }
        (uris, metadata)
    }

    /// Returns what became of the target's extensions, once a peer is open.
    pub(super) fn extension_states(&self) -> BTreeMap<&str, &'static str> {
        let (Some(peer), Some(known)) = (&self.peer, &self.card) else {
            return BTreeMap::new();
        };
        let config = &self.target.peer_config;
        let mut states: BTreeMap<_, _> = config
            .extensions
            .iter()
            .map(|extension| (&*extension.uri, "not_offered"))
            .collect();
        for Extension { uri, .. } in config.active_extensions(&known.card) {
            let confirmed = peer.confirms_extension(uri);
            states.insert(uri, if confirmed { "active" } else { "unknown" });
        }
        states
    }

    /// Reports and logs what is new about a card that is not the accepted one. A call that fails leaves it to the next one.
    pub(in crate::remote_agent) async fn report_card(&mut self) {
        let pin = self.card.as_ref().and_then(|known| known.pin.as_ref());
        let Some(pin) = pin else { return };
        if let Some((message, changes)) = pin.take_report().await {
            self.tool.log.log(Level::Warn, &message);
            let mut warning = json!({ "message": message });
            add_changes(&mut warning, &changes);
            self.card_warning = Some(warning);
        }
    }
}
