//! Agents behind a gateway, as results show them.

use a2a::{Capabilities, Card, CardView, Interface, Transport};
use base::text::{first_chars, one_line};
use collective::{AgentStatus, MAJORITY, Quorum};
use peer::Member;

use super::TRIAD;
use super::settings::Settings;

/// The maximum length of an agent's description, in characters.
const MAX_ROLE_CHARS: usize = 200;

/// The default media types of agents. An agent itself decides whether it accepts a file.
const DEFAULT_MODES: [&str; 2] = ["text/plain", "application/json"];

/// Returns an agent of the gateway in `settings`. Its card has the description, or else the role, cut to one short
/// line.
pub(crate) fn member(
    name: &str,
    role: Option<&str>,
    description: Option<&str>,
    status: Option<AgentStatus>,
    settings: &Settings,
) -> Member {
    let line = |text: &str| one_line(first_chars(text.trim(), MAX_ROLE_CHARS));
    let short = |text: Option<&str>| text.map(line).filter(|line| !line.is_empty());
    let (role, description) = (short(role), short(description));
    Member {
        name: name.to_owned(),
        status,
        members: Vec::new(),
        card: card(name, description.as_deref().or(role.as_deref()), settings),
        role,
    }
}

/// Returns whether enough voters are among the agents of a gateway to approve a proposal. A gateway that lists no agent
/// may still have them.
pub(super) fn can_decide(known: &[Member], settings: &Settings) -> bool {
    let triad = &settings.triad;
    let is_known = |name: &&String| known.iter().any(|member| member.name == **name);
    let voters = triad.members.iter().filter(is_known).count();
    let needed = match triad.quorum {
        Quorum::Majority => MAJORITY,
        Quorum::All => triad.members.len(),
    };
    known.is_empty() || voters >= needed
}

/// Returns the triad. The status of its members is taken from `known`.
pub(super) fn triad(known: &[Member], settings: &Settings) -> Member {
    let of = |name: &String| {
        let known = known.iter().find(|member| member.name == *name);
        known.and_then(|member| member.status)
    };
    let named = settings.triad.members.iter();
    let members: Vec<_> = named.map(|name| (name.clone(), of(name))).collect();
    let known = || members.iter().filter_map(|(_, status)| *status);
    let there = known().filter(|status| *status != AgentStatus::Offline);
    let status = match there.count() {
        // Two votes of three decide, so two reachable members suffice.
        2.. => Some(AgentStatus::Online),
        _ => known().next().map(|_| AgentStatus::Offline),
    };
    let what = "decides a proposal by the votes of three agents";
    Member {
        members,
        ..member(TRIAD, Some(what), None, status, settings)
    }
}

/// Builds the card of an agent.
pub(super) fn card(name: &str, description: Option<&str>, settings: &Settings) -> Card {
    let modes = [&DEFAULT_MODES[..]; 2];
    card_at(settings.display_url(), name, description, modes)
}

/// Builds the card of an agent at an address, with its input and output modes.
pub(super) fn card_at(
    address: String,
    name: &str,
    description: Option<&str>,
    modes: [&[&str]; 2],
) -> Card {
    let [input, output] = modes.map(|modes| modes.iter().map(|mode| (*mode).to_owned()).collect());
    let view = CardView {
        name: Some(name.to_owned()),
        description: description.map(str::to_owned),
        preferred_transport: Some(Transport::Gateway.as_str().to_owned()),
        capabilities: Capabilities {
            streaming: Some(true),
            push_notifications: Some(false),
            ..Capabilities::default()
        },
        default_input_modes: input,
        default_output_modes: output,
        ..CardView::default()
    };
    let interface = Interface::new(Transport::Gateway.as_str(), address);
    Card {
        streaming: Some(true),
        ..Card::new(vec![interface], view)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use url::Url;

    fn settings() -> Settings {
        Settings::new(Url::parse("ws://me:s3cret@127.0.0.1:18789/p?token=s3cret").unwrap())
    }

    fn status(of: &[(&str, AgentStatus)]) -> Option<AgentStatus> {
        let settings = settings();
        let known: Vec<_> = of
            .iter()
            .map(|(name, status)| member(name, None, None, Some(*status), &settings))
            .collect();
        triad(&known, &settings).status
    }

    #[test]
    fn triad_is_online_with_two_members_online() {
        use AgentStatus as S;
        assert_eq!(
            status(&[
                ("alpha", S::Online),
                ("beta", S::Busy),
                ("charlie", S::Offline)
            ]),
            Some(S::Online)
        );
        assert_eq!(
            status(&[
                ("alpha", S::Online),
                ("beta", S::Offline),
                ("dora", S::Online)
            ]),
            Some(S::Offline)
        );
        assert_eq!(status(&[("dora", S::Online)]), None);
    }

    #[test]
    fn triad_needs_voters_among_the_agents() {
        let settings = settings();
        for (names, expected) in [
            (&["main", "coder"][..], false),
            (&["main", "alpha"], false),
            (&["main", "alpha", "charlie"], true),
            (&[], true),
        ] {
            let known: Vec<_> = names
                .iter()
                .map(|name| member(name, None, None, None, &settings))
                .collect();
            assert_eq!(can_decide(&known, &settings), expected, "{names:?}");
        }
    }

    #[test]
    fn card_has_no_credentials_and_one_line() {
        let role = format!("one\ntwo\u{1b}[31m{}", "x".repeat(500));
        let member = member(
            "alpha",
            Some(&role),
            Some(&role),
            Some(AgentStatus::Online),
            &settings(),
        );
        let shown = format!("{:?}", member.card);
        assert!(
            !shown.contains("s3cret") && shown.contains("ws://127.0.0.1:18789/p"),
            "{shown}"
        );
        assert!(member.role.unwrap().chars().all(|c| !c.is_control()));
    }
}
