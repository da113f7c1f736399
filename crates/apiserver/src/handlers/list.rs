//! Lists: at a revision, in pages, selected.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Response;
use machinery::{ApiError, Reason};
use serde_json::{Value, json};
use source::{Error, ListRequest, Page, Revision};

use super::Call;
use super::present::{self, ListMeta};
use crate::body::Body;
use crate::error;
use crate::options::{ListOptions, Match};
use crate::selection::Selection;

/// Where a list goes on: behind an object, at a revision (0 for the newest).
#[derive(Debug, PartialEq, Eq)]
struct Token {
    revision: u64,
    namespace: String,
    name: String,
}

impl Token {
    fn encode(&self) -> String {
        let value = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": [self.namespace, self.name]});
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    fn decode(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
        let value: Value = serde_json::from_slice(&bytes).ok()?;
        Some(Self {
            revision: value["rv"].as_u64()?,
            namespace: value["start"][0].as_str()?.to_owned(),
            name: value["start"][1].as_str()?.to_owned(),
        })
    }
}

/// Whether a text is a page token.
pub(crate) fn token_is_valid(text: &str) -> bool {
    Token::decode(text).is_some()
}

/// Which state a list shows.
fn at(call: &Call<'_>, options: &ListOptions) -> Result<Option<Revision>, ApiError> {
    if options.revision.is_empty() {
        return Ok(None);
    }
    let revision = parse_revision(&options.revision)?;
    let exact = match options.rule {
        Some(Match::Exact) => true,
        Some(Match::NotOlderThan) => false,
        None => options.limit > 0,
    };
    if exact && revision.0 > 0 {
        return Ok(Some(revision));
    }
    reached(call, &options.revision)?;
    Ok(None)
}

/// Checks that a revision is reached: no answer may be older.
pub(super) fn reached(call: &Call<'_>, asked: &str) -> Result<(), ApiError> {
    if asked.is_empty() {
        return Ok(());
    }
    let asked = parse_revision(asked)?;
    let newest = call.server.source().revision();
    if asked > newest {
        return Err(error::of_source(Error::Future { asked, newest }));
    }
    Ok(())
}

/// A revision as clients send it.
pub(super) fn parse_revision(text: &str) -> Result<Revision, ApiError> {
    text.parse().map(Revision).map_err(|_| {
        ApiError::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: \"{text}\": it is no number"
        ))
    })
}

/// What a list found.
pub(super) enum Read {
    /// A page.
    Page(Page, ListMeta),
    /// The state that its token goes on from is no longer there.
    Expired(Response<Body>),
}

/// Answers a list.
pub(super) async fn list(call: &mut Call<'_>) -> Result<Response<Body>, ApiError> {
    let options = ListOptions::of_query(false, call.query)?;
    let selection = Selection::new(&call.served, &options)?;
    match page(call, &options, &selection).await? {
        Read::Page(page, meta) => present::list(call, &page.objects, &meta),
        Read::Expired(answer) => Ok(answer),
    }
}

/// Reads the page that options ask for.
pub(super) async fn page(
    call: &Call<'_>,
    options: &ListOptions,
    selection: &Selection,
) -> Result<Read, ApiError> {
    let token = match options.token.as_str() {
        "" => None,
        text => {
            let token = Token::decode(text).ok_or_else(|| {
                ApiError::bad_request(
                    "invalid continue token: continue key is not valid: it was not made by this server",
                )
            })?;
            if !matches!(options.revision.as_str(), "" | "0") {
                return Err(ApiError::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            Some(token)
        }
    };
    let at = match &token {
        Some(token) => Some(Revision(token.revision)).filter(|revision| revision.0 > 0),
        None => at(call, options)?,
    };
    let namespace = match (call.served.namespaced, call.info.namespace.as_str()) {
        (false, _) => None,
        (true, "") => selection.exact_namespace(),
        (true, namespace) => Some(namespace),
    };
    let everything = selection.is_everything();
    let filter = |object: &source::Object| everything || selection.matches(object);
    let request = ListRequest {
        resource: &call.served.storage,
        namespace,
        filter: &filter,
        at,
        after: token
            .as_ref()
            .map(|token| (token.namespace.as_str(), token.name.as_str())),
        limit: usize::try_from(options.limit).unwrap_or(0),
    };
    let page = match call.server.config.source.list(&request).await {
        Ok(page) => page,
        Err(Error::Expired { .. }) if token.is_some() => {
            return Ok(Read::Expired(expired_token(call, token.as_ref())));
        }
        Err(Error::Expired { .. }) => {
            return Err(ApiError::new(
                Reason::Expired,
                "The resourceVersion for the provided list is too old.",
            ));
        }
        Err(error) => return Err(error::of_source(error)),
    };
    let token = match page.objects.last() {
        Some(last) if page.more => Some(
            Token {
                revision: page.revision.0,
                namespace: last.key.namespace.to_string(),
                name: last.key.name.to_string(),
            }
            .encode(),
        ),
        _ => None,
    };
    let meta = ListMeta {
        revision: page.revision.to_string(),
        remaining: page.remaining.filter(|_| token.is_some() && everything),
        token,
    };
    Ok(Read::Page(page, meta))
}

/// 410 with a token that goes on at the newest state.
fn expired_token(call: &Call<'_>, token: Option<&Token>) -> Response<Body> {
    let error = ApiError::new(
        Reason::Expired,
        "The provided continue parameter is too old to display a consistent list result. You can start a new \
         list without the continue parameter, or use the continue token in this response to retrieve the \
         remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
         that were created, modified, or deleted between the time the first chunk was returned and now may show \
         up in the list.",
    );
    let mut status = error.to_value();
    if let Some(token) = token {
        let next = Token {
            revision: 0,
            namespace: token.namespace.clone(),
            name: token.name.clone(),
        };
        status["metadata"] = json!({"continue": next.encode()});
    }
    crate::respond::status_object(&error, status, call.accepted.encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_they_were() {
        let token = Token {
            revision: 7,
            namespace: "a".to_owned(),
            name: "b/c".to_owned(),
        };
        assert_eq!(Token::decode(&token.encode()), Some(token));
        assert_eq!(Token::decode("nonsense"), None);
        assert_eq!(Token::decode(""), None);
    }
}
