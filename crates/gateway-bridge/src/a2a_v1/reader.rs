//! Reads frames, pings a silent gateway (Heretek A2A appendix A.2), and lists the agents (§6).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};

use crate::dial::{explain_close, failed};
use crate::settings::{is_keep_alive, without_token};
use crate::signer::without_foreign_mark;
use crate::{ListPurpose, members};
use collective::{CloseCode, Envelope, ErrorCode, GATEWAY, Kind, MAX_FRAME_BYTES, SUBPROTOCOL};
use egress::websocket::{Frame, Receiver};
use peer::{Member, PeerError, excerpt, status_name};

use super::connection::A2aV1Connection;
use super::registry::{is_valid_name, reported_status};
use super::replies;

/// The number of invalid frames in a row that closes the connection.
const MAX_BAD_FRAMES: usize = 5;

/// The maximum number of unanswered pings. The connection closes when the next one is due.
const MAX_UNANSWERED_PINGS: usize = 2;

/// The timeout of a caller that requests the list.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads frames until the connection ends.
pub(super) async fn run(connection: Arc<A2aV1Connection>, mut receiver: Receiver) {
    let mut reader = FrameReader {
        connection: &connection,
        bad_frames: 0,
        unanswered_pings: 0,
    };
    let mut next_ping = Instant::now() + connection.settings.heartbeat;
    while connection.is_open() {
        tokio::select! {
            () = connection.closed.cancelled() => {}
            frame = receiver.next() => {
                // Every frame shows that the gateway is alive.
                reader.unanswered_pings = 0;
                next_ping = Instant::now() + connection.settings.heartbeat;
                reader.handle_frame(frame).await;
            }
            () = sleep_until(next_ping) => {
                next_ping = Instant::now() + connection.settings.heartbeat;
                reader.ping().await;
            }
        }
    }
}

struct FrameReader<'a> {
    connection: &'a Arc<A2aV1Connection>,
    bad_frames: usize,
    unanswered_pings: usize,
}

impl FrameReader<'_> {
    /// Pings the gateway.
    async fn ping(&mut self) {
        if self.unanswered_pings == MAX_UNANSWERED_PINGS {
            let reason = "the gateway did not answer two pings in a row";
            self.connection
                .close_with(CloseCode::GoingAway, reason)
                .await;
            return;
        }
        self.unanswered_pings += 1;
        self.connection.pinging.store(true, Ordering::SeqCst);
        let ping = self.connection.envelope(Kind::Ping, json!({}));
        // A lost connection ends the loop.
        drop(self.connection.send(ping).await);
    }

    async fn handle_frame(&mut self, frame: Frame) {
        match frame {
            Frame::Text(text) if text.len() > MAX_FRAME_BYTES => {
                let reason = format!(
                    "the gateway sent a frame of {} bytes; the limit is {MAX_FRAME_BYTES}",
                    text.len()
                );
                self.connection
                    .close_with(CloseCode::TooLarge, &reason)
                    .await;
            }
            Frame::Text(text) => self.read(&text).await,
            Frame::Binary(bytes) => {
                self.drop_frame(&format!("{bytes} bytes that are not text"))
                    .await
            }
            Frame::Ping | Frame::Pong => {}
            Frame::Closed { code, reason } => {
                let reason = without_token(&reason, &self.connection.settings);
                let why = explain_close(code, &reason, SUBPROTOCOL);
                self.connection.mark_closed(&why, false);
            }
            Frame::Broken(error) => self.connection.mark_closed(&error.to_string(), false),
        }
    }

    async fn read(&mut self, text: &str) {
        if is_keep_alive(text) {
            return;
        }
        let text = without_token(text, &self.connection.settings);
        match (self.connection.codec.decode)(&text) {
            Ok(envelope) => {
                self.bad_frames = 0;
                let envelope = without_foreign_mark(envelope, self.connection.marks_signatures);
                self.handle_envelope(envelope).await;
            }
            // A later version of the protocol may define unknown types.
            Err(error) if error.code == ErrorCode::UnknownType => {
                self.connection
                    .debug(|| format!("ignored: {}", error.message));
            }
            Err(error) => self.drop_frame(&error.message).await,
        }
    }

    async fn drop_frame(&mut self, description: &str) {
        self.bad_frames += 1;
        self.connection.warn(&format!(
            "dropped a frame ({} of {MAX_BAD_FRAMES}): {description}",
            self.bad_frames
        ));
        if self.bad_frames == MAX_BAD_FRAMES {
            let reason = "the gateway sent too many invalid frames";
            self.connection.close_with(CloseCode::Policy, reason).await;
        }
    }

    async fn handle_envelope(&mut self, envelope: Envelope) {
        match envelope.kind() {
            Kind::Ping => {
                let pong = self.connection.envelope(Kind::Pong, json!({}));
                let pong = match envelope.id() {
                    Some(id) => pong.with_metadata("parentId", id),
                    None => pong,
                };
                drop(self.connection.send(pong).await);
            }
            Kind::Pong => self.connection.pinging.store(false, Ordering::SeqCst),
            Kind::Status => handle_status(self.connection, &envelope),
            Kind::Discovery => handle_list(self.connection, &envelope),
            Kind::Message
            | Kind::Response
            | Kind::Error
            | Kind::Vote
            | Kind::Decision
            | Kind::Event => replies::handle(self.connection, envelope),
            Kind::Disconnect => self.handle_disconnect(&envelope),
            // Ignore unneeded acknowledgements and messages between other agents and gateways.
            _ => self
                .connection
                .debug(|| format!("ignored a `{}`", envelope.kind())),
        }
    }

    /// Handles the gateway's `disconnect` (Heretek A2A §5.5). After `manual` only a new call connects again.
    fn handle_disconnect(&self, envelope: &Envelope) {
        let reason = excerpt(envelope.content_str("reason").unwrap_or("no reason"));
        let message = format!("the gateway disconnected ({reason})");
        self.connection.mark_closed(&message, reason == "manual");
    }
}

