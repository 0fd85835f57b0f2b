//! Signatures of messages (docs/reference/a2a-v1.md, "Signatures").

use base::environment::unix_millis;
use base::files;
use base::jws::{KeySet, SigningKey};
use collective::{Envelope, signature};

use super::*;
use crate::gateway::support::{message_to, tool_with_gateway};

struct Key(SigningKey);

impl Key {
    fn new() -> Self {
        Self(SigningKey::parse(SigningKey::generate_pem().unwrap().as_bytes()).unwrap())
    }

    fn public(&self) -> Value {
        self.0.public_key()
    }

    /// Returns the message with its sender, its time and a signature.
    fn sign(&self, from: &str, mut message: Value) -> Value {
        message["from"] = from.into();
        message["timestamp"] = unix_millis(std::time::SystemTime::now()).into();
        let envelope = Envelope::from_value(message).unwrap();
        signature::sign(envelope, &self.0).unwrap().into_json()
    }

    /// Checks a delivered message as its receiver may, without the gateway.
    fn verify(&self, message: &Value) {
        let keys = KeySet::of_messages(&[self.public()]).unwrap();
        let envelope = Envelope::from_value(message.clone()).unwrap();
        signature::verify(&envelope, Some(&keys)).unwrap();
    }
}

/// Returns a gateway whose agents `steward` and `alpha` have these keys.
async fn gateway(mode: &str, steward: &Key, alpha: &Key) -> Gateway {
    let agent = |name: &str, key: &Key| json!({"name": name, "role": "r", "keys": [key.public()]});
    let agents = [agent("steward", steward), agent("alpha", alpha)];
    Gateway::start(json!({"signing": {"mode": mode}, "agents": agents})).await
}

fn status(message: &Value) -> &Value {
    &message["metadata"]["signatureStatus"]
}

#[tokio::test]
async fn h_54_signature_is_verified_end_to_end() {
    let (own, other) = (Key::new(), Key::new());
    let gateway = gateway("verify", &own, &other).await;
    let mut steward = gateway.serving_client(&["steward"]).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    steward
        .send(own.sign("steward", message("alpha", "c-1")))
        .await;
    let request = alpha.recv().await;
    assert_eq!(status(&request), "verified");
    // The gateway added a session.
    assert!(request["sessionId"].is_string(), "{request}");
    own.verify(&request);
    let mut reply = answer(&request, "hi");
    reply["id"] = "msg-2".into();
    reply["metadata"]["parentId"] = request["id"].clone();
    alpha.send(other.sign("alpha", reply)).await;
    let reply = steward.recv().await;
    assert_eq!(status(&reply), "verified", "{reply}");
    other.verify(&reply);
    let broadcast = json!({"type": "broadcast", "id": "msg-3", "content": {"message": "hi"}});
    steward.send(own.sign("steward", broadcast)).await;
    let broadcast = alpha.recv().await;
    assert_eq!(status(&broadcast), "verified");
    own.verify(&broadcast);
}

#[tokio::test]
async fn h_54_mark_and_sender_of_a_client_do_not_count() {
    let (own, other) = (Key::new(), Key::new());
    let gateway = gateway("verify", &own, &other).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let mut mallory = gateway.serving_client(&["mallory", "steward"]).await;
    let mut forged = message("alpha", "c-1");
    forged["metadata"]["signatureStatus"] = "verified".into();
    mallory.send(forged).await;
    assert_eq!(status(&alpha.recv().await), "unsigned");
    // The signature of an agent that the connection does not serve.
    mallory
        .send(other.sign("alpha", message("alpha", "c-2")))
        .await;
    let delivered = alpha.recv().await;
    assert_eq!(
        (&delivered["from"], status(&delivered)),
        (&json!("mallory"), &json!("unknown-key"))
    );
    mallory
        .send(own.sign("mallory", message("alpha", "c-3")))
        .await;
    assert_eq!(status(&alpha.recv().await), "unknown-key");
    // The gateway changes a sender that the signature covers.
    let mut renamed = own.sign("ghost", message("alpha", "c-4"));
    let mut steward = gateway.serving_client(&["elsewhere"]).await;
    steward.send(renamed.clone()).await;
    assert_eq!(status(&alpha.recv().await), "unknown-key");
    renamed["from"] = "steward".into();
    mallory.send(renamed).await;
    assert_eq!(status(&alpha.recv().await), "invalid");
}

