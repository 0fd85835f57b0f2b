#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

const MEMBERS: [&str; 3] = ["alpha", "beta", "charlie"];

fn tally(quorum: Quorum) -> Tally {
    Tally::new(MEMBERS.map(str::to_owned), quorum)
}

/// Returns the tally after `votes`, cast by the members in their order. Votes after the decision do not count.
fn tally_after(votes: &[Vote], quorum: Quorum) -> Tally {
    let mut tally = tally(quorum);
    for (member, vote) in MEMBERS.iter().zip(votes) {
        let _ = tally.cast(member, *vote);
    }
    tally
}

fn votes(approve: usize, reject: usize, abstain: usize) -> Vec<Vote> {
    [
        (Vote::Approve, approve),
        (Vote::Reject, reject),
        (Vote::Abstain, abstain),
    ]
    .into_iter()
    .flat_map(|(vote, times)| std::iter::repeat_n(vote, times))
    .collect()
}

/// The numbers of approve, reject and abstain; the result, and whether it is a consensus.
type Row = (usize, usize, usize, &'static str, bool);

/// All ten ways in which three can vote. Heretek A2A §10.6 has the first, second, third, sixth, seventh and ninth.
const TALLIES: [Row; 10] = [
    (3, 0, 0, "approved", true),
    (2, 1, 0, "approved", true),
    (2, 0, 1, "approved", true),
    (1, 0, 2, "rejected", false),
    (0, 0, 3, "rejected", false),
    (1, 2, 0, "rejected", true),
    (0, 3, 0, "rejected", true),
    (0, 2, 1, "rejected", true),
    (1, 1, 1, "rejected", false),
    (0, 1, 2, "rejected", false),
];

/// All ten ways in which fewer than three can have voted when the deadline passes.
const MISSING: [Row; 10] = [
    (2, 0, 0, "approved", true),
    (0, 2, 0, "rejected", true),
    (1, 1, 0, "rejected", false),
    (1, 0, 1, "rejected", false),
    (0, 1, 1, "rejected", false),
    (0, 0, 2, "rejected", false),
    (1, 0, 0, "rejected", false),
    (0, 1, 0, "rejected", false),
    (0, 0, 1, "rejected", false),
    (0, 0, 0, "rejected", false),
];

#[test]
fn h_39_ten_tallies_with_either_quorum() {
    for quorum in [Quorum::All, Quorum::Majority] {
        for (approve, reject, abstain, result, consensus) in TALLIES {
            let case = format!("{approve}-{reject}-{abstain} {quorum:?}");
            let tally = tally_after(&votes(approve, reject, abstain), quorum);
            let decision = tally.decision().unwrap();
            let outcome = (decision.result(), decision.consensus);
            assert_eq!(outcome, (result, consensus), "{case}");
            if quorum == Quorum::All {
                assert_eq!(decision.votes.len(), 3, "{case}");
                assert!(decision.missing.is_empty(), "{case}");
            }
        }
    }
}

#[test]
fn h_39_missing_votes_count_for_neither_side() {
    for quorum in [Quorum::Majority, Quorum::All] {
        for (approve, reject, abstain, result, consensus) in MISSING {
            let case = format!("{approve}-{reject}-{abstain} {quorum:?}");
            let cast = votes(approve, reject, abstain);
            let mut tally = tally_after(&cast, quorum);
            let decision = tally.close();
            assert_eq!(
                (decision.result(), decision.consensus),
                (result, consensus),
                "{case}"
            );
            assert_eq!(decision.missing, &MEMBERS[cast.len()..], "{case}");
        }
    }
}

#[test]
fn h_40_majority_decides_once_the_outcome_is_fixed() {
    // Which of the ways in which two have voted decide without the third.
    for (approve, reject, abstain, decides) in [
        (2, 0, 0, true),
        (0, 2, 0, true),
        (0, 0, 2, true),
        (1, 1, 0, false),
        (1, 0, 1, false),
        (0, 1, 1, false),
    ] {
        let tally = tally_after(&votes(approve, reject, abstain), Quorum::Majority);
        let case = format!("{approve}-{reject}-{abstain}");
        assert_eq!(tally.decision().is_some(), decides, "{case}");
        let missing = tally.decision().map(|decision| decision.missing.clone());
        assert_eq!(
            missing,
            decides.then(|| vec!["charlie".to_owned()]),
            "{case}"
        );
    }
    for vote in Vote::ALL {
        assert_eq!(tally_after(&[vote], Quorum::Majority).decision(), None);
    }
}

#[test]
fn h_40_quorum_all_waits_for_the_last_vote() {
    for first in Vote::ALL {
        for second in Vote::ALL {
            assert_eq!(tally_after(&[first, second], Quorum::All).decision(), None);
        }
    }
}

#[test]
fn only_the_deciding_vote_returns_the_decision() {
    let mut tally = tally(Quorum::Majority);
    assert_eq!(tally.cast("charlie", Vote::Approve), Ok(None));
    assert_eq!(tally.cast("beta", Vote::Abstain), Ok(None));
    let decision = tally.cast("alpha", Vote::Approve).unwrap().unwrap();
    let order: Vec<&str> = decision
        .votes
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(order, MEMBERS);
}

#[test]
fn h_42_first_vote_of_a_member_counts() {
    let mut tally = tally(Quorum::All);
    tally.cast("alpha", Vote::Approve).unwrap();
    assert_eq!(
        tally.cast("alpha", Vote::Reject),
        Err(VoteRejection::SecondVote)
    );
    assert_eq!(
        tally.votes().collect::<Vec<_>>(),
        [("alpha", Vote::Approve)]
    );
}

#[test]
fn h_42_vote_after_the_decision_is_late() {
    let mut tally = tally_after(&[Vote::Reject, Vote::Reject], Quorum::Majority);
    assert_eq!(
        tally.cast("charlie", Vote::Approve),
        Err(VoteRejection::Late)
    );
    assert_eq!(
        tally.cast("alpha", Vote::Approve),
        Err(VoteRejection::SecondVote)
    );
    assert_eq!(tally.decision().unwrap().missing, ["charlie"]);
}

#[test]
fn h_42_votes_of_non_members_do_not_count() {
    let mut tally = tally(Quorum::Majority);
    assert_eq!(
        tally.cast("steward", Vote::Approve),
        Err(VoteRejection::NotAMember)
    );
    assert_eq!(
        tally.cast("Alpha", Vote::Approve),
        Err(VoteRejection::NotAMember)
    );
    assert_eq!(tally.votes().count(), 0);
}

#[test]
fn later_deadline_does_not_change_a_decision() {
    let mut tally = tally_after(&[Vote::Approve, Vote::Approve], Quorum::Majority);
    let before = tally.decision().cloned();
    assert_eq!(Some(tally.close().clone()), before);
}

#[test]
fn decision_lists_votes_and_missing_voters() {
    let mut tally = tally_after(&[Vote::Approve, Vote::Abstain], Quorum::All);
    assert_eq!(
        tally.close().json("prop-001"),
        json!({
            "proposalId": "prop-001",
            "result": "rejected",
            "votes": {"alpha": "approve", "beta": "abstain"},
            "consensus": false,
            "missing": ["charlie"],
        })
    );
}

#[test]
fn vote_has_three_names() {
    for (vote, name) in Vote::ALL.into_iter().zip(Vote::NAMES) {
        assert_eq!((vote.as_str(), Vote::from_name(name)), (name, Some(vote)));
    }
    for name in ["", "Approve", "approved", "yes", "abstain "] {
        assert_eq!(Vote::from_name(name), None, "{name}");
    }
}

#[test]
fn words_of_others_are_read_by_value() {
    for (word, vote) in [
        ("APPROVE", Some(Vote::Approve)),
        (" Reject\n", Some(Vote::Reject)),
        ("aBstain", Some(Vote::Abstain)),
        ("approved", None),
        ("approve reject", None),
        ("", None),
    ] {
        assert_eq!(Vote::read(word), vote, "{word}");
    }
    for (word, result) in [
        (" APPROVED", Some("approved")),
        ("Rejected", Some("rejected")),
        ("approve", None),
        ("", None),
    ] {
        assert_eq!(Decision::read_result(word), result, "{word}");
    }
}

fn any_vote() -> impl Strategy<Value = Vote> {
    proptest::sample::select(Vote::ALL.to_vec())
}

fn any_cast() -> impl Strategy<Value = Vec<(&'static str, Vote)>> {
    proptest::collection::vec(any_vote(), 3)
        .prop_map(|votes| MEMBERS.into_iter().zip(votes).collect::<Vec<_>>())
        .prop_shuffle()
}

proptest! {
    #[test]
    fn vote_order_does_not_matter_with_quorum_all(cast in any_cast()) {
        let count = |cast: &[(&str, Vote)]| {
            let mut tally = tally(Quorum::All);
            for (member, vote) in cast {
                tally.cast(member, *vote).unwrap();
            }
            tally.decision().cloned().unwrap()
        };
        let mut sorted = cast.clone();
        sorted.sort_by_key(|(member, _)| *member);
        prop_assert_eq!(count(&cast), count(&sorted));
    }

    #[test]
    fn early_decision_agrees_with_the_full_tally(cast in any_cast()) {
        let (mut early, mut full) = (tally(Quorum::Majority), tally(Quorum::All));
        for (member, vote) in cast {
            let _ = early.cast(member, vote);
            full.cast(member, vote).unwrap();
        }
        let (early, full) = (early.decision().unwrap(), full.decision().unwrap());
        prop_assert_eq!((early.approved, early.consensus), (full.approved, full.consensus));
    }

    #[test]
    fn early_close_agrees_with_full_tally(cast in any_cast(), received in 0usize..=3) {
        let (mut cut, mut full) = (tally(Quorum::All), tally(Quorum::All));
        for (at, (member, vote)) in cast.into_iter().enumerate() {
            if at < received {
                cut.cast(member, vote).unwrap();
            }
            full.cast(member, vote).unwrap();
        }
        let approved = full.decision().unwrap().approved;
        prop_assert!(!cut.close().approved || approved);
    }
}
