use std::time::Duration;

use a2a::v1_0::TaskState;

use super::{Metrics, PushResult};

fn line(metrics: &Metrics, begins: &str) -> Option<String> {
    let text = metrics.text();
    let found = text.lines().find(|line| line.starts_with(begins));
    found.map(str::to_owned)
}

#[test]
fn tasks_are_counted_by_state() {
    let metrics = Metrics::new();
    metrics.record_state(&TaskState::Submitted);
    metrics.record_state(&TaskState::Submitted);
    assert_eq!(
        line(&metrics, "remote_agent_tasks_total"),
        Some("remote_agent_tasks_total{state=\"submitted\"} 2".to_owned())
    );
}

#[test]
fn run_duration_is_observed() {
    let metrics = Metrics::new();
    metrics.record_run_start();
    assert_eq!(
        line(&metrics, "remote_agent_runs_active"),
        Some("remote_agent_runs_active 1".to_owned())
    );
    metrics.record_run_end(Duration::from_secs(2));
    assert_eq!(
        line(&metrics, "remote_agent_runs_active"),
        Some("remote_agent_runs_active 0".to_owned())
    );
    assert_eq!(
        line(&metrics, "remote_agent_run_duration_seconds_sum"),
        Some("remote_agent_run_duration_seconds_sum 2.0".to_owned())
    );
}

#[test]
fn open_stream_counts_until_dropped() {
    let metrics = Metrics::new();
    let listening = metrics.record_stream();
    assert_eq!(
        line(&metrics, "remote_agent_listeners"),
        Some("remote_agent_listeners 1".to_owned())
    );
    drop(listening);
    assert_eq!(
        line(&metrics, "remote_agent_listeners"),
        Some("remote_agent_listeners 0".to_owned())
    );
}

#[test]
fn notifications_are_counted_by_result() {
    let metrics = Metrics::new();
    metrics.record_push(PushResult::Delivered);
    metrics.record_push(PushResult::Failed);
    metrics.record_push(PushResult::Dropped);
    for result in ["delivered", "failed", "dropped"] {
        let begins = format!("remote_agent_pushes_total{{result=\"{result}\"}}");
        assert_eq!(line(&metrics, &begins), Some(format!("{begins} 1")));
    }
}

#[test]
fn text_ends_with_eof_marker() {
    assert!(Metrics::new().text().ends_with("# EOF\n"));
}
