//! What a role that runs in a process of its own serves about itself: health for everybody, metrics for whoever may
//! `get` the path `/metrics` of the cluster that the role works on.

use std::sync::Arc;

use apiserver::delegated::{self, Delegated};
use apiserver::listen::{self, Limits};
use apiserver::pki::{Authority, PkiError, ServingCertificate, server_config};
use clock::Env;
use hub::Reviews;
use jiff::SignedDuration;
use kubeio::Client;
use runtime::CancellationToken;
use tokio::net::TcpListener;

/// How long the certificate is valid. Nobody verifies it: it is made anew by each process, for itself.
const LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// Serves `/healthz`, `/livez`, `/readyz` and `/metrics` over TLS until `shutdown`. `client` has the role's rights, and
/// needs that of creating TokenReviews and SubjectAccessReviews for the last.
///
/// # Errors
/// [`PkiError`] if no certificate can be made.
pub async fn serve_status(
    name: &str,
    listener: TcpListener,
    client: Client,
    metrics: impl Fn() -> String + Send + Sync + 'static,
    env: Env,
    shutdown: CancellationToken,
) -> Result<(), PkiError> {
    let authority = Authority::create(name, env.now(), &env)?;
    let identity = authority.issue_server(name, &["localhost".to_owned()], LIFETIME, &env)?;
    let delegated = Delegated::new(delegated::Config {
        groups: Vec::new(),
        tokens: Arc::new(Reviews::of(client.clone())),
        access: Arc::new(Reviews::of(client)),
        env,
    });
    delegated.metrics().hook(move |text| text.push_str(&metrics()));
    let tls = server_config(ServingCertificate::new(&identity)?, &[])?;
    listen::serve(listener, tls, delegated, Limits::default(), shutdown).await;
    Ok(())
}
