//! Questions of an agent that a person of the session answers, in Control UI and over OpenClaw's protocol.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    authorization_server,
    host::Gateway,
    model,
    notify::{NotifyFixture, Test},
    peer::answer_text,
    sign_in,
    surfaces::{capture_color_schemes, control_ui, update_docs_image},
};

pub const TESTS: &[Test] = &[
    (
        "question_of_a_call_is_answered_in_control_ui",
        question_of_a_call_is_answered_in_control_ui,
    ),
    (
        "question_after_the_turn_is_answered_in_control_ui",
        question_after_the_turn_is_answered_in_control_ui,
    ),
    (
        "declined_question_sends_nothing",
        declined_question_sends_nothing,
    ),
    ("command_answers_a_question", command_answers_a_question),
    (
        "reply_in_a_chat_answers_a_question",
        reply_in_a_chat_answers_a_question,
    ),
    (
        "sign_in_of_a_call_is_asked_and_closed",
        sign_in_of_a_call_is_asked_and_closed,
    ),
    (
        "killed_gateway_asks_again_once",
        killed_gateway_asks_again_once,
    ),
    (
        "gateway_with_an_open_question_stops",
        gateway_with_an_open_question_stops,
    ),
];

/// The target whose questions a person answers.
const TARGET: &str = "asker";

fn send(text: &str) -> Value {
    json!({"action": "send", "target_alias": TARGET, "parts": [{"kind": "text", "text": text}], "follow_updates": true})
}

/// Waits for OpenClaw's question about the task of this text.
fn wait_for_question(fixture: &NotifyFixture, text: &str) -> Value {
    let question = fixture.with_socket(|socket| {
        // The gateway may have asked before this client connected.
        let open = socket.request("question.list", json!({}));
        let open = open["questions"].as_array().unwrap();
        match open
            .iter()
            .find(|question| question.to_string().contains(text))
        {
            Some(question) => question.clone(),
            None => {
                let event = socket.frames.wait("a question of OpenClaw", |frame| {
                    frame["event"] == "question.requested" && frame.to_string().contains(text)
                });
                event["payload"].clone()
            }
        }
    });
    println!("the question: {question}");
    question
}

/// Answers OpenClaw's question as a person does, or declines it.
fn resolve(fixture: &NotifyFixture, question: &Value, answer: Option<&str>) {
    let mut params = json!({"id": question["id"]});
    match answer {
        Some(answer) => params["answers"] = json!({"answers": {"answer": [answer]}}),
        None => params["cancel"] = json!(true),
    }
    fixture.with_socket(|socket| socket.request("question.resolve", params));
}

/// Delegates a task that runs on after the turn, and then asks for input.
fn delegate_and_ask(fixture: &NotifyFixture, session: &str, text: &str) {
    let mut request = send(text);
    request["follow_updates"] = json!(false);
    fixture.run_turn(session, &format!("CALL {request}"));
    let result = model::tool_result(&fixture.model.request_with_result(text)).unwrap();
    assert!(result.contains("you will be woken"), "{result}");
    fixture.peer.finish(text);
}

/// Waits until the session is woken with what the agent made of the answer.
fn wait_for_completion(fixture: &NotifyFixture, answer: &str) {
    let answer = answer_text(answer);
    let request = fixture.model.requests.wait("the end of the task", |body| {
        let messages = body["messages"].to_string();
        messages.contains("handed to asker has news") && messages.contains(&answer)
    });
    println!("the messages of the session: {}", request["messages"]);
}

/// The words that the person gave reach the agent, and only the agent.
fn assert_concealed(result: &str, words: &str) {
    let asked = result
        .lines()
        .filter(|line| !line.contains(&answer_text(words)));
    for line in asked {
        assert!(!line.contains(words), "{result}");
    }
}

