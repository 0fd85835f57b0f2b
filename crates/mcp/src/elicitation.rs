//! Questions of agents that the person at the client answers, as elicitations.
//!
//! Up to MCP 2025-11-25 the server asks during the call. From 2026-07-28 on the call ends with the question, and the client
//! repeats it with the answer: then the tool asks again, and gets that answer if the question is still the same. A sign-in goes on
//! in the library meanwhile.

use std::sync::Arc;

use base::visible::visible;
use openclaw_remote_agent_interface::{AskerBox, ask_with};
use parking_lot::Mutex;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitationCapability, ElicitationSchema, InputRequest,
    InputRequiredResult,
};
use rmcp::service::{Peer, RoleServer};
use serde_json::{Map, Value, json};

/// What a person answers who opened a link: whether they also signed in, only the agent can tell.
const LINK_OPENED: &str = "I have opened the link to sign in.";

/// What the client responded to a question that a call ended with.
pub(crate) struct Given {
    /// The question.
    pub(crate) id: String,
    pub(crate) response: Value,
    /// Whether the server asked for a sign-in.
    pub(crate) is_sign_in: bool,
}

/// The questions of one call to the person at the client.
#[derive(Clone)]
pub(crate) struct Questions {
    /// The client, where the server may ask it during the call.
    peer: Option<Peer<RoleServer>>,
    /// Whether the client shows forms.
    shows_forms: bool,
    /// Whether the client opens links.
    opens_links: bool,
    /// The answer of a repeated call.
    given: Arc<Mutex<Option<Given>>>,
    /// The question that the call ended with.
    open: Arc<Mutex<Option<Value>>>,
}

impl Questions {
    pub(crate) fn new(
        peer: Option<Peer<RoleServer>>,
        client: &ElicitationCapability,
        given: Option<Given>,
    ) -> Self {
        Self {
            peer,
            // A client that names neither shows forms.
            shows_forms: client.form.is_some() || client.url.is_none(),
            opens_links: client.url.is_some(),
            given: Arc::new(Mutex::new(given)),
            open: Arc::default(),
        }
    }

    /// Returns what the tool asks.
    pub(crate) fn asker(&self) -> AskerBox {
        let questions = self.clone();
        ask_with(move |question| {
            let questions = questions.clone();
            async move {
                let question = serde_json::from_str(&question).unwrap_or_default();
                questions.ask(question).await.to_string()
            }
        })
    }

    async fn ask(&self, question: Value) -> Value {
        let unreached = json!({"action": "unreachable"});
        if let Some(peer) = &self.peer {
            let Some(form) = self.form(&question) else {
                return unreached;
            };
            let Ok(response) = peer.create_elicitation(form).await else {
                return unreached;
            };
            let answer = answer(&question, &json!(response));
            if self.goes_on(&question, &answer) {
                return std::future::pending().await;
            }
            return answer;
        }
        let given = self.given.lock().take();
        let is_sign_in = question["sign_in"].is_object();
        if let Some(given) = given
            && question["id"] == *given.id
            && given.is_sign_in == is_sign_in
        {
            return answer(&question, &given.response);
        }
        let goes_on = is_sign_in && self.form(&question).is_some();
        *self.open.lock() = Some(question);
        match goes_on {
            true => json!({"action": "later"}),
            false => unreached,
        }
    }

    /// Returns the result that requests the person's input for the question that the call ended with. The client repeats the
    /// `state` of the question with the answer.
    pub(crate) fn input_required(
        &self,
        state: impl FnOnce(&Value) -> Option<String>,
    ) -> Option<InputRequiredResult> {
        let question = self.open.lock().take()?;
        let request = InputRequest::Elicitation(ElicitRequest::new(self.form(&question)?));
        let name = question["id"].as_str()?.to_owned();
        Some(InputRequiredResult::new(
            Some([(name, request)].into()),
            Some(state(&question)?),
        ))
    }

