#![allow(clippy::unwrap_used, clippy::panic)]

use a2a::TaskState;

use super::{Head, Read, Write, checked, head, read};
use crate::record::Record;
use crate::store::conformance::{record, status};

fn made() -> Record {
    let mut made = record("t-\"1\"", "ann", "c", 5);
    made.task.status = status(TaskState::Failed, 7);
    made
}

fn line() -> Vec<u8> {
    let whole = Write::Whole {
        record: &made(),
        pushes: &[],
    };
    let mut line = whole.line().unwrap();
    assert_eq!(line.pop(), Some(b'\n'));
    line
}

#[test]
fn a_line_says_what_was_written() {
    match read(&line()) {
        Some(Read::Whole { record, .. }) => assert_eq!(record, made()),
        _ => panic!("not a whole task"),
    }
}

#[test]
fn its_head_says_what_the_index_needs() {
    let line = line();
    let Some(Head::Whole { record: head }) = head(&line) else {
        panic!("not a whole task");
    };
    assert_eq!(head.task.id, "t-\"1\"");
    assert_eq!(head.task.context_id, "c");
    assert_eq!(head.task.status.state, TaskState::Failed);
    assert_eq!(head.task.status.timestamp, made().task.status.timestamp);
    assert_eq!((head.changed_ms, head.revision), (made().changed_ms, 0));
}

#[test]
fn a_line_has_no_line_end_inside() {
    assert!(!line().contains(&b'\n'));
}

#[test]
fn every_flipped_bit_is_seen() {
    let good = line();
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            // The digits of a checksum may be written large.
            let same = at < 8 && bad.eq_ignore_ascii_case(&good);
            assert!(checked(&bad).is_none() || same, "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn every_cut_is_seen() {
    let good = line();
    for end in 0..good.len() {
        assert!(checked(&good[..end]).is_none(), "{end}");
    }
}
