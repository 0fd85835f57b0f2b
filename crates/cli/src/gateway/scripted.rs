//! Parses the agents of an embedded gateway from the command line: `NAME=HOW`.

use std::time::Duration;

use collective::Vote;
use gateway_bridge::client::{Ballot, Script};

/// The hint for an invalid value.
const FORM: &str = "write NAME=approve, NAME=reject, NAME=abstain, NAME=silent or NAME=reply:TEXT";

/// The delay of scripted agents in milliseconds. It lets a user watch the votes arrive one by one.
const REPLY_DELAY_MS: u64 = 300;

/// Reads `NAME=HOW`.
///
/// # Errors
/// The value is invalid. The message shows the expected form.
pub(crate) fn scripted(text: &str) -> Result<Script, String> {
    let (name, how) = text.split_once('=').ok_or(FORM)?;
    if name.is_empty() {
        return Err(FORM.to_owned());
    }
    let (vote, reply) = match how {
        "approve" => (Some(Vote::Approve), None),
        "reject" => (Some(Vote::Reject), None),
        "abstain" => (Some(Vote::Abstain), None),
        "silent" => (None, None),
        how => (None, Some(how.strip_prefix("reply:").ok_or(FORM)?)),
    };
    Ok(Script {
        name: name.to_owned(),
        ballot: vote.map(|vote| Ballot {
            vote,
            reasoning: Script::REASON.to_owned(),
            confidence: None,
        }),
        delay: Duration::from_millis(REPLY_DELAY_MS),
        reply: reply.unwrap_or(Script::REPLY).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn parses_agent_name_and_behavior() {
        let vote = |text| scripted(text).unwrap().ballot.map(|ballot| ballot.vote);
        assert_eq!(vote("alpha=approve"), Some(Vote::Approve));
        assert_eq!(vote("alpha=reject"), Some(Vote::Reject));
        assert_eq!(vote("alpha=abstain"), Some(Vote::Abstain));
        assert_eq!(vote("alpha=silent"), None);
        let coder = scripted("coder=reply:a=b: {text}").unwrap();
        assert_eq!(
            (coder.name.as_str(), coder.reply.as_str()),
            ("coder", "a=b: {text}")
        );
    }

    #[test]
    fn bad_agent_error_shows_the_form() {
        for text in ["alpha", "=approve", "alpha=", "alpha=yes"] {
            assert_eq!(scripted(text).unwrap_err(), FORM, "{text}");
        }
    }
}
