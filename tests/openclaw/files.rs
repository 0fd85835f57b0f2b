//! Files that an agent of a real OpenClaw sends by path, and files of a result.

use std::fs;

use serde_json::json;

use crate::{model, notify::NotifyFixture, peer::PNG_BASE64, plugin_fixture::PluginFixture, send};

pub fn files_are_sent_by_path_in_both_directions(fixture: &PluginFixture) {
    fs::write(fixture.host.workspace().join("report.pdf"), b"%PDF-1.7").unwrap();
    let mut request = send("picture of the report");
    let parts = request["parts"].as_array_mut().unwrap();
    parts.push(json!({"kind": "file", "path": "report.pdf"}));
    let request = fixture.run_turn("agent:main:files", "picture of the report", &request);
    let result = model::tool_result(&request).unwrap();
    println!("the result with a file as the model reads it: {result}");
    let (body, _) = fixture.peer.call("picture of the report");
    let file =
        json!({"bytes": "JVBERi0xLjc=", "mimeType": "application/pdf", "name": "report.pdf"});
    assert_eq!(body["params"]["message"]["parts"][1]["file"], file);
    let saved = "remote-agent/picture_of_the_report/picture.png";
    assert!(
        result.contains(&format!("[saved file] {saved} (image/png, 70 bytes)")),
        "{result}"
    );
    assert!(!result.contains(PNG_BASE64), "{result}");
    let bytes = fs::read(fixture.host.workspace().join(saved)).unwrap();
    assert!(bytes.starts_with(b"\x89PNG"));
}

pub fn file_outside_of_the_workspace_is_refused(fixture: &PluginFixture) {
    let mut request = send("leak the configuration");
    let parts = request["parts"].as_array_mut().unwrap();
    parts.push(json!({"kind": "file", "path": "../openclaw.json"}));
    let request = fixture.run_turn("agent:main:leak", "leak the configuration", &request);
    let result = model::tool_result(&request).unwrap();
    println!("the refusal of a file as the model reads it: {result}");
    assert!(result.contains("invalid_request"), "{result}");
    assert!(result.contains("outside of the workspace"), "{result}");
}

/// A PDF to the official Python server, which returns what it received and an image that the model sees.
pub fn files_travel_to_and_from_the_official_sdk(fixture: &NotifyFixture) {
    let workspace = fixture.host.workspace();
    fs::write(workspace.join("minutes.pdf"), b"%PDF-1.7").unwrap();
    let parts = json!([{"kind": "text", "text": "scan: the minutes"}, {"kind": "file", "path": "minutes.pdf"}]);
    let request = json!({"action": "send", "target_alias": "official", "parts": parts});
    fixture.run_turn("agent:main:official", &format!("CALL {request}"));
    let request = fixture.model.request_with_result("scan: the minutes");
    let result = model::tool_result(&request).unwrap();
    println!("the result of the official server as the model reads it: {result}");
    let received = "minutes.pdf application/pdf JVBERi0xLjc=";
    assert!(result.contains(received), "{result}");
    let (_, saved) = result.split_once("[saved file] ").unwrap();
    let (saved, _) = saved.split_once(" (image/png, 70 bytes)").unwrap();
    assert!(saved.ends_with("/scan.png"), "{saved}");
    assert!(
        fs::read(workspace.join(saved))
            .unwrap()
            .starts_with(b"\x89PNG")
    );
    let picture = format!("data:image/png;base64,{PNG_BASE64}");
    assert!(
        request["messages"].to_string().contains(&picture),
        "{request}"
    );
}
