//! Permissions and rate limits.

use super::*;

fn operations() -> [Operation<'static>; 8] {
    [
        Operation::Send("alpha"),
        Operation::Propose,
        Operation::Vote,
        Operation::Subscribe,
        Operation::Broadcast,
        Operation::Request("weather"),
        Operation::Workspace("alpha"),
        Operation::Serve("beta"),
    ]
}

/// Returns the indices of the [`operations`] that `roles` allow.
fn allowed(roles: Value, speaks_as: Option<&str>, agents: Value) -> Vec<usize> {
    let names: Vec<_> = roles
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let who = identity("x", &names);
    let keyring = load(&json!({"roles": roles, "agents": agents}));
    let all = operations().into_iter().enumerate();
    all.filter(
        |(_, operation)| match keyring.authorize(&who, speaks_as, *operation) {
            Ok(()) => true,
            Err(denied) => {
                assert_eq!(denied.code, ErrorCode::PermissionDenied);
                false
            }
        },
    )
    .map(|(i, _)| i)
    .collect()
}

#[test]
fn role_allows_only_its_operations() {
    let each = [
        json!({"send": ["alpha"]}),
        json!({"propose": true}),
        json!({"vote": true}),
        json!({"subscribe": true}),
        json!({"broadcast": true}),
        json!({"request": ["weather"]}),
        json!({"workspaces": ["alpha"]}),
        json!({"serve": ["beta"]}),
    ];
    for (i, role) in each.into_iter().enumerate() {
        assert_eq!(allowed(json!({"r": role}), None, json!([])), [i]);
    }
    assert_eq!(allowed(json!({"r": {}}), None, json!([])), [0; 0]);
    let others = json!({"send": ["beta", "alph", "alpha2"], "request": ["x"], "workspaces": ["beta"], "serve": []});
    assert_eq!(allowed(json!({"r": others}), None, json!([])), [0; 0]);
    let all = json!({"send": ["*"], "request": ["*"], "workspaces": ["*"], "serve": ["*"]});
    assert_eq!(allowed(json!({"r": all}), None, json!([])), [0, 5, 6, 7]);
    let two = json!({"a": {"vote": true}, "b": {"propose": true}});
    assert_eq!(allowed(two, None, json!([])), [1, 2]);
}

#[test]
fn own_permissions_also_limit_an_agent() {
    let all = json!({"send": ["*"], "propose": true, "vote": true, "workspaces": ["*"]});
    let agents =
        json!([{"name": "beta", "role": "r", "permissions": {"vote": true, "broadcast": true}}]);
    assert_eq!(
        allowed(json!({"r": all}), Some("beta"), agents.clone()),
        [2]
    );
    assert_eq!(
        allowed(json!({"r": all}), Some("gamma"), agents.clone()),
        [0, 1, 2, 6]
    );
    // The same rules apply without authentication.
    let keyring = load(&json!({"agents": agents}));
    let anonymous = keyring.anonymous().unwrap();
    let may = |operation| {
        keyring
            .authorize(&anonymous, Some("beta"), operation)
            .is_ok()
    };
    assert!(
        may(Operation::Vote) && !may(Operation::Send("alpha")) && may(Operation::Workspace("beta"))
    );
}

#[test]
fn agent_sees_only_its_own_workspace() {
    let own = allowed(json!({"r": {}}), Some("alpha"), json!([]));
    assert_eq!(own, [6]);
    // Naming `beta` as the sender does not grant the permission to serve `beta`.
    assert_eq!(allowed(json!({"r": {}}), Some("beta"), json!([])), [0; 0]);
}

#[test]
fn credential_of_agent_allows_only_that_agent() {
    let who = Identity {
        agent: Some("alpha".into()),
        ..identity("x", &[])
    };
    for keyring in [load(&json!({})), load(&json!({"roles": {"r": {}}}))] {
        keyring
            .authorize(&who, None, Operation::Serve("alpha"))
            .unwrap();
        keyring
            .authorize(&who, None, Operation::Serve("beta"))
            .unwrap_err();
    }
}

#[test]
fn unknown_role_has_no_permissions() {
    let keyring = load(&json!({"roles": {"r": {"propose": true}}}));
    let who = identity("x", &["admin"]);
    let denied = keyring
        .authorize(&who, None, Operation::Propose)
        .unwrap_err();
    assert_eq!(denied.code, ErrorCode::PermissionDenied);
    assert!(
        denied.message.contains("`x`") && denied.message.contains("propose"),
        "{denied}"
    );
}

#[test]
fn client_bursts_then_keeps_its_rate() {
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    let mut limit = RateLimit::new(10, 3, start);
    let taken = |limit: &mut RateLimit, millis| {
        (0..20)
            .filter(|_| limit.try_acquire(at(millis)).is_ok())
            .count()
    };
    assert_eq!(taken(&mut limit, 0), 3);
    assert_eq!(limit.try_acquire(at(0)), Err(Duration::from_millis(100)));
    assert_eq!(limit.try_acquire(at(60)), Err(Duration::from_millis(40)));
    assert_eq!(taken(&mut limit, 100), 1);
    assert_eq!(taken(&mut limit, 250), 1);
    assert_eq!(taken(&mut limit, 300), 1);
    // A silent client accumulates no more messages than the burst.
    assert_eq!(taken(&mut limit, 3_600_000), 3);
}

#[test]
fn long_run_keeps_the_rate() {
    let start = Instant::now();
    let mut limit = RateLimit::new(200, 400, start);
    let tries = (0..10_000).map(|milli| start + Duration::from_millis(milli));
    let taken = tries.filter(|now| limit.try_acquire(*now).is_ok()).count();
    // Ten seconds at the sustained rate, and the burst.
    assert_eq!(taken, 2000 + 399);
}

#[test]
fn zero_limit_is_one() {
    let start = Instant::now();
    let mut limit = RateLimit::new(0, 0, start);
    assert!(limit.try_acquire(start).is_ok() && limit.try_acquire(start).is_err());
    let mut fast = RateLimit::new(u64::MAX, u64::MAX, start);
    assert!((0..1000).all(|_| fast.try_acquire(start).is_ok()));
}

#[test]
fn local_agent_has_only_agent_permissions() {
    let keyring = load(&json!({"agents": []}));
    let who = |agent: &str| Identity {
        agent: Some(agent.into()),
        kind: IdentityKind::Local,
        ..identity(agent, &[])
    };
    let allowed = |agent: &str| {
        let all = operations().into_iter().enumerate();
        let is_allowed = |operation| {
            keyring
                .authorize(&who(agent), Some(agent), operation)
                .is_ok()
        };
        let allowed = all.filter(|(_, operation)| is_allowed(*operation));
        allowed.map(|(i, _)| i).collect::<Vec<_>>()
    };
    assert_eq!(allowed("alpha"), [0, 2, 3, 6]);
    assert_eq!(allowed("beta"), [0, 2, 3, 7]);
}
