//! `/healthz`, `/livez` and `/readyz`, with `?verbose`, `?exclude=NAME` and a path for each check, as Kubernetes has
//! them.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use futures::future::BoxFuture;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

use crate::body::Body;
use crate::query::Query;

/// What a check found: why it is not healthy.
pub type CheckResult = Result<(), String>;

type Check = Arc<dyn Fn() -> BoxFuture<'static, CheckResult> + Send + Sync>;

/// Which questions a check answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whether the process works at all: `/livez`, `/readyz` and `/healthz`.
    Live,
    /// Whether it can serve now: `/readyz` only.
    Ready,
}

/// The checks of a process. More can be added while it runs.
#[derive(Clone)]
pub struct Health {
    checks: Arc<RwLock<Vec<(String, Kind, Check)>>>,
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").finish_non_exhaustive()
    }
}

impl Default for Health {
    /// With the check `ping`, which says that requests are answered.
    fn default() -> Self {
        let health = Self {
            checks: Arc::default(),
        };
        health.add("ping", Kind::Live, || Box::pin(async { Ok(()) }));
        health
    }
}

impl Health {
    /// Adds a check; one of the same name is replaced.
    pub fn add(
        &self,
        name: &str,
        kind: Kind,
        check: impl Fn() -> BoxFuture<'static, CheckResult> + Send + Sync + 'static,
    ) {
        let mut checks = self.checks.write().unwrap_or_else(PoisonError::into_inner);
        checks.retain(|(other, ..)| other != name);
        checks.push((name.to_owned(), kind, Arc::new(check)));
    }

    /// Answers a path, `None` if it is no health path.
    pub async fn answer(&self, path: &str, query: &Query) -> Option<Response<Body>> {
        let (endpoint, check) = split(path)?;
        let chosen: Vec<(String, Check)> = {
            let checks = self.checks.read().unwrap_or_else(PoisonError::into_inner);
            checks
                .iter()
                .filter(|(name, kind, _)| {
                    (endpoint == "readyz" || *kind == Kind::Live) && (check.is_empty() || name == check)
                })
                .map(|(name, _, check)| (name.clone(), check.clone()))
                .collect()
        };
        if chosen.is_empty() {
            return Some(plain(StatusCode::NOT_FOUND, "404 page not found\n".to_owned()));
        }
        let excluded: Vec<&str> = query.all("exclude").collect();
        let mut report = String::new();
        let mut healthy = true;
        for (name, run) in chosen {
            if excluded.contains(&name.as_str()) {
                report.push_str(&format!("[+]{name} excluded: ok\n"));
                continue;
            }
            match run().await {
                Ok(()) => report.push_str(&format!("[+]{name} ok\n")),
                // The reason is for the log: whoever may ask this is not always whom it may be told.
                Err(error) => {
                    tracing::warn!(check = %name, %error, "a health check failed");
                    healthy = false;
                    report.push_str(&format!("[-]{name} failed: reason withheld\n"));
                }
            }
        }
        let title = if check.is_empty() { endpoint } else { check };
        Some(if !healthy {
            plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("{report}{title} check failed\n"),
            )
        } else if query.get("verbose").is_some() {
            plain(StatusCode::OK, format!("{report}{title} check passed\n"))
        } else {
            plain(StatusCode::OK, "ok".to_owned())
        })
    }
}

/// The endpoint and the single check of a path.
fn split(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix('/')?;
    let (endpoint, check) = path.split_once('/').unwrap_or((path, ""));
    matches!(endpoint, "healthz" | "livez" | "readyz").then_some((endpoint, check))
}

fn plain(status: StatusCode, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(health: &Health, uri: &str, want: Option<(u16, &str)>) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let got = match health.answer(path, &Query::parse(query)).await {
            None => None,
            Some(response) => {
                let code = response.status().as_u16();
                let body = response.into_body().read(10_000).await.unwrap();
                Some((code, String::from_utf8(body.to_vec()).unwrap()))
            }
        };
        assert_eq!(
            got.as_ref().map(|(code, text)| (*code, text.as_str())),
            want,
            "{uri}"
        );
    }

    #[tokio::test]
    async fn answers_as_kubernetes_does() {
        let health = Health::default();
        check(&health, "/healthz", Some((200, "ok"))).await;
        check(
            &health,
            "/readyz?verbose",
            Some((200, "[+]ping ok\nreadyz check passed\n")),
        )
        .await;
        check(
            &health,
            "/livez/ping?verbose",
            Some((200, "[+]ping ok\nping check passed\n")),
        )
        .await;
        check(&health, "/livez/nothing", Some((404, "404 page not found\n"))).await;
        check(&health, "/version", None).await;
        check(&health, "/healthzz", None).await;
        health.add("store", Kind::Ready, || {
            Box::pin(async { Err("full".to_owned()) })
        });
        check(&health, "/livez", Some((200, "ok"))).await;
        check(
            &health,
            "/readyz",
            Some((
                500,
                "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n",
            )),
        )
        .await;
        check(&health, "/readyz?exclude=store", Some((200, "ok"))).await;
    }
}
