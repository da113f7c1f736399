//! A control plane that forgets everything when it ends: `serve [ADDRESS] [KUBECONFIG]`.
//!
//! It serves over TLS with RBAC and writes an administrator's kubeconfig to the second argument's file.

use std::error::Error;
use std::sync::Arc;

use apiserver::authn::{self, Anonymous, Authenticator};
use apiserver::authz::Rbac;
use apiserver::bootstrap_policy::Facts;
use apiserver::pki::{Pki, ServingCertificate, server_config};
use apiserver::tokens::TokenKeys;
use apiserver::{ApiServer, Config, controllers};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8443".to_owned());
    let file = arguments.next().unwrap_or_else(|| "kubeconfig".to_owned());
    let env = clock::Env::system();
    let disk = clock::disk::SimDisk::new(1);
    let store = store::Store::open(
        Arc::new(disk),
        store::Options::new(env.clone()),
        store::Mode::Thread,
    )?;
    let pki = Pki::ephemeral(&[], &env)?;
    let tokens = Arc::new(TokenKeys::from_pem(
        pki.service_account_key.expose(),
        "https://kubernetes.default.svc",
        &["https://kubernetes.default.svc".to_owned()],
    )?);
    let authenticator = Authenticator::new(authn::Config {
        source: store.clone(),
        env: env.clone(),
        tokens,
        client_authorities_pem: Some(pki.authority.certificate_pem().to_owned()),
        front_proxy: None,
        anonymous: Anonymous::Allowed,
    })?;
    let mut config = Config::new(store.clone(), env, Arc::new(Rbac::new(store)));
    config.authenticator = Some(Arc::new(authenticator));
    let server = ApiServer::start(config).await?;
    let shutdown = CancellationToken::new();
    let listener = tokio::net::TcpListener::bind(&address).await?;
    let url = format!("https://{}", listener.local_addr()?);
    let tasks =
        controllers::govern(&server, Facts::of(&pki, listener.local_addr()?.port()), &shutdown).await?;
    std::fs::write(&file, pki.admin_kubeconfig("example", &url).to_text())?;
    let tls = server_config(
        ServingCertificate::new(&pki.serving)?,
        &[pki.authority.certificate_pem()],
    )?;
    let stop = shutdown.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.cancel();
        }
    });
    server.serve(listener, tls, shutdown).await;
    tasks.wait().await;
    Ok(())
}
