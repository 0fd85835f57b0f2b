//! Which interface of a peer to call (A2A 0.3 §5.6).

use url::Url;

use super::line::quoted;
use crate::peer::{Card, Fault, Interface, PeerError, Reach, Transport, Transports};

/// So many of the transports that a peer offers are named when none can be spoken.
const NAMED: usize = 10;

/// The transport and address to call: the first transport that the target prefers and the card offers, else the first
/// that the card offers and we speak. `Transport::Grpc` is never chosen.
pub(super) fn choose(reach: &Reach, card: &Card) -> Result<(Transport, Url), PeerError> {
    let offered: Vec<(Transport, &Interface)> = card
        .interfaces
        .iter()
        .filter_map(|interface| Some((interface.transport.parse().ok()?, interface)))
        .filter(|(transport, _)| Transport::SPOKEN.contains(transport))
        .collect();
    let preferred = reach
        .preferred
        .iter()
        .find_map(|wanted| offered.iter().find(|(transport, _)| transport == wanted));
    let Some(&(transport, interface)) = preferred.or_else(|| offered.first()) else {
        return Err(none(card));
    };
    if let Some(endpoint) = &reach.endpoint {
        return Ok((transport, endpoint.clone()));
    }
    let url = reach.base_url.join(&interface.url).map_err(|e| {
        let message = format!(
            "the agent card's address for {transport} is not a URL: `{}`: {e}",
            quoted(&interface.url)
        );
        PeerError::new(Fault::CardUnavailable, message).undelivered()
    })?;
    if matches!(url.scheme(), "http" | "https") {
        return Ok((transport, url));
    }
    let message = format!(
        "the agent card's address for {transport} begins with `{}:`; only http and https can be called",
        url.scheme()
    );
    Err(PeerError::new(Fault::CardUnavailable, message).undelivered())
}

fn none(card: &Card) -> PeerError {
    let offered: Vec<String> = card
        .interfaces
        .iter()
        .take(NAMED)
        .map(|i| quoted(&i.transport))
        .collect();
    let spoken: Vec<String> = Transport::SPOKEN.iter().map(ToString::to_string).collect();
    let message = format!(
        "the peer offers {}, and only {} are spoken",
        offered.join(", "),
        spoken.join(" and ")
    );
    let mut error = PeerError::new(Fault::UnsupportedTransport, message).undelivered();
    error.transports = Some(Box::new(Transports {
        unsupported: offered,
        supported: spoken,
    }));
    error
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::peer::{CardLocation, CardView};

    fn reach(preferred: &[Transport]) -> Reach {
        Reach {
            configured: true,
            preferred: preferred.to_vec(),
            ..Reach::new(
                Url::parse("http://a.example/").unwrap(),
                CardLocation::Path("/card".into()),
            )
        }
    }

    fn card(interfaces: &[(&str, &str)]) -> Card {
        Card {
            interfaces: interfaces
                .iter()
                .map(|&(transport, url)| Interface {
                    transport: transport.into(),
                    url: url.into(),
                    version: None,
                    tenant: None,
                })
                .collect(),
            streaming: None,
            has_extended_card: false,
            view: Ok(CardView::default()),
        }
    }

    #[test]
    fn the_targets_preference_wins_over_the_cards() {
        let card = card(&[
            ("JSONRPC", "http://a.example/rpc"),
            ("http+json", "http://a.example/rest"),
        ]);
        let (transport, url) =
            choose(&reach(&[Transport::HttpJson, Transport::JsonRpc]), &card).unwrap();
        assert_eq!((transport, url.path()), (Transport::HttpJson, "/rest"));
    }

    #[test]
    fn what_the_card_offers_is_used_when_no_preference_is_met() {
        let card = card(&[
            ("GRPC", "a.example:1"),
            ("HTTP+JSON", "http://a.example/rest"),
        ]);
        let (transport, _) = choose(&reach(&[Transport::JsonRpc]), &card).unwrap();
        assert_eq!(transport, Transport::HttpJson);
    }

    #[test]
    fn a_peer_that_speaks_nothing_we_do_is_refused_with_what_there_is() {
        let error = choose(&reach(&[]), &card(&[("GRPC", "a.example:1")])).unwrap_err();
        assert_eq!(error.fault, Fault::UnsupportedTransport);
        assert_eq!(error.transports.unwrap().unsupported, ["GRPC"]);
    }

    #[test]
    fn a_configured_endpoint_replaces_the_cards_address() {
        let mut reach = reach(&[Transport::JsonRpc]);
        reach.endpoint = Some(Url::parse("https://real.example/rpc").unwrap());
        let (_, url) = choose(&reach, &card(&[("JSONRPC", "http://0.0.0.0/")])).unwrap();
        assert_eq!(url.as_str(), "https://real.example/rpc");
    }
}
