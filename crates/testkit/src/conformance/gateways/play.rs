//! One connection at work: what comes in is written down, and answered as the script says.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::net::tcp::OwnedReadHalf;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::frame::{self, Incoming, Reader};
use super::line::Line;
use super::log::What;
use super::script::{Act, Gate};
use super::stage::{Part, Stage};

type Playing<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>>;

/// Plays until the connection is over. `first` is done at once, and sees `upgrade`.
pub(super) async fn connection(
    stage: Arc<Stage>,
    line: Arc<Line>,
    mut reader: Reader<OwnedReadHalf>,
    first: Part,
    upgrade: Value,
) {
    let mute = matches!(first, Part::Door(index) if stage.profile.upgrade[index].mute);
    stage.joined(&line);
    let mut plays = JoinSet::new();
    begin(&mut plays, &stage, &line, first, upgrade).await;
    loop {
        let received = tokio::select! {
            () = line.ended.cancelled() => break,
            () = line.hung.cancelled() => {
                line.ended.cancelled().await;
                break;
            }
            Some(_) = plays.join_next(), if !plays.is_empty() => continue,
            received = reader.next() => received,
        };
        let Ok(Some(received)) = received else { break };
        if !hear(&mut plays, &stage, &line, mute, received).await {
            break;
        }
    }
    stage.left(&line);
    stage.log.add(line.number, What::Gone);
}

/// Answers one thing. False where the connection is over.
async fn hear(
    plays: &mut JoinSet<()>,
    stage: &Arc<Stage>,
    line: &Arc<Line>,
    mute: bool,
    received: Incoming,
) -> bool {
    let log = |what| stage.log.add(line.number, what);
    match received {
        Incoming::Text(bytes) => {
            let json = serde_json::from_slice::<Value>(&bytes);
            let is_json = json.is_ok();
            let frame =
                json.unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned().into());
            log(What::Text(frame.clone()));
            let part = stage.part(line, &frame, is_json);
            begin(plays, stage, line, part, frame).await;
        }
        Incoming::Binary(bytes) => log(What::Binary(bytes.len())),
        Incoming::Pong(_) => log(What::Pong),
        Incoming::Ping(payload) => {
            log(What::Ping);
            if !mute {
                return line.say(frame::PONG, &payload).await.is_ok();
            }
        }
        Incoming::Close { code, reason } => {
            log(What::Close { code, reason });
            if !line.is_closing() {
                // A client that does not wait for the answer is gone, and nothing is lost.
                let _ = line.say(frame::CLOSE, &frame::closing(code, "")).await;
            }
            return false;
        }
    }
    true
}

/// Does acts up to the first pause, so that what needs none is done in the order of the frames; the rest goes on beside.
async fn begin(
    plays: &mut JoinSet<()>,
    stage: &Arc<Stage>,
    line: &Arc<Line>,
    part: Part,
    frame: Value,
) {
    let (stage, line) = (Arc::clone(stage), Arc::clone(line));
    let mut play: Pin<Box<dyn Future<Output = ()> + Send>> =
        Box::pin(async move { whole(&stage, &line, part, &frame).await });
    let done = poll_fn(|context| Poll::Ready(play.as_mut().poll(context))).await;
    if done.is_pending() {
        plays.spawn(play);
    }
}

/// Acts up to their end, or until they are stopped.
async fn whole(stage: &Stage, line: &Line, part: Part, frame: &Value) {
    let acts = acts(stage, line, stage.acts(part), frame, 0);
    let rule = match part {
        Part::Rule(index) => Some(&stage.profile.on[index]),
        _ => None,
    };
    // An error means that the other side is gone, or that the acts have ended the connection.
    let Some((rule, name)) = rule.and_then(|rule| Some((rule, rule.name.as_deref()?))) else {
        let _ = acts.await;
        return;
    };
    let stop = stage.begin(stage.vars(line, frame, 0).text(name));
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        _ = acts => return,
    }
    let _ = self::acts(stage, line, &rule.stopped, frame, 0).await;
}

fn acts<'a>(
    stage: &'a Stage,
    line: &'a Line,
    acts: &'a [Act],
    frame: &'a Value,
    round: u64,
) -> Playing<'a> {
    Box::pin(async move {
        for act in acts {
            one(stage, line, act, frame, round).await?;
        }
        Ok(())
    })
}

/// Does one act.
pub(super) async fn one(
    stage: &Stage,
    line: &Line,
    act: &Act,
    frame: &Value,
    round: u64,
) -> io::Result<()> {
    let vars = stage.vars(line, frame, round);
    match act {
        Act::Send(value) => line.json(&vars.value(value)).await,
        Act::SendAll(value) => {
            let text = vars.value(value).to_string();
            for line in stage.lines() {
                // One that has gone does not keep it from the others.
                let _ = line.text(&text).await;
            }
            Ok(())
        }
        Act::Text(text) => line.text(&vars.text(text)).await,
        Act::Frame(shape) => line.frame(shape, &vars).await,
        Act::Raw(pieces) => line.pieces(pieces, &vars).await,
        Act::DelayMs(ms) => {
            sleep(Duration::from_millis(*ms)).await;
            Ok(())
        }
        Act::Await(Gate::Named(gate)) => {
            stage.opened(&vars.text(gate)).await;
            Ok(())
        }
        Act::Await(Gate::Bounded {
            gate,
            within_ms,
            late,
        }) => {
            let within = Duration::from_millis(vars.value(within_ms).as_u64().unwrap_or(0));
            match timeout(within, stage.opened(&vars.text(gate))).await {
                Ok(()) => Ok(()),
                Err(_) => {
                    acts(stage, line, late, frame, round).await?;
                    Err(over())
                }
            }
        }
        Act::Release(gate) => {
            stage.release(&vars.text(gate));
            Ok(())
        }
        Act::Remember(values) => {
            for (name, value) in values {
                let (name, value) = (vars.text(name), vars.value(value));
                let mut kept = stage.kept.lock().unwrap_or_else(|bad| bad.into_inner());
                kept.insert(name, value);
            }
            Ok(())
        }
        Act::Stop(name) => {
            stage.stop(&vars.text(name));
            Ok(())
        }
        Act::Repeat(repeat) => {
            for round in 0..repeat.count.unwrap_or(u64::MAX) {
                acts(stage, line, &repeat.each, frame, round).await?;
                if repeat.gap_ms > 0 {
                    sleep(Duration::from_millis(repeat.gap_ms)).await;
                }
            }
            Ok(())
        }
        Act::Close(closing) => {
            line.close(closing.code, &vars.text(&closing.reason))
                .await?;
            Err(over())
        }
        Act::End(end) => {
            line.end(*end).await?;
            Err(over())
        }
    }
}

/// Ends the acts that follow.
fn over() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}