    /// Returns the form for the person, or the link of a sign-in that needs nothing else; `None` if the client shows neither.
    fn form(&self, question: &Value) -> Option<ElicitRequestParams> {
        let mut message = message(question);
        if let Some(url) = self.link(question) {
            return Some(ElicitRequestParams::UrlElicitationParams {
                meta: None,
                message,
                url: url.to_owned(),
                elicitation_id: question["id"].as_str()?.to_owned(),
            });
        }
        if !self.shows_forms {
            return None;
        }
        if let Some(url) = question["url"].as_str() {
            let whose = match question["sign_in"].is_object() {
                true => "The link",
                false => "Its link, as the agent wrote it",
            };
            message = format!("{message} {whose}: {url}");
        }
        Some(ElicitRequestParams::FormElicitationParams {
            meta: None,
            message,
            requested_schema: requested_schema(question)?,
        })
    }

    /// Returns the link that the client opens in place of a form.
    fn link<'a>(&self, question: &'a Value) -> Option<&'a str> {
        // A link has no field for the address at which a browser elsewhere ends.
        let takes_address = question["sign_in"]["takes_address"] == true;
        let is_link =
            self.opens_links && !has_form(question) && !(takes_address && self.shows_forms);
        question["url"].as_str().filter(|_| is_link)
    }

    /// Returns whether the sign-in goes on after this answer: who accepts a link agrees to open it, and when they have signed in,
    /// only the server says. The call then ends the question.
    fn goes_on(&self, question: &Value, answer: &Value) -> bool {
        let is_sign_in = question["sign_in"].is_object();
        is_sign_in && self.link(question).is_some() && answer["action"] == "answer"
    }
}

/// Returns the fields with their names.
fn named_fields(question: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let fields = question["fields"].as_array().into_iter().flatten();
    fields.map(|field| (field["name"].as_str().unwrap_or_default(), field))
}

/// Returns whether the question has more than one field for any text.
fn has_form(question: &Value) -> bool {
    match question["fields"].as_array().map(Vec::as_slice) {
        Some([field]) => field["type"] != "text" || field["name"] != "answer",
        fields => fields.is_some_and(|fields| !fields.is_empty()),
    }
}

/// Returns what a form sends for each choice of a field: its value, or its title where the value is no string. No two are equal.
fn constants(field: &Value) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for choice in field["choices"].as_array().into_iter().flatten() {
        let name = choice["value"].as_str().or(choice["title"].as_str());
        let name = name.unwrap_or_default();
        let numbered = (2..).map(|n| format!("{name} ({n})"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        all.extend(names.find(|name| !all.contains(name)));
    }
    all
}

/// Returns the property that leaves the answer to the model, where a person may do that; no field has its name.
fn passing_property(question: &Value) -> Option<String> {
    let taken: Vec<_> = named_fields(question).map(|(name, _)| name).collect();
    let mut names = (0..).map(|n| format!("leave_to_model{}", "_".repeat(n)));
    names
        .find(|name| !taken.contains(&&**name))
        .filter(|_| question["may_pass_to_model"] == true)
}

/// Returns the schema of the form, with the properties in the order of the fields.
fn requested_schema(question: &Value) -> Option<ElicitationSchema> {
    let mut schema = ElicitationSchema::from_json_schema(schema(question)).ok()?;
    let names = named_fields(question).map(|(name, _)| name.to_owned());
    schema.property_order = Some(names.collect());
    Some(schema)
}

/// Returns the schema of the form: one property for each field. A form that may be left to the model requires none of them: the
/// tool checks them.
fn schema(question: &Value) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, field) in named_fields(question) {
        let kind = field["type"].as_str();
        let kind = kind.filter(|kind| matches!(*kind, "integer" | "number" | "boolean"));
        let kind = kind.unwrap_or("string");
        let mut property = json!({"type": kind, "title": field["title"]});
        if let Some(description) = field["description"].as_str() {
            property["description"] = description.into();
        }
        if let Some(choices) = field["choices"].as_array() {
            let choices = constants(field).into_iter().zip(choices);
            let choices =
                choices.map(|(name, choice)| json!({"const": name, "title": choice["title"]}));
            property["oneOf"] = choices.collect();
        }
        properties.insert(name.to_owned(), property);
        if field["required"] == true {
            required.push(name);
        }
    }
    if let Some(name) = passing_property(question) {
        let property = json!({"type": "boolean", "title": "Leave it to the model", "default": false,
            "description": "The model answers in place of you, and the other fields are not sent."});
        properties.insert(name, property);
        required.clear();
    }
    let schema = json!({"type": "object", "properties": properties, "required": required});
    schema.as_object().cloned().unwrap_or_default()
}

