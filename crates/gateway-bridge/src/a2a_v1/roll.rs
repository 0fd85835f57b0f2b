//! Who is behind the gateway, and how they are (000 §6).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::dial::failed;
use crate::{TRIAD, Wait, members};
use collective::{Envelope, ErrorCode, GATEWAY, Kind};
use peer::{Member, MemberStatus, PeerError, excerpt};

use super::errors;
use super::line::Line;

/// The most agents that are listed.
const MOST: usize = 1000;

/// The longest name, in characters.
const LONGEST: usize = 128;

/// How long who wants the list waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of the agents.
#[derive(Default)]
pub(crate) struct Roll {
    known: Mutex<BTreeMap<String, Known>>,
    /// What we are called among the agents, where we are one.
    own: OnceLock<String>,
    asking: Mutex<Option<Asking>>,
    /// A list says not what it answers, so one is asked for at a time.
    turn: tokio::sync::Mutex<()>,
    /// A list was asked for and has not come.
    mute: AtomicBool,
}

#[derive(Debug, Clone)]
struct Known {
    role: Option<String>,
    status: MemberStatus,
}

/// A list that was asked for.
struct Asking {
    id: String,
    correlation_id: String,
    answer: oneshot::Sender<Result<(), PeerError>>,
}

impl Roll {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asking(&self) -> MutexGuard<'_, Option<Asking>> {
        self.asking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// We are one of the agents, by this name, and not to be listed.
    pub(crate) fn is_us(&self, name: &str) {
        // The first name counts: it is the one of this connection.
        let _ = self.own.set(name.to_owned());
    }

    /// The names that the gateway told when it was greeted: all that is known until it lists its agents.
    pub(crate) fn begin<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let unknown = Known {
            role: None,
            status: MemberStatus::Unknown,
        };
        let names = names.filter(|name| is_name(name)).take(MOST);
        *self.known() = names
            .map(|name| (name.to_owned(), unknown.clone()))
            .collect();
    }

    /// The connection is lost.
    pub(super) fn give_up(&self, why: &str) {
        if let Some(asking) = self.asking().take() {
            let message = format!("the connection to the gateway was lost: {why}");
            // Whoever asked may have gone.
            drop(
                asking
                    .answer
                    .send(Err(failed(ErrorCode::ConnectionReset, message))),
            );
        }
    }
}

/// A name that can be called, and is not the triad's.
fn is_name(name: &str) -> bool {
    let clean = |c: char| !c.is_control() && c != '/';
    !name.is_empty() && name != TRIAD && name.chars().count() <= LONGEST && name.chars().all(clean)
}

/// Asks who is there. Where the gateway does not say, what is known must do; no message waits for one that was silent
/// before.
pub(super) async fn discover(line: &Line, wait: Wait) -> Result<Vec<Member>, PeerError> {
    let patience = match wait {
        Wait::List => PATIENCE.min(line.settings.timeout),
        Wait::Send if line.roll.mute.load(Ordering::SeqCst) => Duration::ZERO,
        Wait::Send => line.settings.brief(),
    };
    let asked = if patience.is_zero() {
        None
    } else {
        let asked = async {
            let _turn = line.roll.turn.lock().await;
            ask(line).await
        };
        timeout(patience, asked).await.ok()
    };
    if asked.is_none() {
        line.roll.mute.store(true, Ordering::SeqCst);
    }
    let known = line.roll.known().clone();
    match asked {
        Some(Err(error)) if known.is_empty() || !line.is_open() => return Err(error),
        None if known.is_empty() => {
            let message = format!(
                "the gateway at `{}` does not say who is behind it",
                line.settings.shown()
            );
            return Err(failed(ErrorCode::ConnectionTimeout, message));
        }
        _ => {}
    }
    let member = |(name, known): (&String, &Known)| {
        members::member(name, known.role.as_deref(), known.status, &line.settings)
    };
    Ok(known.iter().map(member).collect())
}

