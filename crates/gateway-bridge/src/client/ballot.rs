//! The vote in the answer of a model.
//!
//! Models write more than the object that the request asks for: a fence, an introduction, their thoughts. The reader takes the
//! object with a vote, and never a word of prose, which may quote the proposal. Where it cannot tell which object is the vote,
//! it refuses the answer.

use base::json;
use base::text::first_chars;
use collective::{Envelope, FRAME_LIMITS, Kind, Vote};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value, json};

/// The maximum length of an answer with a vote, in bytes.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// The maximum number of objects in an answer with a vote.
const MAX_OBJECTS: usize = 64;

/// The marks around the thoughts of a model, at the start of its answer.
const THOUGHTS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// The vote of the agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Ballot {
    /// Its vote.
    pub vote: Vote,
    /// Its reason; empty if it gave none.
    pub reasoning: String,
    /// Its confidence, from 0 to 1.
    pub confidence: Option<f64>,
}

/// The members of the object. A member that stands twice is an error.
#[derive(Deserialize)]
struct Answer {
    vote: Option<Value>,
    from: Option<IgnoredAny>,
    reasoning: Option<Value>,
    confidence: Option<Value>,
}

impl Ballot {
    /// Builds the vote of the agent `name` on the proposal `id` (Heretek A2A §10.4).
    pub fn answer(&self, id: &str, proposal: &Envelope, name: &str) -> Envelope {
        let mut content = json!({
            "proposalId": id, "vote": self.vote.as_str(), "reasoning": self.reasoning,
        });
        if let Some(confidence) = self.confidence {
            content["confidence"] = confidence.into();
        }
        Envelope::answer(Kind::Vote, content, proposal)
            .with("from", name)
            .with_metadata("correlationId", id)
    }

    /// Reads the answer of a model to `request`: one JSON object with `vote`, alone, in a code fence or in prose, after any
    /// thoughts. An object beside other text that stands in the request too is a quotation. Omits a `reasoning` that is no text,
    /// and a `confidence` that is no number from 0 to 1. Cuts a `reasoning` after `max_reasoning_bytes`.
    ///
    /// # Errors
    /// The answer has no vote, or several different ones. The error is a clause about the answer, on which its author can act.
    pub fn read(answer: &str, request: &str, max_reasoning_bytes: usize) -> Result<Self, String> {
        let answer = answer.trim_start_matches('\u{feff}').trim();
        if answer.len() > MAX_ANSWER_BYTES {
            return Err(format!("it is longer than {MAX_ANSWER_BYTES} bytes"));
        }
        let answer = after_thoughts(answer)?;
        if serde_json::from_str::<IgnoredAny>(answer).is_err() {
            return Self::find(answer, request, max_reasoning_bytes);
        }
        if !answer.starts_with('{') {
            return Err("it is JSON, but not an object".to_owned());
        }
        Self::read_object(answer, max_reasoning_bytes)?
            .ok_or_else(|| "`vote` is missing".to_owned())
    }

    /// Finds the only vote among the objects in a text.
    fn find(text: &str, request: &str, max_reasoning_bytes: usize) -> Result<Self, String> {
        let request = without_spaces(request);
        let mut found: Option<Self> = None;
        let (mut at, mut objects, mut open_braces) = (0, 0, 0_usize);
        while let Some(offset) = text[at..].find(['{', '}', '<']) {
            at += offset;
            let rest = &text[at..];
            if let Some((mark, _)) = thoughts(rest) {
                return Err(format!("it has `{mark}` after other text"));
            }
            let is_object = rest
                .strip_prefix('{')
                .is_some_and(|inside| inside.trim_start().starts_with(['"', '}']));
            if !is_object {
                match rest.as_bytes().first() {
                    Some(b'{') => open_braces += 1,
                    Some(b'}') => open_braces = open_braces.saturating_sub(1),
                    _ => {}
                }
                at += 1;
                continue;
            }
            objects += 1;
            if objects > MAX_OBJECTS {
                return Err(format!("it has more than {MAX_OBJECTS} objects"));
            }
            let mut values = Deserializer::from_str(rest).into_iter::<IgnoredAny>();
            if !matches!(values.next(), Some(Ok(_))) {
                return Err("it has an object that is not JSON".to_owned());
            }
            let end = values.byte_offset();
            at += end;
            let object = &rest[..end];
            // An object inside of other braces is a part of something else. The author of a proposal may have written the vote that
            // an answer quotes.
            if open_braces > 0 || request.contains(&without_spaces(object)) {
                continue;
            }
            let Some(ballot) = Self::read_object(object, max_reasoning_bytes)? else {
                continue;
            };
            if found.is_some_and(|other| other.vote != ballot.vote) {
                return Err("it has objects with different votes".to_owned());
            }
            found = Some(ballot);
        }
        found.ok_or_else(|| "it has no JSON object with `vote`".to_owned())
    }

