//! Measures the first use of the library in a new process: loading the file, registering the tool, and one call.

use std::{path::Path, process::Command, time::Instant};

use openclaw_remote_agent_interface::{RNone, load};
use serde_json::{Value, json};

use crate::{
    Scale, Setup,
    callers::{NODE_API, RUST_ABI},
    peer::Peer,
    process::{Process, own_resident_bytes},
    samples::Section,
};

pub(crate) const ROLE: &str = "--cold";

pub(crate) fn measure(setup: &Setup, scale: &Scale, section: &mut Section) {
    let peer = Peer::start();
    let settings = json!({"library": setup.library, "config": peer.config(), "target": "1.0"});
    let settings = settings.to_string();
    // Many short rounds. The first one also reads the file from disk.
    for _ in 0..=4 * scale.rounds {
        for name in [RUST_ABI, NODE_API] {
            let process = if name == RUST_ABI {
                Process::start_role(&[ROLE, &settings])
            } else {
                let driver = setup.root.join("benches/report/drivers/cold.mjs");
                Process::start(Command::new(&setup.node).arg(driver).arg(&settings))
            };
            let report: Value = serde_json::from_str(&process.ready).unwrap();
            for metric in [
                "registered ms",
                "answered ms",
                "registered MB",
                "answered MB",
            ] {
                section.add("first use", name, metric, report[metric].as_f64().unwrap());
            }
        }
    }
}

/// Runs the measured process.
pub(crate) fn serve(settings: &str) {
    let settings: Value = serde_json::from_str(settings).unwrap();
    let text = |name: &str| settings[name].as_str().unwrap();
    let parts = json!([{"kind": "text", "text": "Good morning"}]);
    let request = json!({"action": "send", "target_alias": text("target"), "parts": parts});
    let (request, library) = (request.to_string(), Path::new(text("library")));
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();

    let memory = own_resident_bytes();
    let start = Instant::now();
    let tool = load(library).unwrap().new_tool()(text("config").into(), RNone);
    let tool = tool.into_result().expect("a tool");
    let definition = tool.definition();
    let registered = (start.elapsed(), own_resident_bytes());
    assert!(definition.len() > 2);
    let envelope = runtime.block_on(tool.execute(request.into(), RNone, RNone).future);
    let first_answer = (start.elapsed(), own_resident_bytes());
    assert!(envelope.starts_with(r#"{"ok":true"#), "{envelope}");
    println!(
        "{}",
        json!({
            "registered ms": registered.0.as_secs_f64() * 1e3,
            "registered MB": (registered.1 - memory) / 1e6,
            "answered ms": first_answer.0.as_secs_f64() * 1e3,
            "answered MB": (first_answer.1 - memory) / 1e6,
        })
    );
}
