//! Push notifications.

use serde_json::json;

use super::{Run, task};
use crate::outcome::Outcome;
use crate::peer::Peer;
use crate::servers::Vendor;
use crate::webhook::Webhook;

pub fn callback_is_set_and_called(mut peer: Peer) -> Run {
    let webhook = Webhook::start();
    let token = "token-of-the-peer-5e1f";
    peer.allow_callbacks(&webhook.url());
    let config = json!({"push_notification_config": {"url": webhook.url(), "token": token}});
    let (answer, _) = peer.send("task: gamma", config);

    let task = task(&answer)?;
    assert_eq!(task["status"], "completed", "{answer:#}");
    if peer.column.vendor == Vendor::OpenClaw {
        // The channel has no push notifications and ignores the configuration.
        assert_eq!(webhook.calls(), 0);
        return Ok(Outcome::Deviates("no callback: the wish is ignored"));
    }
    let reported = webhook.wait(task["task_id"].as_str().unwrap());
    // `x-a2a-notification-token`, or without the `x-` from rs05.
    let head = reported.head.to_ascii_lowercase();
    let header = format!("a2a-notification-token: {token}");
    assert!(head.contains(&header), "{}", reported.head);
    Ok(Outcome::Green)
}
