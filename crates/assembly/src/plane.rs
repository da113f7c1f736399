//! An embedded control plane: store, keys, API server and listener of one cluster.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apiserver::authn::{self, Anonymous, Authenticator, FrontProxy, FrontProxyHeaders};
use apiserver::authz::Rbac;
use apiserver::bootstrap_policy::Facts;
use apiserver::controllers::govern;
use apiserver::listen::{self, Limits};
use apiserver::pki::{Pki, ServingCertificate, Step, server_config};
use apiserver::tokens::{DEFAULT_ISSUER, TokenKeys};
use apiserver::{ApiServer, PodBackend, UserInfo};
use clock::Env;
use clock::disk::{Disk, SystemDisk};
use jiff::Timestamp;
use kubeio::Client;
use runtime::{CancellationToken, Chain, Supervisor, TaskTracker};
use store::{Mode, Options, Store};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::certificates::{Certificates, SETTLING};
use crate::{Error, data_dir};

/// The folders of a control plane: its keys and its objects.
pub(crate) const KEYS: &str = "pki";
pub(crate) const OBJECTS: &str = "store";

/// Between two tries to tell whom to trust.
const RETRY_PERIOD: Duration = Duration::from_secs(10);

/// A running control plane.
#[derive(Debug, Clone)]
pub struct Plane {
    /// Its API server.
    pub server: Arc<ApiServer>,
    /// Its store.
    pub store: Arc<Store>,
    /// Where it listens, as a URL.
    pub url: String,
    /// The certificate authorities that it is known by, PEM, as they were when it started.
    pub authority_pem: String,
    /// The administrator's kubeconfig, which changes when its certificate is renewed. It holds a key.
    pub kubeconfig: watch::Receiver<String>,
    /// Where its keys are.
    pub(crate) keys: Arc<dyn Disk>,
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
        let keys: Arc<dyn Disk> = Arc::new(open(KEYS)?);
        let pki = Pki::load_or_create(&*keys, &[], env)?;
        let store = Store::open(Arc::new(open(OBJECTS)?), Options::new(env.clone()), Mode::Thread).map_err(
            |source| Error::Store {
                path: folder.join(OBJECTS),
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
        let (trusted, trusts) = watch::channel(pki.trusted_pem.clone());
        let mut government = Government::begin(server.clone(), facts, tasks.shutdown()).await?;
        tasks.spawn(format!("{name}: garbage collection and namespaces"), async move {
            government.follow(trusts).await;
            Ok::<(), Error>(())
        });
        let certificate = ServingCertificate::new(&pki.serving)?;
        let authorities = [
            pki.trusted_pem.as_str(),
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
            disk: keys.clone(),
            env: env.clone(),
            serving: certificate,
            kubeconfig: sender,
            trusted,
            settled: env.now().saturating_add(SETTLING).unwrap_or(Timestamp::MAX),
        };
        let due = certificates.due(&pki);
        let renewing = certificates.run(due, tasks.shutdown().clone());
        tasks.spawn(format!("{name}: certificates"), async move {
            renewing.await;
            Ok::<(), Error>(())
        });
        Ok(Self {
            server,
            store,
            authority_pem: pki.trusted_pem,
            kubeconfig,
            keys,
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

/// Takes the next step of replacing the certificate authority of a control plane that does not run.
///
/// # Errors
/// [`Error`] of the keys.
pub(crate) fn replace_authority(folder: &Path, env: &Env) -> Result<Step, Error> {
    let path = folder.join(KEYS);
    let keys = data_dir::make(&path)
        .and_then(|()| SystemDisk::open(&path))
        .map_err(|source| Error::Folder { path, source })?;
    Pki::load_or_create(&keys, &[], env)?;
    Ok(Pki::succeed(&keys, env)?)
}

/// The controllers that every control plane has, which tell everybody whom to trust.
struct Government {
    server: Arc<ApiServer>,
    facts: Facts,
    shutdown: CancellationToken,
    running: (CancellationToken, TaskTracker),
}

impl Government {
    async fn begin(
        server: Arc<ApiServer>,
        facts: Facts,
        shutdown: &CancellationToken,
    ) -> Result<Self, Error> {
        let stop = shutdown.child_token();
        let running = govern(&server, facts.clone(), &stop)
            .await
            .map_err(|source| Error::Object {
                object: "a default object".into(),
                source: source.into(),
            })?;
        Ok(Self {
            server,
            facts,
            shutdown: shutdown.clone(),
            running: (stop, running),
        })
    }

    /// Begins anew whenever other authorities are to be trusted, until the shutdown is over.
    async fn follow(&mut self, mut trusts: watch::Receiver<String>) {
        while let Some(Ok(())) = self.shutdown.run_until_cancelled(trusts.changed()).await {
            let pem = trusts.borrow_and_update().clone();
            if let Some(authenticator) = self.server.gate().authenticator()
                && let Err(error) = authenticator.trust(&pem)
            {
                tracing::error!(error = %Chain(&error), "certificates of another authority are not accepted");
            }
            self.facts.authority_pem = Some(pem.clone());
            self.facts.client_authorities_pem = Some(pem);
            self.end().await;
            while let Err(error) = self.again().await {
                tracing::error!(error = %Chain(&error), "it is not told whom to trust");
                let pause = tokio::time::sleep(RETRY_PERIOD);
                if self.shutdown.run_until_cancelled(pause).await.is_none() {
                    return;
                }
            }
        }
        self.shutdown.cancelled().await;
        self.end().await;
    }

    async fn again(&mut self) -> Result<(), Error> {
        *self = Self::begin(self.server.clone(), self.facts.clone(), &self.shutdown).await?;
        Ok(())
    }

    async fn end(&self) {
        let (stop, running) = &self.running;
        stop.cancel();
        running.close();
        running.wait().await;
    }
}

/// An API server over a store, with this control plane's keys.
pub(crate) async fn serve_source(
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
        client_authorities_pem: Some(pki.trusted_pem.clone()),
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