fn question_of_a_call_is_answered_in_control_ui(fixture: &NotifyFixture) {
    let text = "ask about the chairs";
    let mut browser = control_ui(fixture, "/chat?session=agent:main:main");
    let message = format!("CALL {}", send(text));
    let turn = json!({"sessionKey": "agent:main:main", "message": message, "idempotencyKey": text});
    fixture.with_socket(|socket| socket.request("chat.send", turn));
    browser.wait_until("document.querySelector('.chat-question-panel__prompt') !== null");
    let prompt =
        browser.evaluate("document.querySelector('.chat-question-panel__prompt').innerText");
    println!("the question in Control UI: {prompt}");
    for part in [
        "Scripted agent",
        &fixture.peer.url(),
        text,
        "“Which region, to ask about the chairs?”",
    ] {
        assert!(prompt.as_str().unwrap().contains(part), "{prompt}");
    }
    browser.assert_fits_screens("control-ui-question");
    let [light, _] = capture_color_schemes(&mut browser, "control-ui-question");
    update_docs_image("control-ui-question.png", &light);
    browser.click(".chat-question-panel textarea");
    browser.call("Input.insertText", json!({"text": "Antarctica"}));
    browser.click(".chat-question-panel__advance");
    fixture.peer.call("Antarctica");
    let result = model::tool_result(&fixture.model.request_with_result(text)).unwrap();
    println!("the result that the model reads:\n{result}\n");
    assert!(result.starts_with("send: task completed"), "{result}");
    assert!(result.contains("a person answered"), "{result}");
    assert_concealed(&result, "Antarctica");
}

fn question_after_the_turn_is_answered_in_control_ui(fixture: &NotifyFixture) {
    let text = "later ask about the tables";
    delegate_and_ask(fixture, "agent:main:tables", text);
    let question = wait_for_question(fixture, text);
    assert_eq!(question["sessionKey"], "agent:main:tables");
    let mut browser = control_ui(fixture, "/chat?session=agent:main:tables");
    browser.click(".chat-question-panel textarea");
    browser.call("Input.insertText", json!({"text": "Oslo"}));
    browser.screenshot("control-ui-question-later.png");
    browser.click(".chat-question-panel__advance");
    fixture.peer.call("Oslo");
    wait_for_completion(fixture, "Oslo");
}

fn declined_question_sends_nothing(fixture: &NotifyFixture) {
    let text = "ask about the lamps";
    let run = fixture
        .with_socket(|socket| socket.start("agent:main:lamps", &format!("CALL {}", send(text))));
    let question = wait_for_question(fixture, text);
    resolve(fixture, &question, None);
    fixture.with_socket(|socket| socket.end_of(&run));
    let result = model::tool_result(&fixture.model.request_with_result(text)).unwrap();
    println!("the result that the model reads:\n{result}\n");
    assert!(result.contains("declined"), "{result}");
    assert!(result.contains("task_handle: "), "{result}");
    assert_eq!(fixture.peer.answers(text), 0);
}

fn command_answers_a_question(fixture: &NotifyFixture) {
    let text = "ask about the shelves";
    let session = "agent:main:shelves";
    let run = fixture.with_socket(|socket| socket.start(session, &format!("CALL {}", send(text))));
    let question = wait_for_question(fixture, text);
    let reference = question["id"].as_str().unwrap().split('_').nth(1).unwrap();
    let command = format!("/remote-answer {reference} Lisbon it is");
    let message = json!({"sessionKey": session, "message": command, "idempotencyKey": command});
    fixture.with_socket(|socket| socket.request("chat.send", message));
    fixture.peer.call("Lisbon it is");
    fixture.with_socket(|socket| {
        socket.frames.wait("the reply to the command", |frame| {
            frame
                .to_string()
                .contains("Received. asker gets the answer")
        });
        socket.end_of(&run);
    });
    assert_eq!(fixture.peer.answers(text), 1);
}

/// OpenClaw's Telegram channel posts the question, and takes the reply to it.
fn reply_in_a_chat_answers_a_question(fixture: &NotifyFixture) {
    let text = "ask about the sofas";
    let telegram = &fixture.telegram;
    telegram.write(&format!("CALL {}", send(text)), None);
    let posted = telegram.sent.wait("the question in the chat", |message| {
        message.to_string().contains(text)
    });
    println!("the question in the chat: {posted}");
    let question = posted["text"].as_str().unwrap();
    assert!(question.contains("Reply to this message"), "{question}");
    telegram.write("Helsinki", Some(&posted));
    fixture.peer.call("Helsinki");
    let reply = telegram
        .sent
        .wait("the confirmation in the chat", |message| {
            message["text"].as_str().unwrap().starts_with("Received.")
        });
    println!("the confirmation: {reply}");
    let result = model::tool_result(&fixture.model.request_with_result(text)).unwrap();
    assert!(result.starts_with("send: task completed"), "{result}");
    assert!(result.contains("a person answered"), "{result}");
    assert_concealed(&result, "Helsinki");
    assert_eq!(fixture.peer.answers(text), 1);
}