#[tokio::test]
async fn h_55_every_delivered_type_needs_a_signature() {
    let (own, other) = (Key::new(), Key::new());
    let gateway = gateway("require", &own, &other).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let mut steward = gateway.serving_client(&["steward"]).await;
    steward
        .send(own.sign("steward", message("alpha", "c-1")))
        .await;
    let request = alpha.recv().await;
    alpha.refuse(answer(&request, "unsigned"), 5002).await;
    for unsigned in [
        message("alpha", "c-2"),
        json!({"type": "broadcast", "content": {"message": "hi"}}),
        json!({"type": "proposal", "content": {"proposal": "Do it"}}),
        json!({"type": "request", "content": {"service": "gateway", "operation": "list"}}),
        json!({"type": "request", "agent": "alpha", "content": {"service": "x"}}),
    ] {
        steward.refuse(unsigned, 5002).await;
    }
    // Neither delivered nor stored: the session of the first message is the only one.
    alpha.assert_silent().await;
    let sessions = std::fs::read_dir(gateway.folder.join("agents/alpha/sessions")).unwrap();
    assert_eq!(sessions.count(), 1);
    let text = own.sign(
        "steward",
        json!({"type": "vote", "id": "v", "content": {"proposalId": "p", "vote": "approve"}}),
    );
    alpha.refuse(text, 5002).await;
}

#[tokio::test]
async fn h_56_second_delivery_of_a_frame_is_refused() {
    let (own, other) = (Key::new(), Key::new());
    let gateway = gateway("require", &own, &other).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let mut steward = gateway.serving_client(&["steward"]).await;
    let frame = own.sign("steward", message("alpha", "c-1"));
    steward
        .refuse(own.sign("steward", message("ghost", "c-0")), 3001)
        .await;
    steward.send(frame.clone()).await;
    alpha.recv().await;
    steward.refuse(frame.clone(), 5002).await;
    drop(steward);
    // A later connection of the name without the key.
    let mut thief = gateway.client().await;
    loop {
        thief
            .send(advertisement(
                &json!({"supportedAgents": ["steward"], "version": "1.0.0"}),
            ))
            .await;
        // The gateway may not have read the end of the first connection yet.
        if thief.recv().await["type"] == "handshake" {
            break;
        }
    }
    thief.refuse(frame, 5002).await;
    alpha.assert_silent().await;
}

/// Returns the answer to an advertisement of the agent `alpha` with these keys.
async fn advertise(client: &mut Client, keys: Value) -> Value {
    let mut advertisement =
        advertisement(&json!({"supportedAgents": ["alpha"], "version": "1.0.0"}));
    advertisement["content"]["keys"] = keys;
    client.request(advertisement).await
}

#[tokio::test]
async fn h_57_advertised_key_is_pinned_and_others_are_refused() {
    let (own, other) = (Key::new(), Key::new());
    let gateway =
        Gateway::start(json!({"signing": {"mode": "require", "pinFirstUse": true}})).await;
    let mut alpha = gateway.client().await;
    let mut private = own.public();
    private["d"] = "s3cret".into();
    let refused = advertise(&mut alpha, json!([private])).await;
    assert_eq!(refused["content"]["code"], 2005, "{refused}");
    assert!(!refused.to_string().contains("s3cret"), "{refused}");
    let refused = advertise(&mut alpha, json!(vec![json!({}); 10_000])).await;
    assert_eq!(refused["content"]["code"], 2005, "{refused}");
    let accepted = advertise(&mut alpha, json!([own.public()])).await;
    assert_has(
        &accepted,
        json!({"content": {"action": "acknowledge", "signing": "require"}}),
    );
    alpha.send(own.sign("alpha", message("alpha", "c-1"))).await;
    assert_eq!(status(&alpha.recv().await), "verified");
    let refused = advertise(&mut alpha, json!([other.public()])).await;
    assert_eq!(refused["content"]["code"], 5002, "{refused}");
    alpha
        .refuse(other.sign("alpha", message("alpha", "c-2")), 5002)
        .await;
}

