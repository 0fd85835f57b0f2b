//! Cuts the connection at every byte of recorded streams and replies.
//!
//! A peer plays a recording of a real server up to one byte, cuts the connection there, and afterwards behaves like a real
//! server whose task continues. For every byte, there is one envelope and one send, no complete event is lost, and none
//! appears twice.
//!
//! The default test cuts at every seventh byte and takes seconds. `CUTS=all cargo test --test suite cuts:: -- --nocapture`
//! cuts at every byte, and `CUTS='v0_3-json-rpc Stream at byte 868'` makes only the cuts of that name, with every behaviour.

mod check;
mod cut;
mod fixture;
mod peer;
mod reader;
mod recording;
mod request;
mod run;

use std::{sync::Arc, time::Instant};

use cut::{Combinations, every_cut};
use recording::Recording;
use run::Violation;

/// The default distance of cuts, in bytes.
const STRIDE: usize = 7;

#[test]
fn cut_at_any_byte_gives_one_complete_envelope() {
    let recordings: Vec<_> = recording::NAMES
        .iter()
        .map(|name| Arc::new(Recording::load(name)))
        .collect();
    let cuts = match std::env::var("CUTS").as_deref() {
        Err(_) => every_cut(&recordings, STRIDE, Combinations::InTurn),
        Ok("all") => every_cut(&recordings, 1, Combinations::InTurn),
        Ok(name) => {
            let mut cuts = every_cut(&recordings, 1, Combinations::All);
            cuts.retain(|cut| cut.name(&recordings).contains(name));
            cuts
        }
    };
    let started = Instant::now();
    let violations = run::run(&recordings, &cuts);
    println!(
        "{} cuts, {} violations, {:.1} seconds",
        cuts.len(),
        violations.len(),
        started.elapsed().as_secs_f64()
    );
    assert!(
        violations.is_empty(),
        "{}",
        describe(&recordings, &violations)
    );
}

/// Returns the violations, with the bytes around each cut, and the whole outcome of the first.
fn describe(recordings: &[Arc<Recording>], violations: &[Violation]) -> String {
    let lines = violations.iter().map(|violation| {
        let context = recordings[violation.cut.recording].context(&violation.cut);
        let reasons = violation.reasons.join("; ");
        format!(
            "{}: {reasons}\n    {context}",
            violation.cut.name(recordings)
        )
    });
    let first = violations
        .first()
        .map(|violation| violation.outcome.clone());
    lines.chain(first).collect::<Vec<_>>().join("\n")
}
