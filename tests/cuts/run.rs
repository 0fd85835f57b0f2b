//! Runs many cuts concurrently.

use std::{collections::HashMap, sync::Arc, time::Instant};

use futures_util::{StreamExt, stream};

use crate::cuts::{
    check::{Reference, violations},
    cut::{Aftermath, Cut, CutPoint, EVERY_AFTERMATH, EndKind},
    fixture::Fixture,
    recording::Recording,
};

/// The number of concurrent calls.
const MAX_CONCURRENT: usize = 64;

/// A violation of an invariant.
pub(crate) struct Violation {
    pub(crate) cut: Cut,
    /// The violated invariant.
    pub(crate) reasons: Vec<String>,
    /// The outcome, for debugging.
    pub(crate) outcome: String,
}

/// Makes every cut. Returns the violations.
pub(crate) fn run(recordings: &[Arc<Recording>], cuts: &[Cut]) -> Vec<Violation> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run_all(recordings, cuts))
}

async fn run_all(recordings: &[Arc<Recording>], cuts: &[Cut]) -> Vec<Violation> {
    let mut fixtures = HashMap::new();
    let mut references = Vec::new();
    for (recording_index, recording) in recordings.iter().enumerate() {
        for aftermath in EVERY_AFTERMATH {
            for stalls in [false, true] {
                let fixture = Fixture::new(recording, stalls).await;
                fixtures.insert((recording_index, aftermath, stalls), Arc::new(fixture));
            }
        }
        references.push(Arc::new(
            run_without_cut(
                recording_index,
                recording,
                &fixtures[&(recording_index, Aftermath::Snapshot, false)],
            )
            .await,
        ));
    }
    let started = Instant::now();
    let step = cuts.len().div_ceil(10).max(1);
    let mut found_violations = Vec::new();
    let tasks = cuts.iter().enumerate().map(|(number, cut)| {
        let (cut, recording) = (*cut, Arc::clone(&recordings[cut.recording]));
        let fixture =
            Arc::clone(&fixtures[&(cut.recording, cut.aftermath, cut.end_kind == EndKind::Stall)]);
        let reference = Arc::clone(&references[cut.recording]);
        let task = tokio::spawn(async move {
            let arrived = recording
                .answer(cut.point)
                .map_or(0, |answer| answer.arrived(cut.offset));
            let outcome = fixture.run_cut(number, cut, arrived).await;
            let reasons = violations(&cut, &recording, &reference, &outcome);
            (!reasons.is_empty()).then(|| Violation {
                cut,
                reasons,
                outcome: outcome.describe(),
            })
        });
        async move { task.await.unwrap() }
    });
    let mut results = stream::iter(tasks)
        .buffer_unordered(MAX_CONCURRENT)
        .enumerate();
    while let Some((count, result)) = results.next().await {
        found_violations.extend(result);
        if (count + 1) % step == 0 {
            println!(
                "{:>7} of {} cuts, {} violations, {} s",
                count + 1,
                cuts.len(),
                found_violations.len(),
                started.elapsed().as_secs()
            );
        }
    }
    found_violations
}

/// Returns the exchange without a cut.
async fn run_without_cut(
    recording_index: usize,
    recording: &Recording,
    fixture: &Fixture,
) -> Reference {
    let complete = |point| Cut {
        recording: recording_index,
        point,
        offset: recording.bytes(point).len(),
        end_kind: EndKind::Fin,
        aftermath: Aftermath::Snapshot,
    };
    let stream_outcome = fixture
        .run_cut(
            usize::MAX,
            complete(CutPoint::Stream),
            recording.stream.len(),
        )
        .await;
    let reply_outcome = fixture
        .run_cut(usize::MAX, complete(CutPoint::Reply), 0)
        .await;
    Reference::from_outcomes(recording, &stream_outcome, &reply_outcome)
}
