//! Files of agents in results, and what the tool offers over MCP.

use super::*;
use crate::cli::support::{config_file, start_desk, task};

/// The first bytes of a PNG image, in Base64.
const IMAGE: &str = "iVBORw0KGgo=";

async fn desk_with_an_image() -> testkit::conformance::peers::Peers {
    let file = json!({"name": "../chart.png", "mimeType": "image/png", "bytes": IMAGE});
    let artifacts = json!([{"artifactId": "a-1", "parts": [
        {"kind": "text", "text": "The chart:"}, {"kind": "file", "file": file}]}]);
    let done = task("completed", json!({ "artifacts": artifacts }));
    start_desk(json!({"message/send": [{"result": done}]})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn file_is_saved_and_linked_and_not_in_the_text() {
    let peers = desk_with_an_image().await;
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().to_str().unwrap();
    let flags = ["--url", peers.origin("desk"), "--save-artifacts", directory];
    let mut host = Host::with_version("2025-11-25", &flags);
    let answer = host.call(send_request("draw"));
    let link = &answer["result"]["content"][1];
    assert_eq!(
        (&link["type"], &link["name"], &link["size"]),
        (&json!("resource_link"), &json!("file.png"), &json!(8))
    );
    let saved = link["uri"].as_str().unwrap().strip_prefix("file://");
    let saved = std::path::Path::new(saved.unwrap());
    assert!(saved.starts_with(folder.path()), "{}", saved.display());
    assert_eq!(std::fs::read(saved).unwrap(), b"\x89PNG\r\n\x1a\n");
    let text = text(&answer);
    assert!(!text.contains(IMAGE), "{text}");
    for part in ["The chart:", "image/png", saved.to_str().unwrap()] {
        assert!(text.contains(part), "{text}");
    }
    assert!(answer["result"]["_meta"].to_string().contains(IMAGE));
}

#[test]
fn tool_offers_no_notification() {
    for size in ["compact", "full"] {
        let config = config_file("mcp-notify", &json!({ "toolSchema": size }));
        let mut host = Host::with_version("2025-11-25", &["--config", &config]);
        let listed = host.request("tools/list", json!({}));
        let tool = &listed["result"]["tools"][0];
        assert!(tool["inputSchema"]["properties"]["parts"].is_object());
        assert!(!tool.to_string().contains("notify"), "{tool}");
    }
}
