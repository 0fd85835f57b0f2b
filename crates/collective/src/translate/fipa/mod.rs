//! FIPA ACL, as the JSON of Heretek A2A §12.4: `{performative, sender, receiver, content, language, ontology}`, with the other parameters of FIPA
//! SC00061 by their names.
//!
//! | ACL | envelope |
//! |---|---|
//! | `sender`, `receiver` | `from`, `agent` |
//! | `reply-with`, `in-reply-to` | `id`, `metadata.parentId` |
//! | `conversation-id` | `metadata.correlationId`: what proposal, votes and decision share |
//! | `content` | `content`; a bare text becomes an object |
//! | `X-heretek` | the fields of an envelope without a parameter |
//! | any other | `metadata.fipa` |
//!
//! `language` is `json` and `ontology` `heretek-v1` (Heretek A2A §12.4), unless the original ACL message had other values.
//!
//! # Where Heretek A2A §12 contradicts itself
//! - §12.3 makes `agree` and `refuse` a `response (vote: …)`, but a vote is of the type `vote` (§10.4) and a `response` is what a service
//!   answers (§9.2). Here `agree` and `refuse` are a `vote` where they name a proposal (`conversation-id`, `in-reply-to` or
//!   `content.proposalId`), and else the `response` of the table, with `vote` beside its `result`. Both are written as `agree` or `refuse`.
//! - The code of §12.4 writes every decision as `accept-proposal`. The table of §12.3 has `reject-proposal` too, and a rejection must not
//!   read as an acceptance: the decision's `result` determines the performative.
//! - The code of §12.4 lacks votes and reads `agree` as a `message`. The table has precedence.
//! - An abstention is undefined. `refuse` would count it as a rejection, so it is an `inform` with its type in `X-heretek`.
//! - The code of §12.4 writes everything else as `inform`, which asserts its content. An error is therefore `failure`, or `not-understood`
//!   if a message was unusable.

mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::from_fipa;
pub use write::to_fipa;

use crate::{Envelope, Kind, Vote};

/// The parameter for fields without a place in ACL. FIPA reserves names with `X-` for users.
const EXTENSION_FIELD: &str = "X-heretek";

/// The member of `metadata` with the parameters of ACL that envelopes lack.
const METADATA_FIELD: &str = "fipa";

/// In `metadata.fipa`: the field of the envelope's content with the whole content of the ACL message.
const BARE_CONTENT_FIELD: &str = "bare";

/// In `metadata.fipa`: the fields of the envelope's content that the ACL message lacked.
const ADDED_FIELDS: &str = "added";

const LANGUAGE: &str = "json";
const ONTOLOGY: &str = "heretek-v1";

/// Returns the performative of an envelope (Heretek A2A §12.3).
fn performative(envelope: &Envelope) -> &'static str {
    match envelope.kind() {
        Kind::Request => "request",
        Kind::Proposal => "propose",
        Kind::Vote | Kind::Response => match envelope.content_str("vote").and_then(Vote::from_name)
        {
            Some(Vote::Approve) => "agree",
            Some(Vote::Reject) => "refuse",
            Some(Vote::Abstain) | None => "inform",
        },
        Kind::Decision if envelope.content_str("result") == Some("approved") => "accept-proposal",
        Kind::Decision => "reject-proposal",
        Kind::Error if concerns_the_message(envelope) => "not-understood",
        Kind::Error => "failure",
        _ => "inform",
    }
}

/// Returns whether the error has a number of the range 2xxx.
fn concerns_the_message(error: &Envelope) -> bool {
    let code = error.error_code();
    code.is_some_and(|code| (2000..3000).contains(&code.number()))
}
