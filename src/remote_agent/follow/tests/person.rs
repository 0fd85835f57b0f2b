//! Questions of an agent that a person answers.

mod refused;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use peer::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::remote_agent::{Answer, Person, Question, RemoteAgent, ToolCall};

/// A person with answers as hosts write them. Without a further one, the person never answers.
#[derive(Default)]
struct Scripted {
    answers: Mutex<VecDeque<String>>,
    asked: Mutex<Vec<Question>>,
    /// Cancelled by the first question.
    first: CancellationToken,
}

impl Person for Scripted {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        self.asked.lock().unwrap().push(question.clone());
        self.first.cancel();
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async move {
            match answer {
                Some(answer) => Answer::read(&answer),
                None => std::future::pending().await,
            }
        })
    }
}

impl Scripted {
    fn new(answers: impl IntoIterator<Item = Value>) -> Self {
        Self {
            answers: Mutex::new(
                answers
                    .into_iter()
                    .map(|answer| answer.to_string())
                    .collect(),
            ),
            ..Self::default()
        }
    }

    fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap().clone()
    }
}

fn says(answer: &str) -> Value {
    json!({"action": "answer", "content": {"answer": answer}, "by": "telegram:42"})
}

fn waits(state: &str, parts: Value) -> Value {
    let message = json!({"kind": "message", "messageId": "q", "role": "agent", "parts": parts});
    json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": state, "message": message}})
}

fn question(text: &str) -> Value {
    waits("input-required", json!([{"kind": "text", "text": text}]))
}

/// Returns an agent that answers messages with these tasks, in order.
fn agent(target: Value, tasks: Vec<Value>, polls: Vec<PollReply>) -> Fixture {
    let mut tasks = tasks.into_iter();
    Fixture::new(Script {
        streaming: Some(false),
        answer: tasks.next(),
        further: tasks.collect(),
        polls,
        target,
        ..Script::default()
    })
}

fn person_answers() -> Value {
    json!({"answers": "person"})
}

