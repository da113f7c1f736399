//! An embedded control plane: store, keys, API server and listener of one cluster.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use apiserver::authn::{self, Anonymous, Authenticator, FrontProxy, FrontProxyHeaders};
use apiserver::authz::Rbac;
use apiserver::bootstrap_policy::Facts;
use apiserver::controllers::govern;
use apiserver::listen::{self, Limits};
use apiserver::pki::{Pki, ServingCertificate, server_config};
use apiserver::tokens::{DEFAULT_ISSUER, TokenKeys};
use apiserver::{ApiServer, PodBackend, UserInfo};
use clock::Env;
use clock::disk::SystemDisk;
use kubeio::Client;
use runtime::Supervisor;
use store::{Mode, Options, Store};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::certificates::Certificates;
use crate::{Error, data_dir};

/// A running control plane.
#[derive(Debug, Clone)]
pub struct Plane {
    /// Its API server.
    pub server: Arc<ApiServer>,
    /// Its store.
    pub store: Arc<Store>,
    /// Where it listens, as a URL.
    pub url: String,
    /// Its certificate authority, PEM.
    pub authority_pem: String,
    /// The administrator's kubeconfig, which changes when its certificate is renewed. It holds a key.
    pub kubeconfig: watch::Receiver<String>,
}

impl Plane {
    /// Opens what lies in `folder` (or makes it), and serves it on `listen`.
    ///
    /// # Errors
    /// [`Error`] of the part that does not start.
    pub async fn start(
        name: &str,
        folder: &Path,
        listen: SocketAddr,
        env: &Env,
        pods: Option<Arc<dyn PodBackend>>,
        tasks: &mut Supervisor,
    ) -> Result<Self, Error> {
        let open = |part: &str| {
            let path = folder.join(part);
            data_dir::make(&path)
                .and_then(|()| SystemDisk::open(&path))
                .map_err(|source| Error::Folder { path, source })
        };
        let keys = Arc::new(open("pki")?);
        let pki = Pki::load_or_create(&*keys, &[], env)?;
        let store = Store::open(Arc::new(open("store")?), Options::new(env.clone()), Mode::Thread).map_err(
            |source| Error::Store {
                path: folder.join("store"),
                source,
            },
        )?;
        let server = serve_source(&store, &pki, env, pods).await?;
        let measured = store.clone();
        server
            .metrics()
            .hook(move |text| text.push_str(&measured.stats().to_metrics()));

        let listener = TcpListener::bind(listen).await.map_err(|source| Error::Listen {
            address: listen.to_string(),
            source,
        })?;
        let address = listener.local_addr().map_err(|source| Error::Listen {
            address: listen.to_string(),
            source,
        })?;
        let url = format!("https://{address}");
        let facts = Facts::of(&pki, address.port());
        let governed = govern(&server, facts, tasks.shutdown())
            .await
            .map_err(|source| Error::Object {
                object: "a default object".into(),
                source: source.into(),
            })?;
        tasks.spawn(format!("{name}: garbage collection and namespaces"), async move {
            governed.close();
            governed.wait().await;
            Ok::<(), Error>(())
        });
        let certificate = ServingCertificate::new(&pki.serving)?;
        let authorities = [
            pki.authority.certificate_pem(),
            pki.front_proxy_authority.certificate_pem(),
        ];
        let tls = server_config(certificate.clone(), &authorities)?;
        let (handler, shutdown) = (server.clone(), tasks.shutdown().clone());
        tasks.spawn(format!("{name}: listener"), async move {
            listen::serve(listener, tls, handler, Limits::default(), shutdown).await;
            Ok::<(), Error>(())
        });
        let (closing, shutdown) = (store.clone(), tasks.shutdown().clone());
        tasks.spawn(format!("{name}: store"), async move {
            shutdown.cancelled().await;
            closing.close().await;
            Ok::<(), Error>(())
        });
        let (sender, kubeconfig) = watch::channel(pki.admin_kubeconfig(name, &url).to_text());
        let certificates = Certificates {
            name: name.to_owned(),
            url: url.clone(),
            disk: keys,
            env: env.clone(),
            serving: certificate,
            kubeconfig: sender,
        };
        let renewing = certificates.run(pki.renewal_at(), tasks.shutdown().clone());
        tasks.spawn(format!("{name}: certificates"), async move {
            renewing.await;
            Ok::<(), Error>(())
        });
        Ok(Self {
            server,
            store,
            authority_pem: pki.authority.certificate_pem().to_owned(),
            kubeconfig,
            url,
        })
    }

    /// A client in this process that acts as a service account of `clusternet-system`.
    pub fn account(&self, account: &str) -> Client {
        let user = UserInfo::service_account(api::names::SYSTEM_NAMESPACE, account);
        Client::from_service(self.server.client_service(user))
    }

    /// A client in this process that acts as the administrator.
    pub fn administrator(&self) -> Client {
        Client::from_service(self.server.client_service(UserInfo::loopback()))
    }
}

/// An API server over a store, with this control plane's keys.
async fn serve_source(
    store: &Arc<Store>,
    pki: &Pki,
    env: &Env,
    pods: Option<Arc<dyn PodBackend>>,
) -> Result<Arc<ApiServer>, Error> {
    let audiences = [DEFAULT_ISSUER.to_owned()];
    let tokens = TokenKeys::from_pem(pki.service_account_key.expose(), DEFAULT_ISSUER, &audiences)?;
    let front_proxy = FrontProxy::new(
        pki.front_proxy_authority.certificate_pem(),
        vec!["front-proxy-client".to_owned()],
        FrontProxyHeaders::default(),
    )?;
    let authenticator = Authenticator::new(authn::Config {
        source: store.clone(),
        env: env.clone(),
        tokens: Arc::new(tokens),
        client_authorities_pem: Some(pki.authority.certificate_pem().to_owned()),
        front_proxy: Some(front_proxy),
        anonymous: Anonymous::Allowed,
    })?;
    let config = apiserver::Config {
        authenticator: Some(Arc::new(authenticator)),
        pods,
        describe: Some(api::descriptions::describe),
        guard: Some(api::install::limits::refusal),
        ..apiserver::Config::new(store.clone(), env.clone(), Arc::new(Rbac::new(store.clone())))
    };
    Ok(ApiServer::start(config).await?)
}
