//! Sessions of messages.

use super::*;

fn in_session(session: &str, id: &str) -> Value {
    let mut message = message("alpha", id);
    message["sessionId"] = session.into();
    message
}

/// Returns the file of the session `s-1`.
fn file(gateway: &Gateway) -> PathBuf {
    gateway.folder.join("agents/alpha/sessions/s-1.jsonl")
}

fn entries(gateway: &Gateway) -> Vec<Value> {
    let text = std::fs::read_to_string(file(gateway)).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines
        .filter(|line: &Value| line["content"].is_string())
        .collect()
}

#[tokio::test]
async fn h_22_new_session_is_stored_before_delivery() {
    let gateway = Gateway::start(json!({})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    client.send(in_session("s-1", "c-1")).await;
    let request = alpha.recv().await;
    let stored = entries(&gateway);
    assert_eq!(stored.len(), 1, "{stored:?}");
    assert_has(
        &stored[0],
        json!({"role": "user", "content": "hello", "sessionId": "s-1", "id": "msg-c-1"}),
    );
    alpha.send(answer(&request, "hi")).await;
    client.recv().await;
    let stored = entries(&gateway);
    assert_has(
        &stored[1],
        json!({"role": "agent", "content": "hi", "sessionId": "s-1"}),
    );
}

#[tokio::test]
async fn h_22_strict_gateway_accepts_created_sessions_only() {
    let gateway = Gateway::start(json!({"strict": true})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    client.refuse(in_session("s-1", "c-1"), 4001).await;
    client.send(message("alpha", "c-2")).await;
    let session = alpha.recv().await["sessionId"].as_str().unwrap().to_owned();
    client.send(in_session(&session, "c-3")).await;
    assert_eq!(alpha.recv().await["id"], "msg-c-3");
}

#[tokio::test]
async fn overdue_session_is_expired() {
    let gateway = Gateway::start(json!({"sessionTtlMs": 50})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    client.send(in_session("s-1", "c-1")).await;
    alpha.recv().await;
    tokio::time::sleep(SILENCE_TIMEOUT).await;
    client.refuse(in_session("s-1", "c-2"), 4002).await;
    client.send(in_session("s-2", "c-3")).await;
    assert_eq!(alpha.recv().await["id"], "msg-c-3");
}

#[tokio::test]
async fn sessions_of_another_gateway_are_locked() {
    let gateway = Gateway::start(json!({})).await;
    let mut second = server_config(json!({}));
    second.state_dir.clone_from(&gateway.folder);
    let Err(StartError::Sessions(error)) = bind(second, Timeouts::default()).await else {
        panic!("two gateways have one folder");
    };
    assert_eq!(error.code().number(), 4003);
}

#[tokio::test]
async fn unreadable_session_is_corrupt_others_work() {
    let mut gateway = Gateway::start(json!({})).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let mut client = gateway.client().await;
    for id in ["c-1", "c-2"] {
        client.send(in_session("s-1", id)).await;
        alpha.recv().await;
    }
    gateway.shutdown.cancel();
    gateway.running.take().unwrap().await.unwrap();
    let mut bytes = std::fs::read(file(&gateway)).unwrap();
    bytes[20] = 0;
    std::fs::write(file(&gateway), bytes).unwrap();
    let mut again = server_config(json!({}));
    again.state_dir.clone_from(&gateway.folder);
    let again = Gateway::with_config(again, Timeouts::default()).await;
    let (mut alpha, mut client) = again.alpha_and_client().await;
    client.send(in_session("s-1", "c-3")).await;
    let error = client.recv().await;
    assert_eq!(error["content"]["code"], 4004);
    let path = gateway.folder.display().to_string();
    assert!(!error.to_string().contains(&path), "{error}");
    client.send(in_session("s-2", "c-4")).await;
    assert_eq!(alpha.recv().await["id"], "msg-c-4");
}

#[tokio::test]
async fn session_locked_by_another_process_is_4003() {
    let gateway = Gateway::start(json!({})).await;
    let mut served = gateway.serving_client(&["alpha", "beta"]).await;
    let mut client = gateway.client().await;
    std::fs::create_dir_all(file(&gateway).parent().unwrap()).unwrap();
    let lock_file = std::fs::File::create(file(&gateway)).unwrap();
    lock_file.lock().unwrap();
    client.refuse(in_session("s-1", "c-1"), 4003).await;
    client.send(message("beta", "c-2")).await;
    assert_eq!(served.recv().await["id"], "msg-c-2");
    drop(lock_file);
    client.send(in_session("s-1", "c-3")).await;
    assert_eq!(served.recv().await["id"], "msg-c-3");
}
