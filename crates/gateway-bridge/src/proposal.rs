//! Proposals and their deadlines.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use a2a::Part;
use collective::ErrorCode;
use peer::{PeerError, PeerErrorKind};

/// The maximum voting time of a proposal. A later deadline is shortened to it.
const MAX_VOTING_TIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A proposal (Heretek A2A §10.3).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Proposal {
    /// The text of the proposal.
    pub text: String,
    /// The reasoning, if given.
    pub reasoning: Option<String>,
    /// The voting time.
    pub open_for: Duration,
    /// The deadline in milliseconds since 1970; `None` if it is too far in the future.
    pub deadline: Option<u64>,
}

impl Proposal {
    /// Reads a proposal from a message: text, or a data part `{proposal, reasoning, deadline}`. Text next to a data
    /// part is the proposal, or further reasoning if the data names one. `now` is the time of day. `default_duration` is the
    /// voting time of a proposal without a deadline.
    ///
    /// # Errors
    /// Error 2005: there is no proposal, a field has the wrong type, or the deadline has passed.
    pub(crate) fn read(
        parts: &[Part],
        now: SystemTime,
        default_duration: Duration,
    ) -> Result<Self, PeerError> {
        let mut proposal = None;
        let mut reasoning = None;
        let mut open_for = default_duration.min(MAX_VOTING_TIME);
        let mut explicit_deadline = None;
        let mut texts = Vec::new();
        for part in parts {
            match part.kind() {
                "text" => texts.extend(
                    part.json()["text"]
                        .as_str()
                        .filter(|text| !text.trim().is_empty()),
                ),
                "data" => {
                    let data = &part.json()["data"];
                    proposal = text_field(data, "proposal")?.or(proposal);
                    reasoning = text_field(data, "reasoning")?.or(reasoning);
                    if let Some(deadline) = data.get("deadline").filter(|value| !value.is_null()) {
                        let remaining = time_until(deadline, now)?;
                        open_for = remaining.min(MAX_VOTING_TIME);
                        explicit_deadline =
                            deadline.as_u64().filter(|_| remaining <= MAX_VOTING_TIME);
                    }
                }
                kind => {
                    return Err(invalid_proposal(format!(
                        "a proposal is text or a data part {{proposal, reasoning, deadline}}; a {kind} part is not allowed"
                    )));
                }
            }
        }
        let text = texts.join("\n\n");
        let (text, extra_text) = match proposal {
            Some(proposal) => (proposal, (!text.is_empty()).then_some(text)),
            None => (text, None),
        };
        if text.is_empty() {
            let message = "the message has no proposal: send it as text, or as a data part with the field `proposal`";
            return Err(invalid_proposal(message.into()));
        }
        let reasoning = match (reasoning, extra_text) {
            (Some(reasoning), Some(extra_text)) => Some(format!("{reasoning}\n\n{extra_text}")),
            (reasoning, extra_text) => reasoning.or(extra_text),
        };
        Ok(Self {
            text,
            reasoning,
            open_for,
            deadline: explicit_deadline,
        })
    }
}

fn text_field(data: &Value, field: &str) -> Result<Option<String>, PeerError> {
    match data.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
        Some(_) => Err(invalid_proposal(format!(
            "`{field}` of a proposal must be text"
        ))),
    }
}

/// Returns the time left until `deadline`, in milliseconds since 1970.
fn time_until(deadline: &Value, now: SystemTime) -> Result<Duration, PeerError> {
    let millis = deadline.as_u64().ok_or_else(|| {
        invalid_proposal(
            "`deadline` of a proposal must be a number of milliseconds since 1970".into(),
        )
    })?;
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let remaining = Duration::from_millis(millis).checked_sub(now);
    remaining
        .filter(|remaining| !remaining.is_zero())
        .ok_or_else(|| {
            invalid_proposal(format!(
                "the deadline {millis} has passed (now: {}); no member was asked",
                now.as_millis()
            ))
        })
}

/// Returns the error for an invalid proposal.
pub(crate) fn invalid_proposal(message: String) -> PeerError {
    PeerError::new(PeerErrorKind::Gateway(ErrorCode::InvalidContent), message).undelivered()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    const DEFAULT_DURATION: Duration = Duration::from_secs(300);

    fn data(value: Value) -> Part {
        Part::data(value.as_object().unwrap().clone())
    }

    fn read(parts: &[Part]) -> Result<Proposal, PeerError> {
        let now = UNIX_EPOCH + Duration::from_millis(1_000);
        Proposal::read(parts, now, DEFAULT_DURATION)
    }

    #[test]
    fn text_and_data_are_a_proposal() {
        let text = |text: &str| Part::text(text.into());
        let whole = || data(json!({"proposal": "Move.", "reasoning": "Full.", "deadline": 3_500}));
        for (parts, reasoning, open_for_ms, deadline) in [
            (vec![text("Move.")], None, 300_000, None),
            (vec![whole()], Some("Full."), 2_500, Some(3_500)),
            (
                vec![text("Because."), whole()],
                Some("Full.\n\nBecause."),
                2_500,
                Some(3_500),
            ),
            (
                vec![data(json!({"proposal": "Move.", "deadline": u64::MAX}))],
                None,
                7 * 24 * 3_600_000,
                None,
            ),
        ] {
            let expected = Proposal {
                text: "Move.".into(),
                reasoning: reasoning.map(str::to_owned),
                open_for: Duration::from_millis(open_for_ms),
                deadline,
            };
            assert_eq!(read(&parts).unwrap(), expected);
        }
        assert_eq!(MAX_VOTING_TIME, Duration::from_secs(7 * 24 * 3_600));
    }

    #[test]
    fn h_41_past_deadline_or_empty_proposal_is_rejected_unasked() {
        let file = Part::file(Some("https://e.com/a".into()), None, None, None);
        let past = |deadline: u64| vec![data(json!({"proposal": "Move.", "deadline": deadline}))];
        for parts in [
            past(0),
            past(999),
            past(1_000),
            vec![],
            vec![Part::text(" ".into())],
            vec![data(json!({"reasoning": "x"}))],
            vec![data(json!({"proposal": 7}))],
            vec![data(json!({"proposal": "x", "deadline": "tomorrow"}))],
            vec![Part::text("x".into()), file],
        ] {
            let error = read(&parts).unwrap_err();
            let invalid = PeerErrorKind::Gateway(ErrorCode::InvalidContent);
            assert_eq!(error.kind, invalid, "{parts:?}");
            assert_eq!(error.delivered, peer::Delivered::No, "{parts:?}");
        }
    }
}
