//! What the headers of a request say about its body, and about the response.

use axum::http::{HeaderMap, header};
use base::text::{essence, first_chars};

/// Returns whether the body is JSON: `application/json`, or a type with the suffix `+json`. Web pages cannot send either
/// to another origin without a preflight request.
pub fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let essence = essence(content_type.unwrap_or_default());
    match essence.to_ascii_lowercase().strip_prefix("application/") {
        Some("json") => true,
        Some(subtype) => subtype
            .strip_suffix("+json")
            .is_some_and(|name| !name.is_empty()),
        None => false,
    }
}

/// Returns the media types that a client accepts, in lower case and without parameters. Empty without an `Accept` header.
pub fn accepted_types(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::ACCEPT).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|media_type| essence(media_type).to_ascii_lowercase())
        .filter(|essence| !essence.is_empty())
        .collect()
}

/// Checks that the body is not compressed: the servers count the bytes of a body, and a decoder would multiply them.
///
/// # Errors
/// The body has a content coding; a sentence for the client.
pub fn check_coding(headers: &HeaderMap) -> Result<(), String> {
    let codings = headers.get_all(header::CONTENT_ENCODING);
    for value in &codings {
        let value = value.to_str().unwrap_or("?");
        let mut codings = value.split(',').map(str::trim);
        let unsupported =
            codings.find(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"));
        if let Some(coding) = unsupported {
            let coding = first_chars(coding, 32);
            return Err(format!(
                "unsupported Content-Encoding: `{coding}`; send the body without compression"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn recognizes_media_types_of_json() {
        for (value, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=UTF-8", true),
            ("application/a2a+json", true),
            ("application/vnd.acme.v2+json ;q=1", true),
            ("application/+json", false),
            ("application/jsonp", false),
            ("text/plain", false),
            ("text/x+json", false),
            ("multipart/form-data; boundary=application/json", false),
        ] {
            let headers = headers(header::CONTENT_TYPE, value);
            assert_eq!(is_json(&headers), expected, "{value}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }

    #[test]
    fn accepted_types_have_no_parameters() {
        let headers = headers(header::ACCEPT, "Text/Event-Stream;q=1, , application/*");
        assert_eq!(
            accepted_types(&headers),
            ["text/event-stream", "application/*"]
        );
        assert!(accepted_types(&HeaderMap::new()).is_empty());
    }

    #[test]
    fn refuses_content_codings_by_name() {
        for value in ["", "identity", "Identity, identity"] {
            check_coding(&headers(header::CONTENT_ENCODING, value)).unwrap();
        }
        for (value, name) in [
            ("gzip", "gzip"),
            ("identity, BR", "BR"),
            ("x-gzip", "x-gzip"),
        ] {
            let error = check_coding(&headers(header::CONTENT_ENCODING, value)).unwrap_err();
            assert!(error.contains(&format!("`{name}`")), "{error}");
        }
    }
}
