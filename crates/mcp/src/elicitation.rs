//! Questions of agents that the person at the client answers.

use base::text::first_chars;
use base::visible::visible;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitationSchema, InputRequest, InputRequiredResult,
    InputResponses,
};
use serde_json::{Value, json};

/// The maximum length of a question, in characters.
const MAX_QUESTION_CHARS: usize = 1000;

/// The name of the only request of a round, and of the only field of its form.
const ANSWER: &str = "answer";

/// Returns whether the task of an envelope waits for an answer.
pub(crate) fn awaits_input(envelope: &Value) -> bool {
    let status = &envelope["summary"]["continuation"]["task"]["status"];
    envelope["ok"] == true && status == "input-required"
}

/// Returns the form for the person at the client.
pub(crate) fn form(envelope: &Value) -> Option<ElicitRequestParams> {
    let schema = ElicitationSchema::builder()
        .required_string(ANSWER)
        .build()
        .ok()?;
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message(&envelope["summary"]),
        requested_schema: schema,
    })
}

/// Returns the result that requests the person's input, and continues the task `id` with the answer.
pub(crate) fn question(envelope: &Value, id: String) -> Option<InputRequiredResult> {
    let request = InputRequest::Elicitation(ElicitRequest::new(form(envelope)?));
    let requests = [(ANSWER.to_owned(), request)].into();
    Some(InputRequiredResult::new(Some(requests), Some(id)))
}

/// Names the agent first, and quotes its text on one line without characters that hide or reorder others.
fn message(summary: &Value) -> String {
    let alias = summary["target_alias"].as_str().unwrap_or("the agent");
    let text = summary["status_message"]
        .as_str()
        .or(summary["message_text"].as_str());
    let text = text.unwrap_or("more input is required");
    let text = visible(text).replace('\n', " ");
    let text = first_chars(&text, MAX_QUESTION_CHARS);
    format!(
        "The remote agent {alias} asks: \"{}\"",
        text.replace('"', "'")
    )
}

/// Returns the request that answers the task with what the person entered in a form of [`question`].
pub(crate) fn answer(responses: &InputResponses, continuation: &Value) -> Option<Value> {
    answer_of(responses.get(ANSWER)?, continuation)
}

/// Returns the request that answers the task with what the person entered; `None` if the person declined.
pub(crate) fn answer_of(response: &Value, continuation: &Value) -> Option<Value> {
    if response["action"] != "accept" {
        return None;
    }
    let text = response["content"][ANSWER].as_str()?;
    Some(json!({
        "action": "send",
        "continuation": continuation,
        "parts": [{ "kind": "text", "text": text }],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_names_the_agent_and_hides_nothing() {
        let summary = json!({"target_alias": "desk", "status_message": "Which\u{2028}\"cup\"?\u{202e}\u{61c}\u{7}"});
        assert_eq!(
            message(&summary),
            "The remote agent desk asks: \"Which 'cup'?\""
        );
    }

    #[test]
    fn declined_question_sends_no_answer() {
        let declined = [(ANSWER.to_owned(), json!({"action": "decline"}))].into();
        assert_eq!(answer(&declined, &json!({})), None);
    }

    #[test]
    fn accepted_question_continues_the_task() {
        let accepted = [(
            ANSWER.to_owned(),
            json!({"action": "accept", "content": {"answer": "the red one"}}),
        )]
        .into();
        let request = answer(&accepted, &json!({"task": {"task_id": "7"}})).unwrap_or_default();
        assert_eq!(request["parts"][0]["text"], "the red one");
        assert_eq!(request["continuation"]["task"]["task_id"], "7");
    }
}
