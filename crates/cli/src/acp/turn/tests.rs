use super::super::MAX_UNWRITTEN_BYTES;
use super::*;

/// An agent that reports progress without end costs what the client has not read yet, and one more text.
#[test]
fn progress_for_a_client_that_does_not_read_is_bounded() {
    let (output, _frames) = Output::new();
    let shown = Shown {
        answer: AnswerWriter::to(Box::new(|_| {})),
        status: String::new(),
    };
    let progress = Progress {
        output: output.clone(),
        session: "s".into(),
        shown: Arc::new(Mutex::new(shown)),
    };
    let updates = progress.updates();
    let text = "x".repeat(MAX_UNWRITTEN_BYTES / 16);
    for number in 0..64 {
        let status = format!("{number} {text}");
        let summary =
            json!({"status_message": status, "continuation": {"task": {"status": "working"}}});
        updates.update(json!({"summary": summary}).to_string().as_str().into());
    }
    let unwritten = output.unwritten.load(std::sync::atomic::Ordering::Relaxed);
    assert!(output.is_full());
    assert!(
        unwritten < MAX_UNWRITTEN_BYTES + 2 * text.len(),
        "{unwritten}"
    );
}
