//! Broadcasts.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use collective::{Envelope, GATEWAY, Kind};

use crate::access::Operation;
use crate::audit::Outcome;
use crate::connected_client::Client;
use crate::error::RequestError;
use crate::events::delivery;
use crate::reply_context::ReplyContext;
use crate::state::GatewayState;

impl GatewayState {
    /// Sends a message to every other client. Replies with the lists of recipients that received the message and of those
    /// that did not, by agent name or else by client id. Offline agents did not receive it.
    pub(super) async fn handle_broadcast(
        &self,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, RequestError> {
        self.authorize(client, envelope.from(), Operation::Broadcast)?;
        let from = client.name(envelope.from());
        let mut envelope = envelope.with("from", &*from);
        if envelope.id().is_none() {
            envelope = envelope.with("id", format!("msg-{}", self.env.uuid()));
        }
        if envelope.field("timestamp").is_none() {
            envelope = envelope.with("timestamp", self.now_millis());
        }
        let text: Utf8Bytes = envelope.to_text().into();
        self.publish(delivery("broadcast", &envelope, "*"));
        let (mut delivered, mut failed): (Vec<Value>, Vec<Value>) = Default::default();
        {
            let registry = self.registry();
            for other in registry
                .clients()
                .filter(|other| !Arc::ptr_eq(other, client))
            {
                if other.identity().is_none() {
                    continue;
                }
                let reached = match other.outbox.try_send(text.clone()) {
                    Ok(_) => &mut delivered,
                    Err(_) => &mut failed,
                };
                match &*other.names() {
                    [] => reached.push((**other.id()).into()),
                    names => reached.extend(names.iter().map(|name| Value::from(&**name))),
                }
            }
            let absent = registry.offline_agents().map(Value::from);
            failed.extend(absent);
        }
        let outcome = if delivered.is_empty() {
            Outcome::Dropped
        } else {
            Outcome::Delivered
        };
        let content = json!({"result": {"delivered": delivered, "failed": failed}});
        self.send(
            client,
            context.reply(Kind::Response, content).with("from", GATEWAY),
        )
        .await;
        Ok(outcome)
    }
}
