//! The server's half of a WebSocket handshake, as values: the HTTP server does the upgrade itself.

use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Why a request cannot become a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// It does not ask for it.
    #[error("the request has no \"Upgrade: websocket\" header: an agent connects here with a WebSocket")]
    NoUpgrade,
    /// It speaks another version.
    #[error("the WebSocket version is not 13")]
    Version,
    /// It lacks the handshake's key.
    #[error("the request has no Sec-WebSocket-Key header")]
    Key,
}

/// Whether a request asks for a WebSocket.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    has_token(headers, UPGRADE.as_str(), "websocket") && has_token(headers, CONNECTION.as_str(), "upgrade")
}

/// The answer that switches to a WebSocket.
///
/// # Errors
/// What the request lacks.
pub fn switch_protocols(headers: &HeaderMap) -> Result<Response<()>, HandshakeError> {
    if !is_upgrade(headers) {
        return Err(HandshakeError::NoUpgrade);
    }
    if headers
        .get(SEC_WEBSOCKET_VERSION)
        .is_none_or(|version| version != "13")
    {
        return Err(HandshakeError::Version);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).ok_or(HandshakeError::Key)?;
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).map_err(|_| HandshakeError::Key)?;
    response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
    response
        .headers_mut()
        .insert(UPGRADE, HeaderValue::from_static("websocket"));
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    Ok(response)
}

fn has_token(headers: &HeaderMap, name: &str, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| part.trim().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn answers_the_example_of_rfc_6455() {
        let request = headers(&[
            ("upgrade", "WebSocket"),
            ("connection", "keep-alive, Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ]);
        let response = switch_protocols(&request).unwrap();
        assert_eq!(
            response.headers()[SEC_WEBSOCKET_ACCEPT],
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
    }

    #[test]
    fn says_what_is_missing() {
        assert_eq!(
            switch_protocols(&HeaderMap::new()).unwrap_err(),
            HandshakeError::NoUpgrade
        );
        let mut request = headers(&[("upgrade", "websocket"), ("connection", "upgrade")]);
        assert_eq!(switch_protocols(&request).unwrap_err(), HandshakeError::Version);
        request.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        assert_eq!(switch_protocols(&request).unwrap_err(), HandshakeError::Key);
    }
}
