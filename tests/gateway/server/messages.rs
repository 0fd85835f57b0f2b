//! Messages to agents and their replies.

use super::*;

#[tokio::test]
async fn h_13_h_21_answer_reaches_the_requester() {
    let gateway = Gateway::start(json!({})).await;
    let (mut alpha, mut steward) = (
        gateway.serving_client(&["alpha"]).await,
        gateway.serving_client(&["steward"]).await,
    );
    steward.send(message("alpha", "c-1")).await;
    let request = alpha.recv().await;
    assert_has(
        &request,
        json!({"from": "steward", "metadata": {"correlationId": "c-1"}}),
    );
    alpha.send(answer(&request, "hi")).await;
    let reply = steward.recv().await;
    assert_has(
        &reply,
        json!({"from": "alpha", "content": {"content": "hi"}, "metadata": {"correlationId": "c-1", "parentId": "msg-c-1"}}),
    );
    assert_eq!(reply["sessionId"], request["sessionId"]);
    assert!(reply["sessionId"].is_string());
}

#[tokio::test]
async fn h_23_unaddressed_response_answers_its_request() {
    let gateway = Gateway::start(json!({})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    let answers = [
        json!({"type": "response", "content": {"result": 42}}),
        json!({"type": "error", "content": {"error": "AGENT_ERROR", "message": "no", "code": 3004}}),
        json!({"type": "message", "content": {"role": "agent", "content": "hi"}}),
    ];
    for (n, mut answer) in answers.into_iter().enumerate() {
        client.send(message("alpha", &format!("c-{n}"))).await;
        // Only by the id of the message.
        answer["metadata"] = json!({"parentId": alpha.recv().await["id"]});
        alpha.send(answer.clone()).await;
        let received = client.recv().await;
        assert_eq!(
            (&received["type"], &received["content"]),
            (&answer["type"], &answer["content"])
        );
        assert_eq!(received["metadata"]["correlationId"], format!("c-{n}"));
    }
}

#[tokio::test]
async fn equal_correlation_ids_get_separate_answers() {
    let gateway = Gateway::start(json!({})).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let (mut one, mut two) = (gateway.client().await, gateway.client().await);
    one.send(message("alpha", "same")).await;
    let first = alpha.recv().await;
    two.send(message("alpha", "same")).await;
    let second = alpha.recv().await;
    assert_ne!(
        first["metadata"]["correlationId"],
        second["metadata"]["correlationId"]
    );
    alpha.send(answer(&second, "for two")).await;
    alpha.send(answer(&first, "for one")).await;
    for (client, text) in [(&mut one, "for one"), (&mut two, "for two")] {
        let received = client.recv().await;
        assert_eq!(received["content"]["content"], text);
        assert_eq!(received["metadata"]["correlationId"], "same");
    }
}

#[tokio::test]
async fn h_24_uninvolved_agent_cannot_answer() {
    let gateway = Gateway::start(json!({})).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let (mut client, mut thief) = (gateway.client().await, gateway.client().await);
    client.send(message("alpha", "c-1")).await;
    let request = alpha.recv().await;
    let metadata = json!({"correlationId": "c-1"});
    let forged = json!({"type": "response", "content": {"result": "forged"}, "metadata": metadata});
    thief.refuse(forged, 2005).await;
    let content = json!({"role": "agent", "content": "believe me"});
    let forged = json!({"type": "message", "agent": "client", "from": "alpha", "content": content, "metadata": metadata});
    thief.refuse(forged, 3001).await;
    alpha.send(answer(&request, "true")).await;
    assert_eq!(client.recv().await["content"]["content"], "true");
}

#[tokio::test]
async fn h_19_sender_is_the_connection() {
    let gateway = Gateway::start(json!({})).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let mut client = gateway.client().await;
    let id = client.advertise(&[]).await["content"]["clientId"].clone();
    let mut forged = message("alpha", "c-1");
    forged["from"] = "steward".into();
    client.send(forged).await;
    assert_eq!(alpha.recv().await["from"], id);
}

#[tokio::test]
async fn h_19_strict_gateway_refuses_a_forged_from() {
    let gateway = Gateway::start(json!({"strict": true})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    let mut forged = message("alpha", "c-1");
    forged["from"] = "steward".into();
    client.refuse(forged, 5004).await;
    alpha.assert_silent().await;
}

#[tokio::test]
async fn h_16_h_20_parts_and_unknown_fields_are_forwarded() {
    let gateway = Gateway::start(json!({})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    let mut odd = message("alpha", "c-1");
    odd["content"]["content"] =
        json!({"parts": [{"kind": "text", "text": "a"}, {"kind": "data", "data": {"b": [1]}}]});
    odd["mood"] = json!({"is": "good"});
    odd["metadata"]["priority"] = "high".into();
    odd["metadata"]["threadId"] = "t".into();
    client.send(odd.clone()).await;
    let received = alpha.recv().await;
    assert_eq!(received["content"], odd["content"]);
    assert_has(
        &received,
        json!({"mood": {"is": "good"}, "metadata": {"threadId": "t"}}),
    );
}

#[tokio::test]
async fn h_17_id_has_1_to_128_characters() {
    let gateway = Gateway::start(json!({})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    let mut message = message("alpha", "c-1");
    for id in ["x", "not a uuid", &"i".repeat(128)] {
        message["id"] = id.into();
        client.send(message.clone()).await;
        assert_eq!(alpha.recv().await["id"], id);
    }
    for id in [String::new(), "i".repeat(129)] {
        message["id"] = id.into();
        client.refuse(message.clone(), 2005).await;
    }
}

#[tokio::test]
async fn h_27_agent_failures_differ() {
    let gateway = Gateway::start(json!({})).await;
    let mut client = gateway.client().await;
    for (agent, code) in [("unknown", 3001), ("alpha", 3002)] {
        client.send(message(agent, "c")).await;
        let error = client.recv().await;
        assert_eq!(error["content"]["code"], code);
        assert_has(
            &error,
            json!({"metadata": {"correlationId": "c", "parentId": "msg-c"}}),
        );
    }
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    for (status, code) in [("busy", 3003), ("error", 3002)] {
        let reported = json!({"type": "status", "content": {"status": status}, "metadata": {"requiresResponse": true}});
        assert_eq!(alpha.request(reported).await["content"]["result"], "ok");
        client.refuse(message("alpha", "c"), code).await;
    }
}

#[tokio::test]
async fn agent_leaving_without_answer_causes_an_error() {
    let gateway = Gateway::start(json!({})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    client.send(message("alpha", "c-1")).await;
    alpha.recv().await;
    drop(alpha);
    let error = client.recv().await;
    assert_has(
        &error,
        json!({"content": {"code": 3004}, "metadata": {"correlationId": "c-1"}}),
    );
    client.refuse(message("alpha", "c-2"), 3002).await;
}

#[tokio::test]
async fn timed_out_request_accepts_late_answer() {
    let timeouts = Timeouts {
        reply: Duration::from_millis(60),
        ..Timeouts::default()
    };
    let gateway = Gateway::with_timeouts(json!({}), timeouts).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    client.send(message("alpha", "c-1")).await;
    let request = alpha.recv().await;
    assert_eq!(client.expect_error().await, 3004);
    alpha.send(answer(&request, "late")).await;
    let late = client.recv().await;
    assert_eq!(late["metadata"]["correlationId"], "c-1");
}

#[tokio::test]
async fn h_18_expired_message_is_not_delivered() {
    let gateway = Gateway::start(json!({})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    let mut old = message("alpha", "c-1");
    old["metadata"]["ttl"] = 60.into();
    for timestamp in [json!(1_711_843_200_000_u64), json!("2024-03-31T00:00:00Z")] {
        old["timestamp"] = timestamp;
        client.refuse(old.clone(), 2005).await;
    }
    alpha.assert_silent().await;
    old["timestamp"] = Value::Null;
    client.send(old).await;
    assert_eq!(alpha.recv().await["metadata"]["ttl"], 60);
}

#[tokio::test]
async fn progress_reaches_requester_and_keeps_request_open() {
    let gateway = Gateway::start(json!({})).await;
    let (mut alpha, mut client) = gateway.alpha_and_client().await;
    client.send(message("alpha", "c-1")).await;
    let request = alpha.recv().await;
    alpha.send(json!({"type": "status", "content": {"status": "busy", "message": "half"}, "metadata": {"correlationId": "c-1"}})).await;
    let progress = client.recv().await;
    assert_has(
        &progress,
        json!({"type": "status", "content": {"message": "half"}}),
    );
    alpha.send(answer(&request, "done")).await;
    assert_eq!(client.recv().await["content"]["content"], "done");
}

#[tokio::test]
async fn message_to_another_client_is_no_answer() {
    let gateway = Gateway::start(json!({})).await;
    let mut alpha = gateway.serving_client(&["alpha"]).await;
    let (mut beta, mut client) = (
        gateway.serving_client(&["beta"]).await,
        gateway.client().await,
    );
    client.send(message("alpha", "c-1")).await;
    let request = alpha.recv().await;
    alpha.send(message("beta", "c-1")).await;
    let passed = beta.recv().await;
    assert_eq!(passed["from"], "alpha");
    beta.send(answer(&passed, "from beta")).await;
    assert_eq!(alpha.recv().await["content"]["content"], "from beta");
    alpha.send(answer(&request, "from alpha")).await;
    assert_eq!(client.recv().await["content"]["content"], "from alpha");
}