/// Names the agent first, and quotes its text on one line without characters that hide or reorder others.
fn message(question: &Value) -> String {
    let quoted = |name: &str| {
        let text = visible(question[name].as_str()?).replace('\n', " ");
        let text = text.replace('"', "'");
        Some(text).filter(|text| !text.is_empty())
    };
    let origin = question["origin"].as_str().unwrap_or("the agent");
    let target = question["target"].as_str().unwrap_or(origin);
    if question["sign_in"].is_object() {
        let error =
            quoted("error").map_or_else(String::new, |error| format!("Not accepted: {error}. "));
        let words = quoted("text").unwrap_or_default();
        return format!("{error}To call the remote agent {target} ({origin}): {words}");
    }
    let agent = quoted("agent").map_or_else(String::new, |agent| format!("\"{agent}\", "));
    let chain = question["chain"].as_array().into_iter().flatten();
    let chain: Vec<_> = chain.filter_map(Value::as_str).map(visible).collect();
    let via = match chain.is_empty() {
        true => String::new(),
        false => format!(", called by {},", chain.join(", ")),
    };
    let about = quoted("task").map_or_else(String::new, |task| format!(" about \"{task}\""));
    let text = quoted("text").unwrap_or_else(|| "more input is required".to_owned());
    let mut message =
        format!("The remote agent {target} ({agent}{origin}){via} asks{about}: \"{text}\"");
    let mut fields = question["fields"].as_array().into_iter().flatten();
    if fields.any(|field| field["type"] == "text") {
        message = format!("Never send passwords or keys to an agent. {message}");
    }
    let warnings = question["warnings"].as_array().into_iter().flatten();
    for warning in warnings.filter_map(Value::as_str) {
        message = match warning {
            "asks_for_secret" => format!(
                "Careful: it may ask for a password, a token, a key or a code, and your answer goes to this agent. {message}"
            ),
            _ => format!(
                "{message} It offers a form that cannot be shown; answer in your own words."
            ),
        };
    }
    match quoted("error") {
        Some(error) => format!("Not sent, {error}. {message}"),
        None => message,
    }
}