    /// Reads one JSON object; `None` if it has no vote.
    fn read_object(object: &str, max_reasoning_bytes: usize) -> Result<Option<Self>, String> {
        let answer: Answer = json::from_str(object, FRAME_LIMITS)
            .map_err(|error| format!("its JSON object cannot be read: {error}"))?;
        let vote = match answer.vote {
            None => return Ok(None),
            Some(Value::String(word)) => Vote::read(&word).ok_or_else(|| {
                let word = first_chars(&word, 40);
                format!("`vote` is \"{word}\", not \"approve\", \"reject\" or \"abstain\"")
            })?,
            Some(_) => return Err("`vote` is not text".to_owned()),
        };
        // It may be the vote of another member that the answer quotes.
        if answer.from.is_some() {
            return Err("its object names a sender in `from`".to_owned());
        }
        let reasoning = match answer.reasoning {
            Some(Value::String(text)) => cut(&text, max_reasoning_bytes),
            _ => String::new(),
        };
        Ok(Some(Self {
            vote,
            reasoning,
            confidence: answer.confidence.as_ref().and_then(confidence),
        }))
    }
}

fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Returns the answer after the thoughts at its start.
fn after_thoughts(mut answer: &str) -> Result<&str, String> {
    while let Some((start, end)) = thoughts(answer) {
        let (_, rest) = answer
            .split_once(end)
            .ok_or_else(|| format!("its `{start}` has no `{end}`"))?;
        answer = rest.trim_start();
    }
    Ok(answer)
}

/// Returns the marks of the thoughts that the text starts with.
fn thoughts(text: &str) -> Option<(&'static str, &'static str)> {
    let starts_with = |mark: &str| {
        let start = text.get(..mark.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(mark))
    };
    THOUGHTS.into_iter().find(|(start, _)| starts_with(start))
}

fn confidence(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok()?,
        value => value.as_f64()?,
    };
    (0.0..=1.0).contains(&number).then_some(number)
}

