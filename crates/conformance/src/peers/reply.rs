//! Writes one scripted response to a socket.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::body::{Body, Sink};
use super::head::Head;
use super::script::{Close, End, Piece, Response};
use super::sse;
use super::vars::Vars;
use crate::http::Connection;

/// The delay before a reset, because a reset discards bytes that the client has not read.
const RESET_DELAY: Duration = Duration::from_millis(5);

/// Whether the connection can carry another request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepAlive {
    KeepAlive,
    Close,
}

pub(super) async fn send(
    connection: &mut Connection,
    response: &Response,
    vars: &Vars<'_>,
    bodiless: bool,
) -> io::Result<KeepAlive> {
    if response.delay_ms > 0 {
        sleep(Duration::from_millis(response.delay_ms)).await;
    }
    if let Some(pieces) = &response.raw_response {
        for piece in pieces {
            write_piece(connection, piece, vars).await?;
        }
        let after = finish(connection, response).await?;
        if after == KeepAlive::KeepAlive {
            connection.stream.shutdown().await?;
        }
        return Ok(KeepAlive::Close);
    }
    if response.end == Some(End::Destroy) && response.sse.is_none() {
        return reset(connection);
    }
    let mut head = Head::new(response.status.unwrap_or(200));
    if let Some(items) = &response.sse {
        head.set("content-type", "text/event-stream");
        head.set("cache-control", "no-cache");
        head.set("transfer-encoding", "chunked");
        connection
            .stream
            .write_all(head.bytes(&response.headers, vars)?.as_bytes())
            .await?;
        let mut sink = Sink::chunked(&mut connection.stream);
        sse_items(&mut sink, items, vars).await?;
        sink.end(response.end.is_none() && response.close.is_none())
            .await?;
        return finish(connection, response).await;
    }
    let body = body_of(response, vars);
    head.set("content-type", body.content_type());
    let empty = matches!(response.status, Some(100..=199 | 204 | 304));
    match body.length() {
        _ if empty => {}
        Some(length) => head.set("content-length", &length.to_string()),
        None => head.set("transfer-encoding", "chunked"),
    }
    connection
        .stream
        .write_all(head.bytes(&response.headers, vars)?.as_bytes())
        .await?;
    if empty || bodiless {
        return Ok(KeepAlive::KeepAlive);
    }
    let chunked = body.length().is_none();
    let limit = match (response.truncate_at, response.end, body.length()) {
        (Some(limit), _, _) => Some(limit),
        (None, Some(End::Hang), Some(length)) => Some(length / 2),
        _ => None,
    };
    let mut sink = if chunked {
        Sink::chunked(&mut connection.stream)
    } else {
        Sink::plain(&mut connection.stream)
    };
    body.write(&mut sink, limit).await?;
    sink.end(chunked && limit.is_none() && response.close.is_none())
        .await?;
    if response.truncate_at.is_some() && response.close.is_none() && response.end.is_none() {
        sleep(RESET_DELAY).await;
        return reset(connection);
    }
    finish(connection, response).await
}

async fn sse_items(
    sink: &mut Sink<'_>,
    items: &[super::script::Item],
    vars: &Vars<'_>,
) -> io::Result<()> {
    for item in items {
        if item.delay_ms > 0 {
            sink.flush().await?;
            sleep(Duration::from_millis(item.delay_ms)).await;
        }
        if let Some(repeat) = &item.repeat {
            let frames: Vec<String> = repeat
                .each
                .iter()
                .filter_map(|each| sse::frame(each, vars))
                .collect();
            let mut i = repeat.from;
            while repeat
                .count
                .is_none_or(|count| i < repeat.from.saturating_add(count))
            {
                if repeat.gap_ms > 0 {
                    sink.flush().await?;
                    sleep(Duration::from_millis(repeat.gap_ms)).await;
                }
                let number = i.to_string();
                for frame in &frames {
                    sink.write(frame.replace("{{i}}", &number).as_bytes())
                        .await?;
                }
                i += 1;
            }
        } else if let Some(fill) = &item.raw_repeat {
            Body::Padding(fill).write(sink, None).await?;
        } else if let Some(frame) = sse::frame(item, vars) {
            sink.write(frame.as_bytes()).await?;
        }
        sink.flush().await?;
    }
    Ok(())
}

fn body_of<'a>(response: &'a Response, vars: &Vars<'_>) -> Body<'a> {
    if let Some(fill) = &response.body_repeat {
        Body::Padding(fill)
    } else if let Some(text) = &response.body {
        Body::Text(vars.fill(text).into_owned())
    } else if let Some(json) = &response.json {
        Body::Json(vars.fill_value(json).to_string())
    } else {
        let id = response.id.as_ref().or(vars.rpc_id);
        let envelope = sse::envelope(id, response.result.as_ref(), response.error.as_ref());
        Body::Json(vars.fill_value(&envelope).to_string())
    }
}

async fn write_piece(
    connection: &mut Connection,
    piece: &Piece,
    vars: &Vars<'_>,
) -> io::Result<()> {
    match piece {
        Piece::Text(text) => {
            connection
                .stream
                .write_all(vars.fill_raw(text).as_bytes())
                .await
        }
        Piece::Bytes(bytes) => connection.stream.write_all(bytes).await,
        Piece::Wait(ms) => {
            sleep(Duration::from_millis(*ms)).await;
            Ok(())
        }
        Piece::Padding(fill) => {
            let mut sink = Sink::plain(&mut connection.stream);
            Body::Padding(fill).write(&mut sink, None).await?;
            sink.flush().await
        }
    }
}

async fn finish(connection: &mut Connection, response: &Response) -> io::Result<KeepAlive> {
    match (response.end, response.close) {
        (Some(End::Destroy), _) => {
            sleep(RESET_DELAY).await;
            reset(connection)
        }
        (Some(End::Hang), _) => {
            connection.drain().await?;
            Ok(KeepAlive::Close)
        }
        (None, Some(Close::Half)) => {
            connection.stream.shutdown().await?;
            connection.drain().await?;
            Ok(KeepAlive::Close)
        }
        (None, None) => Ok(KeepAlive::KeepAlive),
    }
}

/// Dropping a socket with a linger time of zero sends a reset instead of a FIN.
fn reset(connection: &Connection) -> io::Result<KeepAlive> {
    connection.stream.set_zero_linger()?;
    Ok(KeepAlive::Close)
}