/// Lists the agents. If the gateway does not answer, returns the agents of its last list. A message does not wait for the
/// list if the previous request had no answer.
///
/// # Errors
/// The gateway refused the request, or it did not answer and no agent is known yet.
pub(super) async fn list(
    connection: &A2aV1Connection,
    purpose: ListPurpose,
) -> Result<Vec<Member>, PeerError> {
    let registry = &connection.agents;
    let wait = match purpose {
        ListPurpose::List => LIST_TIMEOUT.min(connection.settings.timeout),
        ListPurpose::Send if registry.is_silent() => Duration::ZERO,
        ListPurpose::Send => connection.settings.list_wait(),
    };
    let answer = if wait.is_zero() {
        None
    } else {
        let exchange = async {
            let _turn = registry.list_lock.lock().await;
            request(connection).await
        };
        timeout(wait, exchange).await.ok()
    };
    if answer.is_none() {
        registry.set_silent();
    }
    let agents = registry.snapshot();
    match answer {
        Some(Err(error)) if agents.is_empty() || !connection.is_open() => return Err(error),
        None if agents.is_empty() => {
            let message = format!(
                "the gateway at `{}` does not list its agents",
                connection.settings.display_url()
            );
            return Err(failed(ErrorCode::ConnectionTimeout, message));
        }
        _ => {}
    }
    let member = |(name, agent): (&String, &super::registry::AgentEntry)| {
        members::member(
            name,
            agent.role.as_deref(),
            agent.description.as_deref(),
            agent.status,
            &connection.settings,
        )
    };
    Ok(agents.iter().map(member).collect())
}

async fn request(connection: &A2aV1Connection) -> Result<(), PeerError> {
    let correlation_id = format!("disc-{}", connection.env.uuid());
    let request = connection
        .envelope(Kind::Discovery, json!({"action": "list"}))
        .with_metadata("correlationId", correlation_id.clone());
    let id = request.id().unwrap_or_default().to_owned();
    let mut pending = connection.agents.start_list(&id, correlation_id);
    connection.send(request).await?;
    let answer = (&mut pending.response).await;
    answer.unwrap_or_else(|_| {
        Err(failed(
            ErrorCode::ConnectionReset,
            "the connection to the gateway was lost",
        ))
    })
}

/// Applies a list of agents.
fn handle_list(connection: &A2aV1Connection, envelope: &Envelope) {
    if !connection.agents.replace(envelope) {
        connection.warn("ignored a `discovery` without `agents`");
    }
}

/// Applies a status message from the gateway or from the agent itself, and reports the change on the agent's tasks.
fn handle_status(connection: &A2aV1Connection, envelope: &Envelope) {
    let sender = envelope.from().filter(|from| *from != GATEWAY);
    let Some(agent) = envelope
        .content_str("agent")
        .or(sender)
        .filter(|agent| is_valid_name(agent))
    else {
        return connection.debug(|| "ignored a `status` that names no agent".to_owned());
    };
    if sender.is_some_and(|sender| sender != agent) {
        return connection.warn(&format!(
            "ignored a status of `{}` that another agent sent",
            excerpt(agent)
        ));
    }
    let status = reported_status(envelope.content_str("status"));
    if !connection.agents.set_status(agent, status) {
        return;
    }
    for task in connection.tasks.unfinished() {
        if task.agent == agent {
            let data = json!({"agent": agent, "status": status_name(status)});
            task.step(&format!("{agent} is {}", status_name(status)), Some(data));
        }
    }
}
