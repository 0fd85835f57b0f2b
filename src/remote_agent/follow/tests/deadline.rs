//! Deadlines and cancellation.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::*;

#[tokio::test]
async fn deadline_returns_partial_result_and_continuation() {
    let fixture = streams(vec![first_events(StreamEnd::Hang)], vec![]);

    let result = fixture.call(within(send(), 30)).await;

    assert_eq!(result["ok"], true, "{result}");
    let summary = &result["summary"];
    assert_eq!(summary["wait_expired"], true, "{result}");
    assert_eq!(state(&result), "working", "{result}");
    assert_eq!(text(&result), "one ", "{result}");
    assert!(
        summary["next_step"].as_str().unwrap().contains("watch"),
        "{result}"
    );
    assert_eq!(
        summary["continuation"]["task"]["can_watch"], true,
        "{result}"
    );
}

#[tokio::test]
async fn deadline_while_polling_is_a_result() {
    let fixture = streams(
        vec![first_events(StreamEnd::Cut)],
        vec![PollReply::Task(task("working", json!([])))],
    );

    let result = fixture.call(within(send(), 30)).await;

    assert_eq!(result["summary"]["wait_expired"], true, "{result}");
}

#[tokio::test]
async fn send_without_answer_by_deadline_is_an_error() {
    let fixture = streamed(vec![], StreamEnd::Hang, vec![]);

    let result = fixture.call(within(send(), 30)).await;

    assert_eq!(result["error"]["reason"], "timeout", "{result}");
    assert_eq!(
        result["error"]["details"]["delivered"], "unknown",
        "{result}"
    );
    let hint = result["error"]["details"]["hint"].as_str().unwrap();
    assert!(hint.contains("task_requirement"), "{hint}");
}

#[tokio::test]
async fn watch_without_events_by_deadline_is_a_result() {
    for subscriptions in [
        SubscribeReply::Events(vec![], StreamEnd::Hang),
        SubscribeReply::Never,
    ] {
        let fixture = streams(vec![subscriptions], vec![]);

        let result = fixture.call(within(watch(), 30)).await;

        assert_eq!(result["ok"], true, "{result}");
        assert_eq!(result["summary"]["wait_expired"], true, "{result}");
        assert_eq!(
            result["summary"]["continuation"]["task"]["task_id"], "t",
            "{result}"
        );
        assert_eq!(result["raw"], json!({"events": []}), "{result}");
    }
}

#[tokio::test]
async fn cancelled_call_keeps_partial_answer() {
    let fixture = streams(
        vec![first_events(StreamEnd::Cut), SubscribeReply::Never],
        vec![],
    );

    let (result, _) = fixture
        .update_events(send(), fixture.peer.resubscribed.clone())
        .await;

    assert_eq!(result["error"]["reason"], "aborted", "{result}");
    let summary = &result["error"]["details"]["latest_event_summary"];
    assert_eq!(summary["message_text"], "one ", "{result}");
}

#[tokio::test(start_paused = true)]
async fn cancelled_send_waits_for_the_task_that_it_began() {
    let late = SubscribeReply::Events(vec![], StreamEnd::Later(&["working"]));
    let fixture = streams(vec![late], vec![]);
    let cancel = CancellationToken::new();
    let (peer, stop) = (Arc::clone(&fixture.peer), cancel.clone());
    tokio::spawn(async move {
        sleep(Duration::from_millis(10)).await;
        stop.cancel();
        sleep(Duration::from_millis(500)).await;
        peer.polled.cancel();
    });

    let (result, _) = fixture.update_events(send(), cancel).await;

    assert_eq!(result["error"]["reason"], "aborted", "{result}");
    let latest = &result["error"]["details"]["latest_event_summary"];
    assert_eq!(latest["continuation"]["task"]["task_id"], "t", "{result}");
}

#[tokio::test]
async fn send_cancelled_before_the_first_event_names_its_task() {
    let fixture = streams(vec![first_events(StreamEnd::Hang)], vec![]);

    let (result, _) = fixture
        .update_events(send(), fixture.peer.opened.clone())
        .await;

    assert_eq!(result["error"]["reason"], "aborted", "{result}");
    let latest = &result["error"]["details"]["latest_event_summary"];
    assert_eq!(latest["continuation"]["task"]["task_id"], "t", "{result}");
}

#[tokio::test(start_paused = true)]
async fn cancelled_send_waits_a_second_for_a_silent_agent() {
    let silent = SubscribeReply::Events(vec![], StreamEnd::Hang);
    let fixture = streams(vec![silent], vec![]);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    tokio::spawn(async move {
        sleep(Duration::from_millis(10)).await;
        stop.cancel();
    });
    let started = Instant::now();

    let (result, _) = fixture.update_events(send(), cancel).await;

    assert_eq!(result["error"]["reason"], "aborted", "{result}");
    assert_eq!(started.elapsed().as_millis().div_euclid(100), 10);
}

#[tokio::test]
async fn endless_stream_stops_at_the_deadline() {
    let fixture = streams(vec![first_events(StreamEnd::Flood)], vec![]);

    let result = fixture.call(within(send(), 500)).await;

    assert_eq!(result["summary"]["wait_expired"], true, "{result}");
    assert_eq!(text(&result), "one ");
}

#[tokio::test(start_paused = true)]
async fn task_that_ended_before_the_deadline_is_complete() {
    let patient = PollIntervals {
        idle: Duration::from_millis(10),
        final_wait: Duration::from_secs(60),
        ..quick()
    };
    let streamed = vec![piece("a", "one ", false), fake::status("completed")];
    for (stream, polls, calls) in [
        (
            SubscribeReply::Events(streamed, StreamEnd::Hang),
            vec![],
            &["stream"][..],
        ),
        (
            first_events(StreamEnd::Hang),
            vec![completed(&["one "])],
            &["stream", "get"],
        ),
    ] {
        let fixture = streams_at(patient.clone(), vec![stream], polls);

        let result = fixture.call(within(send(), 1000)).await;

        let summary = &result["summary"];
        assert_eq!(state(&result), "completed", "{result}");
        assert!(
            summary["incomplete"].is_null() && summary["wait_expired"].is_null(),
            "{result}"
        );
        assert_eq!(fixture.calls(), calls);
    }
}

#[tokio::test]
async fn task_that_ended_is_complete_at_the_deadline_of_a_stream_that_goes_on() {
    let patient = PollIntervals {
        final_wait: Duration::from_secs(60),
        ..quick()
    };
    let streamed = vec![piece("a", "one ", false), fake::status("completed")];
    let flood = SubscribeReply::Events(streamed, StreamEnd::UnknownFlood);
    let fixture = streams_at(patient, vec![flood], vec![]);

    let result = fixture.call(within(send(), 300)).await;

    assert_eq!(state(&result), "completed", "{result}");
    assert!(result["summary"]["wait_expired"].is_null(), "{result}");
}