/// Returns the answer to a question. A client that shows no dialogs closes them by itself, so a closed one is no refusal.
fn answer(question: &Value, response: &Value) -> Value {
    match response["action"].as_str() {
        Some("accept") => {}
        Some("cancel") => return json!({"action": "unreachable"}),
        _ => return json!({"action": "decline", "by": "mcp client"}),
    }
    let given = match response["content"].as_object() {
        Some(content) => json!(content),
        None => json!({"answer": LINK_OPENED}),
    };
    if passing_property(question).is_some_and(|name| given[name] == true) {
        return json!({"action": "model", "by": "mcp client"});
    }
    let mut content = Map::new();
    for (name, field) in named_fields(question) {
        let Some(given) = given.get(name) else {
            continue;
        };
        let mut chosen = constants(field)
            .into_iter()
            .zip(field["choices"].as_array().into_iter().flatten());
        let chosen = chosen.find(|(name, _)| *given == **name);
        let value = chosen.map_or(given, |(_, choice)| &choice["value"]);
        content.insert(name.to_owned(), value.clone());
    }
    json!({"action": "answer", "content": content, "by": "mcp client"})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn question() -> Value {
        json!({"id": "q", "target": "desk", "agent": "Desk", "chain": ["main"], "origin": "https://desk.example", "warnings": [], "may_pass_to_model": false,
            "text": "Which\u{2028}\"cup\"?\u{202e}\u{61c}\u{7}", "url": "https://id.example/", "fields": [
            {"name": "n", "title": "N", "type": "integer", "required": true},
            {"name": "c", "title": "C", "type": "choice", "required": false, "choices": [{"value": "r", "title": "Red"}, {"value": 7, "title": "Seven"}]}]})
    }

    /// Returns the question of a sign-in, with null in place of a server that is not that of the settings.
    fn sign_in(at_server: Value) -> Value {
        let mut question = question();
        question["fields"] =
            json!([{"name": "answer", "title": "Answer", "type": "text", "required": true}]);
        question["sign_in"] = at_server;
        question
    }

    /// Returns the questions for a client that declared this capability.
    fn questions(declared: Value) -> Questions {
        Questions::new(None, &serde_json::from_value(declared).unwrap(), None)
    }

    #[test]
    fn question_names_the_agent_and_hides_nothing() {
        let asked = "The remote agent desk (\"Desk\", https://desk.example), called by main, asks: \"Which 'cup'?\"";
        assert_eq!(message(&question()), asked);
        let mut long = question();
        long["text"] = "x".repeat(4000).into();
        assert!(message(&long).contains(&"x".repeat(4000)));
        long["fields"] = json!([{"name": "answer", "type": "text"}]);
        assert!(message(&long).starts_with("Never send passwords"));
        let mut careful = question();
        careful["warnings"] = json!(["asks_for_secret"]);
        assert!(message(&careful).starts_with("Careful:"));
    }

    #[test]
    fn fields_become_a_form_and_a_sign_in_a_link() {
        let both = || questions(json!({"form": {}, "url": {}}));
        let form = json!(both().form(&question()));
        let message = form["message"].as_str().unwrap();
        assert!(message.ends_with("https://id.example/"), "{form}");
        assert_eq!(
            json!(questions(json!({})).form(&question()))["mode"],
            "form"
        );
        assert!(questions(json!({"url": {}})).form(&question()).is_none());
        assert_eq!(form["mode"], "form", "{form}");
        let properties = &form["requestedSchema"]["properties"];
        assert_eq!(properties["n"]["type"], "integer", "{form}");
        assert_eq!(properties["c"]["oneOf"][1]["const"], "Seven", "{form}");
        assert_eq!(form["requestedSchema"]["required"], json!(["n"]));
        let sent = serde_json::to_string(&both().form(&question())).unwrap();
        let at = |name: &str| sent.find(&format!("\"{name}\":{{"));
        assert!(at("n").is_some() && at("n") < at("c"), "{sent}");
        let link = json!(both().form(&sign_in(Value::Null)));
        let expected = (&json!("url"), &json!("https://id.example/"));
        assert_eq!((&link["mode"], &link["url"]), expected);
    }

    #[test]
    fn sign_in_at_the_server_of_the_settings_is_a_link_of_this_call() {
        let mut sign_in = sign_in(
            json!({"server": "https://id.example", "code": "WDJB", "takes_address": false}),
        );
        sign_in["text"] = json!("Sign in at https://id.example: enter the code WDJB.");
        let link = json!(questions(json!({"url": {}})).form(&sign_in));
        assert_eq!(link["url"], "https://id.example/");
        assert_eq!(
            link["message"],
            "To call the remote agent desk (https://desk.example): Sign in at https://id.example: enter the code WDJB."
        );
        let form = json!(questions(json!({"form": {}})).form(&sign_in));
        let message = form["message"].as_str().unwrap();
        assert!(
            message.ends_with("WDJB. The link: https://id.example/"),
            "{form}"
        );
    }

    #[test]
    fn browser_elsewhere_ends_at_an_address_which_needs_a_form() {
        let sign_in = sign_in(json!({"server": "https://id.example", "takes_address": true}));
        for (declared, mode) in [
            (json!({"form": {}, "url": {}}), "form"),
            (json!({"url": {}}), "url"),
        ] {
            let shown = json!(questions(declared).form(&sign_in));
            assert_eq!(shown["mode"], mode, "{shown}");
        }
    }

    #[test]
    fn sign_in_goes_on_after_the_person_agreed_to_open_its_link() {
        let sign_in = sign_in(json!({"server": "https://id.example", "code": "WDJB"}));
        let given = |action: &str| answer(&sign_in, &json!({ "action": action }));
        let links = questions(json!({"url": {}}));
        assert!(links.goes_on(&sign_in, &given("accept")));
        assert!(!links.goes_on(&sign_in, &given("decline")));
        assert!(!questions(json!({"form": {}})).goes_on(&sign_in, &given("accept")));
        assert!(!links.goes_on(&question(), &given("accept")));
    }

    #[tokio::test]
    async fn answer_of_a_repeated_call_is_for_its_question_only() {
        let accepted = json!({"action": "accept", "content": {"n": 1}});
        let mut sign_in = question();
        sign_in["sign_in"] = json!({"server": "https://id.example"});
        for (asked, id, is_sign_in, action) in [
            (question(), "q", false, "answer"),
            (question(), "other", false, "unreachable"),
            (sign_in.clone(), "q", true, "answer"),
            // The state of a task is none of a sign-in.
            (sign_in.clone(), "q", false, "later"),
            (sign_in, "other", true, "later"),
        ] {
            let given = Given {
                id: id.to_owned(),
                response: accepted.clone(),
                is_sign_in,
            };
            let questions = Questions::new(None, &ElicitationCapability::default(), Some(given));
            assert_eq!(questions.ask(asked).await["action"], action);
            let is_open = questions
                .input_required(|_| Some("id".to_owned()))
                .is_some();
            assert_eq!(is_open, action != "answer");
        }
    }

    #[test]
    fn refused_dialog_leaves_nothing_to_the_model() {
        let mut passable = question();
        passable["may_pass_to_model"] = true.into();
        for question in [question(), passable] {
            for (action, answered) in [("decline", "decline"), ("cancel", "unreachable")] {
                let response = json!({ "action": action });
                assert_eq!(answer(&question, &response)["action"], answered);
            }
        }
    }

    #[test]
    fn form_may_leave_the_answer_to_the_model_where_the_question_allows_it() {
        let mut asked = question();
        asked["fields"][0]["name"] = "leave_to_model".into();
        assert_eq!(
            schema(&asked)["properties"]["leave_to_model"]["type"],
            "integer"
        );
        asked["may_pass_to_model"] = true.into();
        let shown = schema(&asked);
        assert_eq!(shown["properties"]["leave_to_model_"]["type"], "boolean");
        assert_eq!(shown["required"], json!([]));
        for (content, action) in [
            (
                json!({"leave_to_model_": true, "leave_to_model": 1}),
                "model",
            ),
            (
                json!({"leave_to_model_": false, "leave_to_model": 1}),
                "answer",
            ),
            (json!({"leave_to_model": 1}), "answer"),
        ] {
            let response = json!({"action": "accept", "content": content});
            assert_eq!(answer(&asked, &response)["action"], action, "{response}");
        }
    }

    #[test]
    fn choice_of_a_form_is_the_one_that_was_shown() {
        let choices = json!([{"value": "Seven", "title": "A"}, {"value": 7, "title": "Seven"}, {"value": 8, "title": "Seven"}]);
        let question = json!({"fields": [{"name": "c", "type": "choice", "choices": choices}]});
        let shown = schema(&question);
        for (i, value) in [json!("Seven"), json!(7), json!(8)].into_iter().enumerate() {
            let sent = &shown["properties"]["c"]["oneOf"][i]["const"];
            let response = json!({"action": "accept", "content": {"c": sent}});
            assert_eq!(
                answer(&question, &response)["content"]["c"],
                value,
                "{sent}"
            );
        }
    }
}
