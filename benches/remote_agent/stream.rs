//! Long streams that append to one artifact, each event an update.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use openclaw_remote_agent_interface::{RNone, RSome, ToolBox, load, updates_to};
use serde_json::json;

use crate::{
    ROUNDS, median,
    peers::{Running, STREAMS},
    table::{Table, time},
};

pub(crate) fn measure(table: &mut Table, library: &Path) {
    let peers = Running::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let module = load(library).unwrap();
    let config = peers.config();
    let tool = module.new_tool()(config.as_str().into(), RNone)
        .into_result()
        .expect("a tool");
    runtime.block_on(async {
        follow(&tool, STREAMS[0]).await;
        let mut seconds = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (seconds, stream) in seconds.iter_mut().zip(STREAMS) {
                seconds.push(follow(&tool, stream).await);
            }
        }
        let [short, long] = seconds.map(median);
        table.row(
            "stream of 1,000 events with updates",
            time(short),
            String::new(),
        );
        let note = format!("{:.1}x of 1,000; limits 1 s, 12x", long / short);
        table.row("stream of 10,000 events with updates", time(long), note);
    });
}

/// Seconds for one stream.
async fn follow(tool: &ToolBox, (peer, events): (&str, usize)) -> f64 {
    let request = json!({
        "action": "send", "target_alias": peer, "follow_updates": true,
        "parts": [{"kind": "text", "text": "Go on"}],
    });
    let delivered = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&delivered);
    let updates = updates_to(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let start = Instant::now();
    let call = tool.execute(request.to_string().into(), RNone, RSome(updates));
    let envelope = call.future.await;
    let seconds = start.elapsed().as_secs_f64();
    assert!(envelope.starts_with(r#"{"ok":true"#), "{envelope}");
    assert_eq!(delivered.load(Ordering::Relaxed), events);
    seconds
}
