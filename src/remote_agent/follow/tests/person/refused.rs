//! Messages in the place of a person, and answers of a person that do not arrive.

use peer::PeerErrorKind;

use super::*;

/// Makes a call that a person typed.
async fn call_of_person(agent: &RemoteAgent, request: &Value) -> Value {
    let tool_call = ToolCall {
        request: &request.to_string(),
        caller: Some(r#"{"by_person": true}"#),
        updates: None,
        person: None,
        cancel: CancellationToken::new(),
        closing: CancellationToken::new(),
    };
    serde_json::from_str(&agent.execute(tool_call).await).unwrap()
}

/// A person answers, and no message of the model in their place reaches the agent.
#[tokio::test]
async fn model_does_not_answer_for_a_person() {
    let to_task = |text: &str| json!({"action": "send", "target_alias": "agent", "task_id": "t", "parts": [{"kind": "text", "text": text}]});
    let sign_in = waits(
        "auth-required",
        json!([{"kind": "text", "text": "Sign in"}]),
    );
    for (rule, waiting, declines, refused) in [
        ("person", question("Where to?"), false, true),
        ("person", task("working", json!([])), false, false),
        ("person-then-model", question("Where to?"), false, false),
        ("person-then-model", question("Where to?"), true, true),
        ("model", sign_in.clone(), false, false),
        ("model", sign_in, true, true),
    ] {
        let polls = vec![PollReply::Task(waiting.clone())];
        let fixture = agent(json!({"answers": rule}), vec![waiting.clone()], polls);
        if declines {
            let person = Scripted::new([json!({"action": "decline"})]);
            call(&fixture.agent, &person, plain()).await;
        }
        let before = fixture.peer.sent.lock().unwrap().len();
        let result = fixture.call(to_task("Braga")).await;
        let reason = &result["error"]["reason"];
        assert_eq!(
            reason == "person_required",
            refused,
            "{rule} {waiting}: {result}"
        );
        let sent = fixture.peer.sent.lock().unwrap().len() - before;
        assert_eq!(sent, usize::from(!refused), "{rule} {waiting}");
        let next = fixture
            .call(json!({"action": "status", "target_alias": "agent", "task_id": "t"}))
            .await;
        let step = next["summary"]["next_step"].as_str().unwrap_or_default();
        assert_eq!(
            step.contains("Do not answer for them"),
            refused,
            "{rule}: {step}"
        );
    }
}

/// A person who declines a question leaves others to the model, but no sign-in, and the next step says so.
#[tokio::test]
async fn refusal_is_for_one_question_but_for_every_sign_in() {
    let sign_in = |text: &str| waits("auth-required", json!([{"kind": "text", "text": text}]));
    // It may be the declined one: some agents show the words of a question once.
    let mut without_status = question("When?");
    let message = without_status["status"]["message"].take();
    without_status["history"] = json!([message]);
    for (rule, declined, next, refused, step) in [
        (
            "person-then-model",
            question("Where to?"),
            question("When?"),
            false,
            "declined an earlier question",
        ),
        (
            "person-then-model",
            question("Where to?"),
            without_status,
            true,
            "Do not answer for them",
        ),
        (
            "model",
            sign_in("Sign in"),
            sign_in("Once more"),
            true,
            "Do not answer for them",
        ),
    ] {
        let polls = vec![PollReply::Task(next.clone())];
        let fixture = agent(json!({"answers": rule}), vec![declined], polls);
        let person = Scripted::new([json!({"action": "decline"})]);
        call(&fixture.agent, &person, plain()).await;
        let looked_up = fixture
            .call(json!({"action": "status", "target_alias": "agent", "task_id": "t"}))
            .await;
        let shown = looked_up["summary"]["next_step"].as_str().unwrap();
        assert!(shown.contains(step), "{shown}");
        let request = json!({"action": "send", "target_alias": "agent", "task_id": "t", "parts": [{"kind": "text", "text": "At noon"}]});
        let result = fixture.call(request).await;
        let reason = &result["error"]["reason"];
        assert_eq!(reason == "person_required", refused, "{next}: {result}");
        let sent = fixture.peer.sent.lock().unwrap().len();
        assert_eq!(sent, 1 + usize::from(!refused), "{next}");
    }
}

/// A person's message that fails leaves their refusal: the model may not answer next.
#[tokio::test]
async fn message_of_a_person_that_fails_does_not_clear_their_refusal() {
    let waiting = question("Where to?");
    let fixture = agent(
        json!({"answers": "person-then-model"}),
        vec![waiting.clone(), json!("the connection fails")],
        vec![PollReply::Task(waiting.clone())],
    );
    let person = Scripted::new([json!({"action": "decline"})]);
    call(&fixture.agent, &person, plain()).await;
    let request = json!({"action": "send", "target_alias": "agent", "task_id": "t", "parts": [{"kind": "text", "text": "Braga"}]});
    let failed = call_of_person(&fixture.agent, &request).await;
    assert_eq!(failed["ok"], false, "{failed}");
    let refused = fixture.call(request).await;
    assert_eq!(refused["error"]["reason"], "person_required", "{refused}");
}

/// A person's own message goes through, and its words are the person's.
#[tokio::test]
async fn message_that_a_person_wrote_answers_the_task() {
    for (rule, prefix) in [("person", "person-answer-"), ("person-then-model", "")] {
        let waiting = question("Where to?");
        let polls = vec![PollReply::Task(waiting.clone())];
        let fixture = agent(
            json!({"answers": rule}),
            vec![waiting.clone(), task("completed", json!([]))],
            polls,
        );
        let person = Scripted::new([json!({"action": "decline"})]);
        call(&fixture.agent, &person, plain()).await;
        let request = json!({"action": "send", "target_alias": "agent", "task_id": "t", "parts": [{"kind": "text", "text": "Braga"}]});
        let result = call_of_person(&fixture.agent, &request).await;
        assert_eq!(state(&result), "completed", "{result}");
        let sent = fixture.peer.sent.lock().unwrap();
        let id = &sent.last().unwrap().message_id;
        assert!(id.starts_with(prefix), "{id}");
        assert_eq!(id.starts_with("person-answer-"), !prefix.is_empty());
    }
}

#[tokio::test]
async fn message_to_a_task_is_refused_while_a_person_is_asked_about_it() {
    let sign_in = waits(
        "auth-required",
        json!([{"kind": "text", "text": "Sign in"}]),
    );
    let limits = json!({"limits": {"concurrencyPerTarget": 1}});
    let fixture = agent(limits, vec![sign_in], vec![]);
    let person = Scripted::default();
    let other = async {
        person.first.cancelled().await;
        let request = json!({"action": "send", "target_alias": "agent", "task_id": "t", "parts": [{"kind": "text", "text": "x"}]});
        // The call that waits for the person leaves its turn to others.
        fixture.call(within(request, 5000)).await
    };
    let result = tokio::select! {
        result = call(&fixture.agent, &person, plain()) => unreachable!("{result}"),
        result = other => result,
    };
    assert_eq!(result["error"]["reason"], "person_required", "{result}");
    assert_eq!(result["error"]["details"]["delivered"], "no", "{result}");
}

/// An answer that did not arrive is no reason for the model to write another.
#[tokio::test]
async fn answer_that_does_not_arrive_is_reported_as_unsent() {
    for (tasks, polls) in [
        (vec![question("Where to?"), json!("no connection")], vec![]),
        (
            vec![question("Where to?")],
            vec![PollReply::Refused(PeerErrorKind::InvalidResponse)],
        ),
    ] {
        let target = json!({"answers": "person-then-model", "showAnswers": true});
        let fixture = agent(target, tasks, polls);
        let result = call(&fixture.agent, &Scripted::new([says("Braga")]), plain()).await;
        let details = &result["error"]["details"];
        let summary = &details["latest_event_summary"];
        assert_eq!(summary["person"]["outcome"], "unsent", "{result}");
        assert_eq!(summary["person"]["delivered"], "no", "{result}");
        assert_eq!(state(&json!({"summary": summary})), "input-required");
        for step in [&details["hint"], &summary["next_step"]] {
            assert!(
                step.as_str().unwrap().contains("Do not answer for them"),
                "{step}"
            );
        }
        // The message of the call has arrived, and is not sent again.
        assert_eq!(details["delivered"], "yes", "{result}");
    }
}
