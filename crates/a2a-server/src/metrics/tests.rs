use std::time::Duration;

use a2a::v1_0::TaskState;

use super::{Metrics, PushResult};

#[track_caller]
fn assert_line(metrics: &Metrics, line: &str) {
    let text = metrics.text();
    assert!(text.lines().any(|found| found == line), "{line}: {text}");
}

#[test]
fn tasks_are_counted_by_state() {
    let metrics = Metrics::new();
    metrics.record_state(&TaskState::Submitted);
    metrics.record_state(&TaskState::Submitted);
    assert_line(&metrics, "remote_agent_tasks_total{state=\"submitted\"} 2");
}

#[test]
fn run_duration_is_observed() {
    let metrics = Metrics::new();
    metrics.record_run_start();
    assert_line(&metrics, "remote_agent_runs_active 1");
    metrics.record_run_end(Duration::from_secs(2));
    assert_line(&metrics, "remote_agent_runs_active 0");
    assert_line(&metrics, "remote_agent_run_duration_seconds_sum 2.0");
}

#[test]
fn open_stream_counts_until_dropped() {
    let metrics = Metrics::new();
    let listening = metrics.record_stream();
    assert_line(&metrics, "remote_agent_listeners 1");
    drop(listening);
    assert_line(&metrics, "remote_agent_listeners 0");
}

#[test]
fn notifications_are_counted_by_result() {
    let metrics = Metrics::new();
    metrics.record_push(PushResult::Delivered);
    metrics.record_push(PushResult::Failed);
    metrics.record_push(PushResult::Dropped);
    for result in ["delivered", "failed", "dropped"] {
        let line = format!("remote_agent_pushes_total{{result=\"{result}\"}} 1");
        assert_line(&metrics, &line);
    }
}

#[test]
fn text_ends_with_eof_marker() {
    assert!(Metrics::new().text().ends_with("# EOF\n"));
}