async fn ask(line: &Line) -> Result<(), PeerError> {
    let correlation_id = format!("disc-{}", line.env.uuid());
    let question = line
        .envelope(Kind::Discovery, json!({"action": "list"}))
        .with_metadata("correlationId", correlation_id.clone());
    let (answer, answered) = oneshot::channel();
    let _asked = Asked(&line.roll);
    *line.roll.asking() = Some(Asking {
        id: question.id().unwrap_or_default().to_owned(),
        correlation_id,
        answer,
    });
    line.tell(question).await?;
    let gone = || {
        failed(
            ErrorCode::ConnectionReset,
            "the connection to the gateway was lost",
        )
    };
    answered.await.unwrap_or_else(|_| Err(gone()))
}

/// A question is one only as long as somebody waits for its answer: an error that comes later is not about it.
struct Asked<'a>(&'a Roll);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.asking().take();
    }
}

/// A list of agents.
pub(super) fn listed(line: &Line, envelope: &Envelope) {
    let Some(agents) = envelope.content().get("agents").and_then(Value::as_array) else {
        return line.warn("ignored a `discovery` without `agents`");
    };
    let read = |agent: &Value| {
        let text = |field: &str| agent.get(field).and_then(Value::as_str);
        let is_us = |name: &str| line.roll.own.get().is_some_and(|own| own == name);
        let name = text("name").filter(|name| is_name(name) && !is_us(name))?;
        // A path tells who runs the machine, and nobody needs it to call an agent.
        let known = Known {
            role: text("role").map(str::to_owned),
            status: MemberStatus::from_word(text("status").unwrap_or_default()),
        };
        Some((name.to_owned(), known))
    };
    *line.roll.known() = agents.iter().filter_map(read).take(MOST).collect();
    line.roll.mute.store(false, Ordering::SeqCst);
    if let Some(asking) = line.roll.asking().take() {
        // Whoever asked may have gone.
        drop(asking.answer.send(Ok(())));
    }
}

/// Whether an error answers the question who is there. It is taken then.
pub(super) fn refused(line: &Line, envelope: &Envelope) -> bool {
    let mut asking = line.roll.asking();
    let names = [envelope.correlation_id(), envelope.parent_id()];
    let ours = asking.as_ref().is_some_and(|asking| {
        let is_its = |name: &str| name == asking.correlation_id || name == asking.id;
        names.into_iter().flatten().any(is_its)
    });
    // One that does not say what it answers is this one's only where nothing else is under way.
    let alone = names == [None, None] && asking.is_some() && line.ledger.open().is_empty();
    if !ours && !alone {
        return false;
    }
    if let Some(asking) = asking.take() {
        drop(asking.answer.send(Err(errors::read(envelope).into_error())));
    }
    true
}

/// Whether a list is being waited for.
pub(super) fn is_asking(line: &Line) -> bool {
    line.roll.asking().is_some()
}

/// How an agent is, told by the gateway or by itself. Whoever waits for it hears of a change.
pub(super) fn status(line: &Line, envelope: &Envelope) {
    let from = envelope.from();
    let own = from.filter(|from| *from != GATEWAY);
    let Some(agent) = envelope
        .said("agent")
        .or(own)
        .filter(|agent| is_name(agent))
    else {
        return line.debug(|| "ignored a `status` that names no agent".to_owned());
    };
    if own.is_some_and(|own| own != agent) {
        return line.warn(&format!(
            "ignored what another says of `{}`",
            excerpt(agent)
        ));
    }
    let status = MemberStatus::from_word(envelope.said("status").unwrap_or_default());
    let before = {
        let mut known = line.roll.known();
        if known.len() >= MOST && !known.contains_key(agent) {
            return;
        }
        let known = known.entry(agent.to_owned()).or_insert(Known {
            role: None,
            status: MemberStatus::Unknown,
        });
        std::mem::replace(&mut known.status, status)
    };
    if before == status {
        return;
    }
    for entry in line.ledger.open() {
        if entry.agent == agent {
            let data = json!({"agent": agent, "status": status.as_str()});
            entry.step(&format!("{agent} is {}", status.as_str()), Some(data));
        }
    }
}
