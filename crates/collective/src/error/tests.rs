use super::*;

/// The errors of Heretek A2A, "Appendix B", which Heretek Architecture, "Error Code Registry" repeats.
const TABLE: &[(u16, &str)] = &[
    (1001, "CONNECTION_REFUSED"),
    (1002, "CONNECTION_TIMEOUT"),
    (1003, "CONNECTION_RESET"),
    (1004, "PROTOCOL_ERROR"),
    (2001, "INVALID_JSON"),
    (2002, "MISSING_FIELD"),
    (2003, "INVALID_TYPE"),
    (2004, "UNKNOWN_TYPE"),
    (2005, "INVALID_CONTENT"),
    (3001, "AGENT_NOT_FOUND"),
    (3002, "AGENT_OFFLINE"),
    (3003, "AGENT_BUSY"),
    (3004, "AGENT_ERROR"),
    (4001, "SESSION_NOT_FOUND"),
    (4002, "SESSION_EXPIRED"),
    (4003, "SESSION_LOCKED"),
    (4004, "SESSION_CORRUPT"),
    (5001, "AUTH_REQUIRED"),
    (5002, "AUTH_FAILED"),
    (5003, "TOKEN_EXPIRED"),
    (5004, "PERMISSION_DENIED"),
];

#[test]
fn registry_matches_appendix_b() {
    let known: Vec<_> = ErrorCode::ALL
        .iter()
        .map(|error| (error.number(), error.name()))
        .collect();
    assert_eq!(known, TABLE);
}

#[test]
fn number_and_name_round_trip() {
    for (number, name) in TABLE {
        let by_number = ErrorCode::from_number(u64::from(*number));
        assert_eq!(by_number.map(ErrorCode::name), Some(*name));
        assert_eq!(ErrorCode::from_name(name), by_number);
        assert_eq!(ErrorCode::from_name(&name.to_lowercase()), by_number);
    }
    assert_eq!(ErrorCode::from_number(1005), None);
    assert_eq!(ErrorCode::from_number(u64::MAX), None);
    assert_eq!(ErrorCode::from_name("AGENT NOT FOUND"), None);
}

#[test]
fn meaning_is_a_sentence() {
    for error in ErrorCode::ALL {
        let meaning = error.meaning();
        assert!(
            meaning.ends_with('.') && meaning.trim() == meaning,
            "{meaning}"
        );
    }
}

#[test]
fn display_shows_number_and_name() {
    assert_eq!(ErrorCode::AgentBusy.to_string(), "3003 AGENT_BUSY");
}

#[test]
fn h_06_shared_close_and_error_codes_differ_in_meaning() {
    let both: Vec<u16> = CloseCode::ALL
        .iter()
        .map(|code| code.number())
        .filter(|number| ErrorCode::from_number((*number).into()).is_some())
        .collect();
    assert_eq!(both, [1001, 1002, 1003, 4001]);
    for number in both {
        let closed = CloseCode::from_number(number).map(CloseCode::meaning);
        let failed = ErrorCode::from_number(number.into()).map(ErrorCode::meaning);
        assert_ne!(closed, failed, "{number}");
    }
}

#[test]
fn unlisted_number_is_no_code() {
    for number in [0, 999, 1004, 1016, 3000, 4000, 4002] {
        assert_eq!(CloseCode::from_number(number), None, "{number}");
    }
}
