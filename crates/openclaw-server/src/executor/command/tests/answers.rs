//! Output of the command.

use super::*;

#[tokio::test]
async fn both_answer_formats_are_parsed() {
    for shape in [LOCAL_ANSWER, GATEWAY_ANSWER] {
        let (outcome, events) =
            outcome_of(&FakeCommand::printing(shape).executor(), input("hello")).await;
        assert_eq!(
            outcome,
            Outcome::Completed(Some(vec![Part::text("done")])),
            "{shape}"
        );
        let [ExecutionEvent::Metadata(all)] = &events[..] else {
            panic!("{events:?}")
        };
        let reported = &all["openclaw"];
        assert_eq!(
            (&reported["usage"]["total"], &reported["durationMs"]),
            (&json!(15), &json!(12))
        );
        let own = json!({"tokens": {"total": 15}, "duration_ms": 12, "estimated": false});
        assert_eq!(all[a2a::USAGE_KEY], own, "{shape}");
    }
}

#[tokio::test]
async fn log_lines_around_an_answer_are_skipped() {
    let noisy = format!(
        "[agent] starting {{\n[1,2]\n{{\"level\":\"info\"}}\n{LOCAL_ANSWER}\n{{broken\n[agent] done"
    );
    assert_eq!(
        answer_of(&FakeCommand::printing(&noisy)).await,
        [Part::text("done")]
    );
}

#[tokio::test]
async fn multi_line_answer_is_parsed() {
    let pretty = format!("{:#}", serde_json::from_str::<Value>(LOCAL_ANSWER).unwrap());
    assert_eq!(
        answer_of(&FakeCommand::printing(&pretty)).await,
        [Part::text("done")]
    );
}

#[tokio::test]
async fn media_become_files_with_their_types() {
    let answer = r#"{"payloads":[{"text":"see","mediaUrl":"https://e.com/a.png"},{"mediaUrls":["https://e.com/b.mp3","/home/me/c.pdf"]}],"meta":{}}"#;
    let parts = answer_of(&FakeCommand::printing(answer)).await;
    let reported: Vec<_> = parts
        .iter()
        .map(|part| (&part.content, part.media_type.as_deref()))
        .collect();
    assert_eq!(reported[0].0, &PartContent::Text("see".into()));
    assert_eq!(
        reported[1],
        (
            &PartContent::Url("https://e.com/a.png".into()),
            Some("image/png")
        )
    );
    assert_eq!(
        reported[2],
        (
            &PartContent::Url("https://e.com/b.mp3".into()),
            Some("audio/mpeg")
        )
    );
    let PartContent::Text(named) = reported[3].0 else {
        panic!("{reported:?}")
    };
    assert!(
        named.contains("c.pdf") && !named.contains("/home"),
        "{named}"
    );
}
