//! Runs many cuts concurrently.

use std::{collections::HashMap, sync::Arc, time::Instant};

use futures_util::{StreamExt, stream};

use crate::cuts::{
    check::{Truth, violations},
    cut::{Cut, CutPoint, EVERY_THEN, How, Then},
    recording::Recording,
    stage::Stage,
};

/// The number of concurrent calls.
const AT_A_TIME: usize = 64;

/// A violation of an invariant.
pub(crate) struct Wrong {
    pub(crate) cut: Cut,
    /// The violated invariant.
    pub(crate) why: Vec<String>,
    /// The outcome, for debugging.
    pub(crate) came: String,
}

/// Makes every cut. Returns the violations.
pub(crate) fn run(recordings: &[Arc<Recording>], cuts: &[Cut]) -> Vec<Wrong> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(all(recordings, cuts))
}

async fn all(recordings: &[Arc<Recording>], cuts: &[Cut]) -> Vec<Wrong> {
    let mut stages = HashMap::new();
    let mut truths = Vec::new();
    for (place, recording) in recordings.iter().enumerate() {
        for then in EVERY_THEN {
            for stalls in [false, true] {
                let stage = Stage::new(recording, stalls).await;
                stages.insert((place, then, stalls), Arc::new(stage));
            }
        }
        truths.push(Arc::new(
            uncut(place, recording, &stages[&(place, Then::Snapshot, false)]).await,
        ));
    }
    let began = Instant::now();
    let step = cuts.len().div_ceil(10).max(1);
    let mut wrong = Vec::new();
    let tasks = cuts.iter().enumerate().map(|(number, cut)| {
        let (cut, recording) = (*cut, Arc::clone(&recordings[cut.recording]));
        let stage = Arc::clone(&stages[&(cut.recording, cut.then, cut.how == How::Stall)]);
        let truth = Arc::clone(&truths[cut.recording]);
        let task = tokio::spawn(async move {
            let arrived = recording
                .answer(cut.what)
                .map_or(0, |answer| answer.arrived(cut.offset));
            let came = stage.play(number, cut, arrived).await;
            let why = violations(&cut, &recording, &truth, &came);
            (!why.is_empty()).then(|| Wrong {
                cut,
                why,
                came: came.reported(),
            })
        });
        async move { task.await.unwrap() }
    });
    let mut done = stream::iter(tasks).buffer_unordered(AT_A_TIME).enumerate();
    while let Some((count, found)) = done.next().await {
        wrong.extend(found);
        if (count + 1) % step == 0 {
            println!(
                "{:>7} of {} cuts, {} violations, {} s",
                count + 1,
                cuts.len(),
                wrong.len(),
                began.elapsed().as_secs()
            );
        }
    }
    wrong
}

/// Returns the exchange without a cut.
async fn uncut(place: usize, recording: &Recording, stage: &Stage) -> Truth {
    let whole = |what| Cut {
        recording: place,
        what,
        offset: recording.bytes(what).len(),
        how: How::Fin,
        then: Then::Snapshot,
    };
    let streamed = stage
        .play(usize::MAX, whole(CutPoint::Stream), recording.stream.len())
        .await;
    let answered = stage.play(usize::MAX, whole(CutPoint::Reply), 0).await;
    Truth::of(recording, &streamed, &answered)
}