async fn call(agent: &RemoteAgent, person: &Scripted, request: Value) -> Value {
    let call = ToolCall {
        request: &request.to_string(),
        caller: Some(r#"{"agent_id": "main"}"#),
        updates: None,
        person: Some(person),
        cancel: CancellationToken::new(),
        closing: CancellationToken::new(),
    };
    serde_json::from_str(&agent.execute(call).await).unwrap()
}

fn plain() -> Value {
    json!({"action": "send", "parts": [{"kind": "text", "text": "Book a\ntrip"}]})
}

fn outcome(result: &Value) -> &Value {
    &result["summary"]["person"]["outcome"]
}

/// Returns the parts of the messages after the first.
fn answers(fixture: &Fixture) -> Vec<Value> {
    let sent = fixture.peer.sent.lock().unwrap();
    let parts = sent.iter().skip(1).map(|message| {
        let parts = message.parts.iter().map(|part| part.json().clone());
        parts.collect::<Vec<_>>().into()
    });
    parts.collect()
}

#[tokio::test]
async fn answer_reaches_the_agent_and_not_the_model() {
    for (request, shown) in [
        (plain(), false),
        (send(), false),
        (watch(), false),
        (plain(), true),
    ] {
        let target = json!({"answers": "person", "showAnswers": shown});
        let done = task("completed", json!([artifact("a", &["booked"])]));
        let polls = vec![PollReply::Task(question("Where to?"))];
        let fixture = agent(target, vec![question("Where to?"), done.clone()], polls);
        if request["action"] == "watch" {
            // No message starts this task.
            fixture.peer.skip_answer();
        }
        let person = Scripted::new([says("Braga")]);
        let result = call(&fixture.agent, &person, request.clone()).await;

        assert_eq!(outcome(&result), "answered", "{result}");
        assert_eq!(state(&result), "completed", "{result}");
        assert_eq!(result["summary"]["person"]["by"], "telegram:42");
        assert_eq!(result.to_string().contains("Braga"), shown, "{result}");
        let text = fixture.agent.render(&result.to_string(), 5000);
        assert!(text.contains("\nperson: a person answered"), "{text}");
        let sent = fixture.peer.sent.lock().unwrap();
        let answer = sent.last().unwrap();
        assert_eq!(answer.parts[0].json()["text"], "Braga");
        assert_eq!(answer.task_id.as_deref(), Some("t"));
        let asked = person.asked();
        assert_eq!((asked.len(), &*asked[0].text), (1, "Where to?"));
        let of_question = &asked[0].continuation.as_ref().unwrap()["task"];
        let of_result = &result["summary"]["continuation"]["task"];
        assert_eq!(of_question["task_handle"], of_result["task_handle"]);
        assert_eq!(of_question["status"], "input-required");
        assert_eq!(
            (asked[0].chain.as_slice(), &*asked[0].origin),
            (&["main".to_owned()][..], "https://agent.example")
        );
    }
}

#[tokio::test]
async fn order_of_fields_is_read_only_where_a_person_answers() {
    let done = || vec![task("completed", json!([]))];
    let status = json!({"action": "status", "target_alias": "agent", "task_id": "t"});
    for (request, person, wanted) in [
        (send(), Some(Scripted::default()), true),
        (send(), None, false),
        (status, Some(Scripted::default()), false),
    ] {
        let polls = done().into_iter().map(PollReply::Task).collect();
        let fixture = agent(person_answers(), done(), polls);
        let call = ToolCall {
            request: &request.to_string(),
            caller: None,
            updates: None,
            person: person.as_ref().map(|person| person as &dyn Person),
            cancel: CancellationToken::new(),
            closing: CancellationToken::new(),
        };
        fixture.agent.execute(call).await;
        assert_ne!(fixture.calls(), [""; 0], "{request}");
        let wants_order = fixture.peer.wants_order.load(Ordering::Relaxed);
        assert_eq!(wants_order, wanted, "{request}");
    }
}

/// Agents repeat the messages that they received.
#[tokio::test]
async fn words_in_the_history_of_the_task_are_removed() {
    let fixture = agent(person_answers(), vec![question("Where to?")], vec![]);
    fixture.peer.echo();
    let result = call(&fixture.agent, &Scripted::new([says("Braga")]), plain()).await;
    let history = result["raw"]["history"].as_array().unwrap();
    assert_eq!(history.len(), 1, "{result}");
    assert_eq!(history[0]["parts"][0]["text"], "Book a\ntrip");
}

#[tokio::test]
async fn without_an_answer_nothing_is_sent_and_the_result_says_why() {
    let action = |action: &str| json!({"action": action});
    for (rule, answer, expected, step) in [
        (
            "person",
            action("decline"),
            "declined",
            "Do not answer for them",
        ),
        (
            "person",
            action("model"),
            "declined",
            "Do not answer for them",
        ),
        ("person", action("timeout"), "timeout", "asks again"),
        (
            "person",
            action("unreachable"),
            "unreachable",
            "Tell the user",
        ),
        ("person", json!("nonsense"), "unreachable", "Tell the user"),
        (
            "person-then-model",
            action("decline"),
            "declined",
            "Do not answer for them",
        ),
        (
            "person-then-model",
            action("model"),
            "passed",
            "answer with send",
        ),
        (
            "person-then-model",
            action("unreachable"),
            "unreachable",
            "answer with send",
        ),
    ] {
        let fixture = agent(
            json!({"answers": rule}),
            vec![question("Where to?")],
            vec![],
        );
        let result = call(&fixture.agent, &Scripted::new([answer]), plain()).await;
        assert_eq!(outcome(&result), expected, "{result}");
        let text = fixture.agent.render(&result.to_string(), 5000);
        assert!(text.contains(step), "{expected}: {text}");
        assert_eq!(answers(&fixture).len(), 0);
        assert!(result["summary"]["continuation"]["task"]["task_handle"].is_string());
    }
}

#[tokio::test]
async fn host_without_a_person_is_named_only_where_the_target_wants_one() {
    for (target, expected) in [
        (json!({}), Value::Null),
        (person_answers(), "unreachable".into()),
    ] {
        let fixture = agent(target, vec![question("Where to?")], vec![]);
        let result = fixture.call(plain()).await;
        assert_eq!(outcome(&result), &expected, "{result}");
    }
}

/// The default leaves questions to the model, but no sign-in and no permission.
#[tokio::test]
async fn kind_of_the_question_decides_who_is_asked_by_default() {
    let permission = json!([{"kind": "data", "data": {"options": [
        {"optionId": "y", "name": "Allow", "kind": "allow_once"},
        {"optionId": "n", "name": "Reject", "kind": "reject_once"}]}}]);
    let text = json!([{"kind": "text", "text": "Sign in at https://id.example/device?c=1."}]);
    for (waiting, asked, kind) in [
        (question("Where to?"), 0, None),
        (waits("auth-required", text), 1, Some("auth")),
        (waits("input-required", permission), 1, Some("permission")),
    ] {
        let fixture = agent(json!({}), vec![waiting], vec![]);
        let person = Scripted::new([json!({"action": "decline"})]);
        call(&fixture.agent, &person, plain()).await;
        let questions = person.asked();
        assert_eq!(questions.len(), asked);
        let seen = questions.first().map(|question| json!(question));
        assert_eq!(seen.as_ref().and_then(|seen| seen["kind"].as_str()), kind);
        // A person's refusal is none of the model's business.
        assert!(questions.iter().all(|question| !question.may_pass_to_model));
        if kind == Some("auth") {
            assert_eq!(seen.unwrap()["url"], "https://id.example/device?c=1");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn silent_person_ends_the_wait_after_five_minutes() {
    let fixture = agent(person_answers(), vec![question("Where to?")], vec![]);
    let person = Scripted::default();
    let start = tokio::time::Instant::now();
    let result = call(&fixture.agent, &person, plain()).await;
    assert_eq!(outcome(&result), "timeout", "{result}");
    assert_eq!(start.elapsed().as_secs(), 300);
    assert_eq!(person.asked()[0].timeout_ms, 300_000);
}

#[tokio::test(start_paused = true)]
async fn timeout_of_the_request_bounds_all_questions() {
    let fixture = agent(person_answers(), vec![question("Where to?")], vec![]);
    let person = Scripted::default();
    let start = tokio::time::Instant::now();
    let result = call(&fixture.agent, &person, within(plain(), 700_000)).await;
    assert_eq!(outcome(&result), "timeout", "{result}");
    assert!(start.elapsed().as_secs() < 700);
    // Each again after its five minutes.
    assert_eq!(person.asked().len(), 3);
}

#[tokio::test]
async fn cancellation_ends_the_wait_for_a_person() {
    let fixture = agent(person_answers(), vec![question("Where to?")], vec![]);
    let (person, cancel) = (Scripted::default(), CancellationToken::new());
    let request = plain().to_string();
    let running = fixture.agent.execute(ToolCall {
        request: &request,
        caller: None,
        updates: None,
        person: Some(&person),
        cancel: cancel.clone(),
        closing: CancellationToken::new(),
    });
    let stop = async {
        person.first.cancelled().await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(running, stop);
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["error"]["reason"], "aborted", "{result}");
    assert!(result["error"]["details"]["latest_event_summary"].is_object());
}

#[tokio::test]
async fn agent_that_asks_for_ever_is_stopped() {
    let fixture = agent(person_answers(), vec![question("More?")], vec![]);
    let person = Scripted::new((0..50).map(|_| says("yes")));
    let result = call(&fixture.agent, &person, plain()).await;
    assert_eq!(outcome(&result), "limit", "{result}");
    assert_eq!((person.asked().len(), answers(&fixture).len()), (8, 8));
}

#[tokio::test]
async fn answer_goes_only_to_the_question_that_was_shown() {
    let changed = PollReply::Task(question("Your card number?"));
    let done = task("completed", json!([]));
    let fixture = agent(
        person_answers(),
        vec![question("Where to?"), done],
        vec![changed],
    );
    let person = Scripted::new([says("Braga"), json!({"action": "decline"})]);
    let result = call(&fixture.agent, &person, plain()).await;
    let asked: Vec<_> = person.asked().into_iter().map(|asked| asked.text).collect();
    assert_eq!(asked, ["Where to?", "Your card number?"]);
    assert_eq!(
        (answers(&fixture).len(), outcome(&result)),
        (0, &json!("declined"))
    );
}

#[tokio::test]
async fn answer_to_an_ended_task_is_not_sent() {
    for end in ["completed", "canceled", "failed"] {
        let polls = vec![PollReply::Task(task(end, json!([])))];
        let fixture = agent(person_answers(), vec![question("Where to?")], polls);
        let result = call(&fixture.agent, &Scripted::new([says("Braga")]), plain()).await;
        assert_eq!(
            (state(&result), outcome(&result)),
            (&json!(end), &json!("unsent"))
        );
        assert_eq!(answers(&fixture).len(), 0);
    }
}

#[tokio::test]
async fn task_that_goes_on_without_the_answer_is_followed() {
    let working = PollReply::Task(task("working", json!([])));
    let polls = vec![working, completed(&["booked"])];
    let fixture = agent(person_answers(), vec![question("Where to?")], polls);
    let result = call(&fixture.agent, &Scripted::new([says("Braga")]), send()).await;
    assert_eq!(
        (state(&result), outcome(&result)),
        (&json!("completed"), &json!("unsent"))
    );
    assert_eq!(answers(&fixture).len(), 0);
}

#[tokio::test]
async fn invalid_answer_asks_once_more_with_the_error() {
    let schema = json!({"type": "object", "properties": {
        "from": {"type": "string", "title": "Start"}, "seats": {"type": "integer"}}, "required": ["seats"]});
    let form = waits(
        "input-required",
        json!([{"kind": "data", "data": {"schema": schema}}]),
    );
    let done = task("completed", json!([]));
    let filled = |seats: Value| json!({"action": "answer", "content": {"seats": seats, "from": "Porto", "other": 1}});
    let fixture = agent(person_answers(), vec![form.clone(), done], vec![]);
    let person = Scripted::new([filled(json!("two")), filled(json!("2"))]);
    let result = call(&fixture.agent, &person, plain()).await;
    assert_eq!(outcome(&result), "answered", "{result}");
    let asked = person.asked();
    assert_eq!(asked[0].error, None);
    assert_eq!(
        asked[1].error.as_deref(),
        Some("seats: write a whole number")
    );
    let sent = answers(&fixture);
    assert_eq!(sent.len(), 1);
    let parts = &sent[0];
    assert_eq!(parts[0]["data"], json!({"from": "Porto", "seats": 2}));
    assert_eq!(parts[1]["text"], "seats: 2\nStart: Porto");

    let fixture = agent(person_answers(), vec![form], vec![]);
    let twice = Scripted::new([filled(json!("two")), filled(json!(2.5))]);
    let result = call(&fixture.agent, &twice, plain()).await;
    assert_eq!(
        (outcome(&result), answers(&fixture).len()),
        (&json!("invalid"), 0)
    );
}

#[tokio::test]
async fn two_calls_never_ask_about_one_task() {
    let fixture = agent(person_answers(), vec![question("Where to?")], vec![]);
    let (waiting, second) = (Scripted::default(), Scripted::default());
    let first = call(&fixture.agent, &waiting, plain());
    let other = async {
        waiting.first.cancelled().await;
        call(&fixture.agent, &second, plain()).await
    };
    let result = tokio::select! {
        result = first => unreachable!("{result}"),
        result = other => result,
    };
    assert_eq!(
        (outcome(&result), second.asked().len()),
        (&json!("busy"), 0)
    );
    // The first call was dropped.
    let third = Scripted::new([json!({"action": "decline"})]);
    call(&fixture.agent, &third, plain()).await;
    assert_eq!(third.asked().len(), 1);
}

#[tokio::test]
async fn changed_form_with_equal_text_is_asked_anew() {
    let form = |choice: &str| {
        let text = json!({"kind": "text", "text": "Which?"});
        waits(
            "input-required",
            json!([text, {"kind": "data", "data": {"options": [choice]}}]),
        )
    };
    let done = task("completed", json!([]));
    let polls = vec![PollReply::Task(form("new"))];
    let fixture = agent(person_answers(), vec![form("old"), done], polls);
    let person = Scripted::new([says("old"), says("new")]);
    let result = call(&fixture.agent, &person, plain()).await;
    assert_eq!(outcome(&result), "answered", "{result}");
    assert_eq!(answers(&fixture)[0][0]["data"], json!({"answer": "new"}));
}

#[tokio::test]
async fn task_is_not_asked_about_while_its_answer_is_sent() {
    let tasks = vec![question("Where to?"), Value::Null];
    let fixture = agent(
        person_answers(),
        tasks,
        vec![PollReply::Task(question("Where to?"))],
    );
    let (first, second) = (Scripted::new([says("Braga")]), Scripted::default());
    let other = async {
        while fixture.peer.sent.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        call(&fixture.agent, &second, watch()).await
    };
    let result = tokio::select! {
        result = call(&fixture.agent, &first, plain()) => unreachable!("{result}"),
        result = other => result,
    };
    assert_eq!(
        (outcome(&result), second.asked().len()),
        (&json!("busy"), 0)
    );
}

/// Agents repeat messages later, and as their own status.
#[tokio::test]
async fn words_are_removed_from_later_results() {
    for shown in [false, true] {
        let target = json!({"answers": "person", "showAnswers": shown});
        let done = task("completed", json!([]));
        let fixture = agent(target, vec![question("Where to?"), done.clone()], vec![]);
        call(&fixture.agent, &Scripted::new([says("Braga")]), plain()).await;
        let id = fixture.peer.sent.lock().unwrap()[1].message_id.clone();
        let words = json!({"kind": "message", "role": "user", "messageId": id, "parts": [{"kind": "text", "text": "Braga"}]});
        let mut later = done;
        later["history"] = json!([words]);
        later["status"]["message"] = words;
        let later = agent(
            json!({"showAnswers": shown}),
            vec![later.clone()],
            vec![PollReply::Task(later)],
        );
        for request in [
            json!({"action": "status", "target_alias": "agent", "task_id": "t"}),
            watch(),
            plain(),
        ] {
            let result = later.call(request).await;
            assert_eq!(result.to_string().contains("Braga"), shown, "{result}");
        }
    }
}

#[tokio::test]
async fn question_without_words_does_not_show_those_before_it() {
    let mut first = question("Where to?");
    first["history"] = json!([{"kind": "message", "messageId": "h", "role": "agent", "parts": [{"kind": "text", "text": "Where to?"}]}]);
    let second = task("input-required", json!([]));
    let fixture = agent(person_answers(), vec![first, second], vec![]);
    let person = Scripted::new([says("Braga"), json!({"action": "decline"})]);
    call(&fixture.agent, &person, plain()).await;
    let asked: Vec<_> = person.asked().into_iter().map(|asked| asked.text).collect();
    assert_eq!(asked, ["Where to?", ""]);
}

#[tokio::test(start_paused = true)]
async fn host_that_does_not_wait_is_asked_one_question() {
    let fixture = agent(person_answers(), vec![question("Where to?")], vec![]);
    let person = Scripted::new((0..50).map(|_| json!({"action": "timeout"})));
    let result = call(&fixture.agent, &person, within(plain(), 700_000)).await;
    assert_eq!(outcome(&result), "timeout", "{result}");
    assert_eq!(result["summary"]["person"]["questions"], 1);
    assert!(person.asked().len() < 25);
}

#[tokio::test]
async fn form_with_optional_fields_may_be_left_empty() {
    let data = json!({"schema": {"properties": {"note": {"type": "string"}}}});
    let form = waits("input-required", json!([{"kind": "data", "data": data}]));
    let done = task("completed", json!([]));
    let fixture = agent(person_answers(), vec![form, done], vec![]);
    let person = Scripted::new([json!({"action": "answer"})]);
    let result = call(&fixture.agent, &person, plain()).await;
    assert_eq!(outcome(&result), "answered", "{result}");
    assert_eq!(answers(&fixture)[0].as_array().unwrap().len(), 1);
    assert_eq!(answers(&fixture)[0][0]["data"], json!({}));
}

/// The titles are the agent's, and the model must not take them for the person's words.
#[tokio::test]
async fn model_reads_a_choice_as_the_title_of_the_agent() {
    let options =
        json!({"options": [{"value": "y", "title": "Yes"}, {"value": "n", "title": "Obey me"}]});
    let waiting = waits("input-required", json!([{"kind": "data", "data": options}]));
    let target = json!({"answers": "person", "showAnswers": true});
    let fixture = agent(target, vec![waiting, task("completed", json!([]))], vec![]);
    let result = call(&fixture.agent, &Scripted::new([says("n")]), plain()).await;
    let words = &result["summary"]["person"]["answers"][0];
    assert_eq!(words, r#"choice 2 of 2, which the agent calls "Obey me""#);
}
