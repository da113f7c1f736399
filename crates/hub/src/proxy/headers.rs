//! Which headers pass through the proxy.

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Whether a header is about the connection it came on (RFC 9110, 7.6.1), or frames the message.
pub(crate) fn belongs_to_connection(name: &HeaderName) -> bool {
    [
        CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
        HOST,
        EXPECT,
    ]
    .contains(name)
        || *name == CONTENT_LENGTH
        || matches!(
            name.as_str(),
            "keep-alive" | "proxy-connection" | "http2-settings"
        )
}

/// Takes out what is the caller's credential on the parent, or about the caller's connection. An upgrade stays.
pub(crate) fn for_cluster(headers: &mut HeaderMap) {
    let upgrade = upgrade(headers);
    let length = headers.get(CONTENT_LENGTH).cloned();
    let named = named_by_connection(headers);
    let gone: Vec<HeaderName> = headers
        .keys()
        .filter(|name| belongs_to_connection(name) || is_credential(name) || named.contains(name))
        .cloned()
        .collect();
    for name in gone {
        headers.remove(name);
    }
    if let Some(protocol) = upgrade {
        headers.insert(UPGRADE, protocol);
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
    if let Some(length) = length {
        headers.insert(CONTENT_LENGTH, length);
    }
}

/// Takes out of an answer what is about the cluster's connection. A switch of protocols stays.
pub(crate) fn for_caller(headers: &mut HeaderMap, switching: bool) {
    let length = headers.get(CONTENT_LENGTH).cloned();
    let upgrade = headers.get(UPGRADE).cloned().filter(|_| switching);
    let named = named_by_connection(headers);
    let gone: Vec<HeaderName> = headers
        .keys()
        .filter(|name| belongs_to_connection(name) || named.contains(name))
        .cloned()
        .collect();
    for name in gone {
        headers.remove(name);
    }
    if let Some(protocol) = upgrade {
        headers.insert(UPGRADE, protocol);
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
    if let (Some(length), false) = (length, switching) {
        headers.insert(CONTENT_LENGTH, length);
    }
}

/// The protocol that a request asks to switch to.
pub(crate) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    named_by_connection(headers)
        .contains(&UPGRADE)
        .then(|| headers.get(UPGRADE).cloned())
        .flatten()
}

fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        .collect()
}

fn is_credential(name: &HeaderName) -> bool {
    let name = name.as_str();
    name == "authorization"
        || ["x-remote-", "impersonate-", "clusternet-"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(headers: &HeaderMap) -> Vec<String> {
        let mut names: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect();
        names.sort();
        names
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn nothing_of_the_parents_credential_goes_along() {
        let mut sent = headers(&[
            ("authorization", "Bearer parent"),
            ("impersonate-user", "clusternet"),
            ("impersonate-extra-clusternet-token", "t"),
            ("x-remote-user", "u"),
            ("x-remote-extra-clusternet-token", "t"),
            ("clusternet-token", "t"),
            ("connection", "keep-alive, x-secret"),
            ("x-secret", "1"),
            ("te", "trailers"),
            ("host", "parent"),
            ("content-length", "5"),
            ("accept", "application/json"),
        ]);
        for_cluster(&mut sent);
        assert_eq!(names(&sent), ["accept=application/json", "content-length=5"]);
    }

    #[test]
    fn an_upgrade_stays() {
        let mut sent = headers(&[
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
        ]);
        for_cluster(&mut sent);
        let expected = [
            "connection=Upgrade",
            "upgrade=SPDY/3.1",
            "x-stream-protocol-version=v4.channel.k8s.io",
        ];
        assert_eq!(names(&sent), expected);
        for_caller(&mut sent, true);
        assert_eq!(names(&sent), expected);
        for_caller(&mut sent, false);
        assert_eq!(names(&sent), ["x-stream-protocol-version=v4.channel.k8s.io"]);
    }
}