/// The person only follows the link: the question closes by itself, and the call goes on.
fn sign_in_of_a_call_is_asked_and_closed(fixture: &NotifyFixture) {
    let server = authorization_server::server();
    let before = fixture.host.config();
    sign_in::add_target(fixture, server, "signed", "device_code");
    let mut request = send("about the curtains");
    request["target_alias"] = json!("signed");
    let session = "agent:main:curtains";
    let run = fixture.with_socket(|socket| socket.start(session, &format!("CALL {request}")));
    let question = wait_for_question(fixture, "sign in at ");
    let shown = &question["questions"][0];
    let url = shown["url"].as_str().unwrap();
    assert!(url.starts_with(&server.issuer()), "{question}");
    let text = shown["question"].as_str().unwrap();
    assert!(text.contains("Enter the code"), "{question}");
    server.browse(url);
    fixture.with_socket(|socket| socket.end_of(&run));
    let body = fixture.model.request_with_result("about the curtains");
    let result = model::tool_result(&body).unwrap();
    println!("the result that the model reads:\n{result}\n");
    assert!(!result.contains("token_unavailable"), "{result}");
    assert!(!body.to_string().contains(url), "{body}");
    let listed = fixture.with_socket(|socket| socket.request("question.list", json!({})));
    assert_eq!(listed["questions"], json!([]), "{listed}");
    fixture.host.edit_config(|config| *config = before);
    fixture.restart(drop);
}

/// Asks about a task after its turn, about another one in a call, and about one in a call that had no update before.
fn killed_gateway_asks_again_once(fixture: &NotifyFixture) {
    let (later, now, blocking) = (
        "later ask about the desks",
        "ask about the stools",
        "ask about the benches",
    );
    let texts = [later, now, blocking];
    delegate_and_ask(fixture, "agent:main:desks", later);
    let mut blocking_send = send(blocking);
    blocking_send["follow_updates"] = json!(false);
    blocking_send["blocking"] = json!(true);
    for (session, request) in [
        ("agent:main:stools", send(now)),
        ("agent:main:benches", blocking_send),
    ] {
        fixture.with_socket(|socket| socket.start(session, &format!("CALL {request}")));
    }
    for text in texts {
        wait_for_question(fixture, text);
    }
    fixture.restart(Gateway::kill);
    let questions = texts.map(|text| wait_for_question(fixture, text));
    let listed = fixture.with_socket(|socket| socket.request("question.list", json!({})));
    assert_eq!(listed["questions"].as_array().unwrap().len(), 3, "{listed}");
    for (question, answer) in questions.iter().zip(["Bergen", "Molde", "Narvik"]) {
        resolve(fixture, question, Some(answer));
        wait_for_completion(fixture, answer);
    }
    for text in texts {
        assert_eq!(fixture.peer.answers(text), 1);
    }
}

/// OpenClaw waits five minutes for an open question when it stops.
fn gateway_with_an_open_question_stops(fixture: &NotifyFixture) {
    let text = "later ask about the doors";
    delegate_and_ask(fixture, "agent:main:doors", text);
    wait_for_question(fixture, text);
    let mut elapsed = Duration::ZERO;
    fixture.restart(|gateway| {
        let start = Instant::now();
        drop(gateway);
        elapsed = start.elapsed();
    });
    println!("the gateway stopped after {elapsed:?}");
    assert!(elapsed < Duration::from_secs(60), "{elapsed:?}");
    let question = wait_for_question(fixture, text);
    resolve(fixture, &question, Some("Tromsø"));
    wait_for_completion(fixture, "Tromsø");
}
