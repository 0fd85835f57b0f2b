//! Messages to everybody.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use collective::{Envelope, GATEWAY, Kind};

use super::access::Operation;
use super::audit::Outcome;
use super::client::Client;
use super::hub::Hub;
use super::refusal::Refusal;
use super::reply_context::ReplyContext;

impl Hub {
    /// Hands a message to every client but its sender, and answers whom it reached: agents by name, other clients by id.
    /// Known agents that are not there are among those it did not reach.
    pub(super) async fn broadcast(
        &self,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        self.may(client, envelope.from(), Operation::Broadcast)?;
        let from = client.name(envelope.from());
        let mut envelope = envelope.with("from", &*from);
        if envelope.id().is_none() {
            envelope = envelope.with("id", format!("msg-{}", self.env.uuid()));
        }
        if envelope.field("timestamp").is_none() {
            envelope = envelope.with("timestamp", self.millis());
        }
        // Written once, for everybody.
        let text: Utf8Bytes = envelope.to_text().into();
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
                let reached = match other.outbox.text(text.clone()) {
                    Ok(_) => &mut delivered,
                    Err(_) => &mut failed,
                };
                match &*other.names() {
                    [] => reached.push((**other.id()).into()),
                    names => reached.extend(names.iter().map(|name| Value::from(&**name))),
                }
            }
            let absent = registry.absent().map(Value::from);
            failed.extend(absent);
        }
        let outcome = if delivered.is_empty() {
            Outcome::Dropped
        } else {
            Outcome::Delivered
        };
        let content = json!({"result": {"delivered": delivered, "failed": failed}});
        self.answer(
            client,
            context
                .answer(Kind::Response, content)
                .with("from", GATEWAY),
        )
        .await;
        Ok(outcome)
    }
}
