#![allow(clippy::panic)]

use super::*;

fn rest(path: &str) -> (Version, Option<String>, Resource) {
    match Path::parse(path).route {
        Route::Rest {
            version,
            tenant,
            resource,
        } => (version, tenant, resource),
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn path_with_v1_is_version_0_3() {
    let id = || "t".to_owned();
    assert_eq!(
        rest("/rest/v1/tasks/t"),
        (Version::V0_3, None, Resource::Task(id()))
    );
    assert_eq!(
        rest("/rest/tasks/t"),
        (Version::V1_0, None, Resource::Task(id()))
    );
    assert_eq!(rest("/rest/v1/card").2, Resource::ExtendedCard);
    assert_eq!(
        Path::parse("/rest/card").route,
        Route::Unknown(Version::V1_0)
    );
}

#[test]
fn segment_before_resource_is_tenant() {
    let (version, tenant, resource) = rest("/rest/acme/tasks/t/pushNotificationConfigs/c");
    assert_eq!((version, tenant.as_deref()), (Version::V1_0, Some("acme")));
    assert_eq!(
        resource,
        Resource::PushConfig("t".to_owned(), "c".to_owned())
    );
}

#[test]
fn id_may_contain_colon_and_escaped_slash() {
    assert_eq!(rest("/rest/tasks/a:b").2, Resource::Task("a:b".to_owned()));
    assert_eq!(
        rest("/rest/tasks/a:b:cancel").2,
        Resource::Cancel("a:b".to_owned())
    );
    assert_eq!(
        rest("/rest/tasks/a%2Fb:subscribe").2,
        Resource::Subscribe("a/b".to_owned())
    );
}

#[test]
fn agent_prefix_has_all_paths() {
    let path = Path::parse("/agents/a%20b/rest/v1/message:stream/");
    assert_eq!(path.agent.as_deref(), Some("a b"));
    assert_eq!(
        path.route,
        Route::Rest {
            version: Version::V0_3,
            tenant: None,
            resource: Resource::Stream
        }
    );
    assert_eq!(Path::parse("/agents/a").route, Route::Rpc);
    assert_eq!(
        Path::parse("/agents/a/.well-known/agent-card.json").route,
        Route::Card
    );
    assert_eq!(
        Path::parse("/agents//a2a").route,
        Route::Unknown(Version::V1_0)
    );
}
