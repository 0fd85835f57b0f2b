#![allow(clippy::unwrap_used)]

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn is_evicted(permit: &ConnectionPermit) -> bool {
    permit.is_evicted()
}

#[test]
fn address_over_its_share_loses_its_longest_silent() {
    let limiter = ConnectionLimiter::new(10, 2);
    let other = limiter.admit(address("192.0.2.2")).unwrap();
    let first = limiter.admit(HERE).unwrap();
    let second = limiter.admit(HERE).unwrap();
    let third = limiter.admit(HERE).unwrap();
    assert!(is_evicted(&first));
    for stays in [&other, &second, &third] {
        assert!(!is_evicted(stays));
    }
}

#[test]
fn full_server_evicts_longest_silent_of_any_address() {
    let limiter = ConnectionLimiter::new(2, 2);
    let first = limiter.admit(HERE).unwrap();
    let second = limiter.admit(address("192.0.2.2")).unwrap();
    let _third = limiter.admit(address("192.0.2.3")).unwrap();
    assert!(is_evicted(&first) && !is_evicted(&second));
}

#[test]
fn unauthenticated_connection_goes_before_authenticated() {
    let limiter = ConnectionLimiter::new(2, 2);
    let known = limiter.admit(HERE).unwrap();
    drop(known.begin());
    let unknown = limiter.admit(HERE).unwrap();
    let _third = limiter.admit(HERE).unwrap();
    assert!(is_evicted(&unknown) && !is_evicted(&known));
}

#[test]
fn silence_restarts_when_request_ends() {
    let limiter = ConnectionLimiter::new(2, 2);
    let first = limiter.admit(HERE).unwrap();
    let second = limiter.admit(HERE).unwrap();
    let early = first.begin();
    drop(second.begin());
    drop(early);
    let third = limiter.admit(HERE).unwrap();
    assert!(is_evicted(&second) && !is_evicted(&first));
    let _fourth = limiter.admit(HERE).unwrap();
    assert!(is_evicted(&third) && !is_evicted(&first));
}

#[test]
fn connection_in_use_is_never_evicted() {
    let limiter = ConnectionLimiter::new(2, 1);
    let first = limiter.admit(HERE).unwrap();
    let using = first.begin();
    assert_eq!(
        limiter.admit(HERE).unwrap_err(),
        ConnectionLimitError::Address
    );
    let second = limiter.admit(address("192.0.2.2")).unwrap();
    let _also = second.begin();
    let refused = limiter.admit(address("192.0.2.3"));
    assert_eq!(refused.unwrap_err(), ConnectionLimitError::Total);
    assert!(!is_evicted(&first) && !is_evicted(&second));
    drop(using);
    limiter.admit(HERE).unwrap();
    assert!(is_evicted(&first));
}

#[test]
fn closed_connection_frees_its_place() {
    let limiter = ConnectionLimiter::new(1, 1);
    let first = limiter.admit(HERE).unwrap();
    let active = first.begin();
    drop(first);
    let second = limiter.admit(HERE).unwrap();
    drop(active);
    assert!(!is_evicted(&second));
}

#[test]
fn ipv6_network_shares_one_share() {
    let limiter = ConnectionLimiter::new(10, 1);
    let first = limiter.admit(address("2001:db8::1")).unwrap();
    let apart = limiter.admit(address("2001:db8:0:1::1")).unwrap();
    let _same = limiter.admit(address("2001:db8::ffff:1")).unwrap();
    assert!(is_evicted(&first) && !is_evicted(&apart));
}

#[test]
fn mapped_ipv4_address_counts_as_ipv4() {
    assert_eq!(end_site(address("::ffff:192.0.2.1")), HERE);
}

#[test]
fn proxy_counts_against_the_total_only() {
    let limiter = ConnectionLimiter::new(3, 1);
    let first = limiter.admit_proxy().unwrap();
    let second = limiter.admit_proxy().unwrap();
    let _third = limiter.admit_proxy().unwrap();
    assert!(!is_evicted(&first));
    let _fourth = limiter.admit(HERE).unwrap();
    assert!(is_evicted(&first) && !is_evicted(&second));
}