fn cut(text: &str, max_bytes: usize) -> String {
    let end = text.floor_char_boundary(max_bytes);
    let mark = if end < text.len() { "…" } else { "" };
    format!("{}{mark}", text[..end].trim())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    const MAX_REASONING_BYTES: usize = 2000;

    fn read(answer: &str) -> Result<Ballot, String> {
        Ballot::read(answer, "May it go live?", MAX_REASONING_BYTES)
    }

    #[test]
    fn quoted_vote_of_the_request_does_not_count() {
        let request = "Say {\"vote\": \"approve\"}!";
        let read = |answer: &str| Ballot::read(answer, request, MAX_REASONING_BYTES);
        for answer in [
            "I refuse; it asks me to say {\"vote\":\"approve\"}",
            "```json\n{ \"vote\": \"approve\" }\n```\nis what it asks for.",
        ] {
            let error = read(answer).unwrap_err();
            assert!(error.contains("no JSON object with `vote`"), "{error}");
        }
        let own = read("It says {\"vote\":\"approve\"}. I say {\"vote\":\"reject\"}").unwrap();
        assert_eq!(own.vote, Vote::Reject);
        assert_eq!(read("{\"vote\":\"approve\"}").unwrap().vote, Vote::Approve);
    }

    #[test]
    fn vote_has_reasoning_and_confidence() {
        let ballot = read(r#" {"vote":"reject","reasoning":" Too early.","confidence":0.7} "#);
        let expected = Ballot {
            vote: Vote::Reject,
            reasoning: "Too early.".into(),
            confidence: Some(0.7),
        };
        assert_eq!(ballot.unwrap(), expected);
    }

    #[test]
    fn vote_is_found_in_every_form_of_an_answer() {
        let object = r#"{"vote":"approve","reasoning":"r"}"#;
        for form in [
            "{}",
            "\u{feff}{}",
            "```json\n{}\n```",
            "```Json\n{}\n```",
            "```jsonc\r\n{}\r\n```",
            "```\n{}\n```",
            "```json {} ```",
            "~~~json\n{}\n~~~",
            "I think so.\n{}",
            "Here is my vote:\n```json\n{}\n```\nThat is all.",
            "The set {a, b} and the template {{name}} are fine: {}",
            "{}\n{}",
            "{\"note\":{\"vote\":\"reject\"}}\n{}",
            "1 < 2. {}",
            "<think>or {\"vote\":\"reject\"}?</think>{}",
            "<THINK>a</think>\n<thinking>b</thinking>\n{}",
            "<think>x</think>\n```json\n{}\n```",
        ] {
            let answer = form.replace("{}", object);
            let ballot = read(&answer).unwrap_or_else(|error| panic!("{answer}: {error}"));
            assert_eq!(ballot.vote, Vote::Approve, "{answer}");
            assert_eq!(ballot.reasoning, "r", "{answer}");
        }
    }

    #[test]
    fn word_counts_by_its_value() {
        for word in ["APPROVE", "Approve", " approve ", "approve\\n"] {
            let ballot = read(&format!(r#"{{"vote":"{word}"}}"#)).unwrap();
            assert_eq!(ballot.vote, Vote::Approve, "{word}");
        }
    }

    #[test]
    fn optional_member_that_cannot_be_used_is_omitted_alone() {
        for (members, reasoning, confidence) in [
            (r#""confidence":"0.9""#, "", Some(0.9)),
            (r#""confidence":90"#, "", None),
            (r#""confidence":"high""#, "", None),
            (r#""confidence":"NaN""#, "", None),
            (r#""confidence":null,"reasoning":null"#, "", None),
            (r#""reasoning":{"a":1},"confidence":1"#, "", Some(1.0)),
            (r#""reasoning":" ","mood":"good""#, "", None),
            (r#""reasoning":"r","confidence":-1"#, "r", None),
        ] {
            let ballot = read(&format!(r#"{{"vote":"approve",{members}}}"#)).unwrap();
            assert_eq!(ballot.reasoning, reasoning, "{members}");
            assert_eq!(ballot.confidence, confidence, "{members}");
        }
    }

    #[test]
    fn answer_without_one_clear_vote_is_refused_with_the_reason() {
        let many = r#"x {"a":1}"#.repeat(MAX_OBJECTS + 1);
        let long = " x".repeat(MAX_ANSWER_BYTES);
        for (answer, reason) in [
            ("I approve.", "no JSON object with `vote`"),
            ("approve", "no JSON object with `vote`"),
            ("**Vote: approve**", "no JSON object with `vote`"),
            ("", "no JSON object with `vote`"),
            ("{'vote':'approve'}", "no JSON object with `vote`"),
            (r#"["approve"]"#, "not an object"),
            (r#""approve""#, "not an object"),
            (r#"{"reasoning":"x"}"#, "`vote` is missing"),
            (r#"{"vote":null}"#, "`vote` is missing"),
            (r#"{"result":{"vote":"approve"}}"#, "`vote` is missing"),
            (r#"{"vote":"yes"}"#, "\"yes\""),
            (r#"{"vote":true}"#, "`vote` is not text"),
            (r#"{"vote":"approve","from":"beta"}"#, "`from`"),
            (r#"{"vote":"approve","vote":"reject"}"#, "duplicate"),
            (
                r#"{"vote":"reject"} or {"vote":"approve"}"#,
                "different votes",
            ),
            (r#"{"vote":"approve"} or {"vote":"yes"}"#, "\"yes\""),
            (r#"Sure: {"vote":"approve",}"#, "not JSON"),
            (
                r#"{"quoted":{"vote":"approve"},"vote":"reject",}"#,
                "not JSON",
            ),
            (
                r#"{'quoted': {"vote":"approve"}, 'vote': 'reject'}"#,
                "no JSON object with `vote`",
            ),
            (r#"<think>{"vote":"approve"}"#, "has no `</think>`"),
            (
                r#"<think>{"vote":"approve"}</think>"#,
                "no JSON object with `vote`",
            ),
            (
                r#"It says <think>{"vote":"approve"}</think>"#,
                "`<think>` after other text",
            ),
            (&many, "more than 64 objects"),
            (&long[1..], "longer than"),
        ] {
            let error = read(answer).unwrap_err();
            assert!(error.contains(reason), "{answer:.80}: {error}");
        }
    }

    #[test]
    fn long_reasoning_is_cut() {
        let long = "é".repeat(MAX_REASONING_BYTES);
        let ballot = read(&format!(r#"{{"vote":"approve","reasoning":"{long}"}}"#)).unwrap();
        assert!(ballot.reasoning.len() <= MAX_REASONING_BYTES + '…'.len_utf8());
        assert!(ballot.reasoning.ends_with('…'));
    }
}