#[tokio::test]
async fn h_58_gateway_signs_decisions_and_counts_signed_votes_only() {
    let (own, other) = (Key::new(), Key::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.pem");
    files::replace_private(&file, &SigningKey::generate_pem().unwrap()).unwrap();
    let agent = |name: &str, key: &Key| json!({"name": name, "role": "r", "keys": [key.public()]});
    let gateway = Gateway::start(json!({
        "signing": {"requireVotes": true, "keyFile": file},
        "agents": [agent("alpha", &own), agent("beta", &other)],
    }))
    .await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let mut beta = gateway.serving_client(&["beta"]).await;
    let mut client = gateway.client().await;
    let acknowledged = client.advertise(&[]).await;
    let keys = KeySet::of_messages(acknowledged["content"]["keys"].as_array().unwrap()).unwrap();
    client
        .send(json!({"type": "proposal", "id": "p-1", "content": {"proposal": "Do it"}}))
        .await;
    let vote = || json!({"type": "vote", "id": "v-1", "content": {"proposalId": "p-1", "vote": "approve"}});
    for member in [&mut alpha, &mut beta] {
        assert_eq!(member.recv().await["type"], "proposal");
        member.refuse(vote(), 5002).await;
    }
    alpha.refuse(other.sign("alpha", vote()), 5002).await;
    alpha.send(own.sign("alpha", vote())).await;
    let counted = client.recv().await;
    assert_eq!(status(&counted), "verified");
    own.verify(&counted);
    beta.send(other.sign("beta", vote())).await;
    assert_eq!(client.recv().await["type"], "vote");
    let decision = Envelope::from_value(client.recv().await).unwrap();
    assert_eq!(decision.content_str("result"), Some("approved"));
    signature::verify(&decision, Some(&keys)).unwrap();
}

#[tokio::test]
async fn h_54_gateway_without_signatures_forwards_them_unread() {
    let key = Key::new();
    let gateway = Gateway::start(json!({})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    let acknowledged = client.advertise(&["steward"]).await;
    assert!(
        acknowledged["content"].get("signing").is_none(),
        "{acknowledged}"
    );
    let sent = key.sign("steward", message("alpha", "c-1"));
    client.send(sent.clone()).await;
    let received = alpha.recv().await;
    assert_eq!(received["metadata"], sent["metadata"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h_54_bridge_signs_and_shows_the_status_of_the_answer() {
    let (coder_key, folder) = (Key::new(), tempfile::tempdir().unwrap());
    let file = folder.path().join("steward.pem");
    let pem = SigningKey::generate_pem().unwrap();
    files::replace_private(&file, &pem).unwrap();
    let steward_key = Key(SigningKey::parse(pem.as_bytes()).unwrap());
    let agent = |name: &str, key: &Key| json!({"name": name, "role": "r", "keys": [key.public()]});
    let gateway = Gateway::start(json!({
        "signing": {"mode": "require"},
        "agents": [agent("steward", &steward_key), agent("coder", &coder_key)],
        "auth": {"keys": [
            {"name": "bridge", "sha256": digest("BRIDGE"), "agent": "steward"},
            {"name": "coder", "sha256": digest("KEY"), "agent": "coder"},
        ]},
    }))
    .await;
    let mut coder = gateway.authenticated_client().await;
    coder.advertise(&["coder"]).await;
    let settings = json!({"token": "BRIDGE", "signing": {"agent": "steward", "keyFile": file}});
    let tool = tool_with_gateway(&format!("ws://{}", gateway.address), settings);
    let request = message_to("coder", "hello");
    let answers = async {
        let request = coder.recv().await;
        assert_eq!(
            (&request["from"], status(&request)),
            (&json!("steward"), &json!("verified"))
        );
        let mut reply = answer(&request, "hi");
        reply["id"] = "msg-reply".into();
        coder.send(coder_key.sign("coder", reply)).await;
    };
    let (envelope, ()) = tokio::join!(tool.call(&request), answers);
    assert_eq!(envelope["summary"]["message_text"], "hi", "{envelope}");
    let text = envelope["raw"].to_string();
    assert!(text.contains(r#""signatureStatus":"verified""#), "{text}");
}
