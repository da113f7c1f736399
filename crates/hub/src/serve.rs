//! The hub as an aggregated API server under a real parent.
//!
//! Its serving CA lives in a Secret on the parent, so that several hubs share it and a restart keeps it; it is put into
//! the two APIServices, which then need not trust blindly. Who callers are and what they may do is the parent's to
//! say: by its front proxy's headers (only as `extension-apiserver-authentication` allows), TokenReview and
//! SubjectAccessReview.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::kubernetes::{CONFIG_MAPS, SECRETS};
use api::names::{HUB, SYSTEM_NAMESPACE};
use apiserver::BoxError;
use apiserver::delegated::{self, Delegated};
use apiserver::listen;
use apiserver::pki::{self, Authority, Identity, PkiError, ServingCertificate, server_config};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clock::Env;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use kubeio::{Client, Patch};
use machinery::ApiResource;
use runtime::CancellationToken;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tunnel::{BoxIo, Connector, TlsConnector};

use crate::peers::{Door, Peers, Roll};
use crate::reviews::Reviews;
use crate::{Config, Error, Hub};

/// Secret of the serving CA.
const SERVING_SECRET: &str = "clusternet-hub-serving";

/// The groups' registrations on the parent.
const API_SERVICES: [&str; 2] = ["v1alpha1.proxies.clusternet.io", "v1alpha1.shadow"];

/// How long a serving certificate is valid.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 90);

/// Between two looks at what the parent says about authentication, and at the APIServices.
const REFRESH: Duration = Duration::from_secs(60);

/// After something on the parent failed at start.
const RETRY: Duration = Duration::from_secs(2);

/// Looks between two serving certificates: about a month.
const LOOKS_A_CERTIFICATE: u32 = 30 * 24 * 60;

const API_SERVICE: ApiResource =
    ApiResource::cluster("apiregistration.k8s.io", "v1", "apiservices", "APIService");
/// What a serving hub is told.
#[derive(Debug, Clone, Default)]
pub struct ServeConfig {
    /// The hub itself.
    pub hub: Config,
    /// Host names and addresses for its certificate, beside those of its Service.
    pub names: Vec<String>,
    /// Bounds of the listener.
    pub limits: listen::Limits,
    /// How it works together with other hubs of the parent; without it, it is alone.
    pub peers: Option<PeerConfig>,
}

/// How a hub works together with others.
#[derive(Debug, Clone)]
pub struct PeerConfig {
    /// Where it listens for them.
    pub listen: SocketAddr,
    /// The host name or address under which they reach it.
    pub advertise: String,
}

/// Serves a hub on a listener until shutdown. `client` has the rights of the hub's service account on the parent.
///
/// # Errors
/// The configuration cannot be used, or the serving certificate cannot be made. While the parent is away at start it
/// waits.
pub async fn serve(
    config: ServeConfig,
    client: Client,
    listener: TcpListener,
    env: Env,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let hub_config = config.hub.check()?;
    let authority = loop {
        match authority(&client, &env).await {
            Ok(authority) => break authority,
            Err(Error::Parent(error)) => {
                tracing::warn!(error = %runtime::Chain(&error), "the hub's certificate authority cannot be read");
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return Ok(()),
                    () = tokio::time::sleep(RETRY) => {}
                }
            }
            Err(error) => return Err(error),
        }
    };
    let advertised = config.peers.iter().map(|peers| peers.advertise.clone());
    let names = service_names(config.names.into_iter().chain(advertised).collect());
    let certificate = ServingCertificate::new(&issue(&authority, &names, &env)?)?;
    let hub = Hub::new(client.clone(), env.clone(), hub_config, shutdown.clone());
    let delegated = Delegated::new(delegated::Config {
        groups: hub.groups(),
        tokens: Arc::new(Reviews::of(client.clone())),
        access: Arc::new(Reviews::of(client.clone())),
        env: env.clone(),
    });
    let peering = match &config.peers {
        None => None,
        Some(peers) => {
            let address = peers.listen;
            let listener = TcpListener::bind(address)
                .await
                .map_err(|source| Error::Peers { address, source })?;
            // Port 0 is whichever was free.
            let port = listener
                .local_addr()
                .map_err(|source| Error::Peers { address, source })?
                .port();
            let roll = Roll::start(client.clone(), peers.advertise.clone(), port, env.clone());
            let roll = Arc::new(roll);
            let known = Arc::clone(&roll);
            hub.ask_peers(Peers::new(
                move || known.others(),
                Arc::new(ToPeers::new(&authority, env.clone())?),
            ));
            Some(Peering {
                listener,
                tls: for_peers(&authority, Arc::clone(&certificate))?,
                door: Arc::new(Door(hub.registry().clone())),
                limits: config.limits,
                roll,
            })
        }
    };
    let metered = hub.clone();
    delegated
        .metrics()
        .hook(move |text| text.push_str(&metered.metrics()));
    let upkeep = Upkeep {
        client,
        authority,
        names,
        certificate: Arc::clone(&certificate),
        env,
        delegated,
    };
    let serving = listen::serve(
        listener,
        server_config(certificate, &[])?,
        Arc::clone(&upkeep.delegated),
        config.limits,
        shutdown.clone(),
    );
    let peering = async move {
        if let Some(peering) = peering {
            peering.run(shutdown).await;
        }
    };
    tokio::select! {
        biased;
        ((), ()) = async { tokio::join!(serving, peering) } => {}
        () = upkeep.run() => {}
    }
    hub.close();
    Ok(())
}

/// What is run for other hubs.
struct Peering {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    door: Arc<Door>,
    limits: listen::Limits,
    roll: Arc<Roll>,
}

impl Peering {
    async fn run(self, shutdown: CancellationToken) {
        let Self {
            listener,
            tls,
            door,
            limits,
            roll,
        } = self;
        let serving = listen::serve(listener, tls, door, limits, shutdown.clone());
        tokio::join!(serving, roll.keep(shutdown.cancelled()));
    }
}

/// TLS for other hubs: who shows no certificate of the hubs' authority gets no connection.
fn for_peers(
    authority: &Authority,
    certificate: Arc<ServingCertificate>,
) -> Result<Arc<ServerConfig>, PkiError> {
    let mut roots = RootCertStore::empty();
    for trusted in CertificateDer::pem_slice_iter(authority.certificate_pem().as_bytes()).flatten() {
        roots.add(trusted)?;
    }
    let provider = pki::provider();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| PkiError::Pem {
            what: "the hubs' authority",
            why: error.to_string(),
        })?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Reaches other hubs, each time with a certificate made for that.
struct ToPeers {
    authority: Authority,
    env: Env,
}

impl ToPeers {
    fn new(authority: &Authority, env: Env) -> Result<Self, PkiError> {
        let authority = Authority::from_pem(authority.certificate_pem(), authority.key_pem().expose())?;
        Ok(Self { authority, env })
    }

    fn config(&self) -> Result<ClientConfig, PkiError> {
        let lifetime = SignedDuration::from_hours(1);
        let identity = self.authority.issue_client(HUB, &[], lifetime, &self.env)?;
        pki::client_config(self.authority.certificate_pem(), Some(&identity))
    }
}

impl Connector for ToPeers {
    fn connect(&self, host: &str, port: u16, tls: bool) -> BoxFuture<'static, io::Result<BoxIo>> {
        let config = self.config().map_err(io::Error::other);
        let host = host.to_owned();
        Box::pin(async move {
            TlsConnector::new(Arc::new(config?))
                .connect(&host, port, tls)
                .await
        })
    }
}

/// The names under which the parent reaches the hub.
fn service_names(more: Vec<String>) -> Vec<String> {
    let service = format!("{HUB}.{SYSTEM_NAMESPACE}.svc");
    let mut names = vec![
        service.clone(),
        format!("{service}.cluster.local"),
        "localhost".to_owned(),
    ];
    for name in more {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn issue(authority: &Authority, names: &[String], env: &Env) -> Result<Identity, Error> {
    Ok(authority.issue_server(HUB, names, LIFETIME, env)?)
}

/// The CA of all hubs of this parent; the first one makes it.
async fn authority(client: &Client, env: &Env) -> Result<Authority, Error> {
    if let Some(secret) = client
        .get_opt(&SECRETS, Some(SYSTEM_NAMESPACE), SERVING_SECRET)
        .await?
    {
        return from_secret(&secret);
    }
    let authority = Authority::create(HUB, env.now(), env)?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {
            "name": SERVING_SECRET, "namespace": SYSTEM_NAMESPACE,
            "labels": {api::labels::CREATED_BY: api::labels::CREATED_BY_HUB},
        },
        "data": {
            "tls.crt": STANDARD.encode(authority.certificate_pem()),
            "tls.key": STANDARD.encode(authority.key_pem().expose()),
        },
    });
    // Another hub may be quicker.
    from_secret(
        &client
            .create_or_get(&SECRETS, Some(SYSTEM_NAMESPACE), &secret)
            .await?,
    )
}

fn from_secret(secret: &Value) -> Result<Authority, Error> {
    let text = |key: &str| {
        let bytes = secret["data"][key]
            .as_str()
            .and_then(|text| STANDARD.decode(text).ok());
        bytes
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .unwrap_or_default()
    };
    Ok(Authority::from_pem(&text("tls.crt"), &text("tls.key"))?)
}

/// What is looked after while the hub serves.
struct Upkeep {
    client: Client,
    authority: Authority,
    names: Vec<String>,
    certificate: Arc<ServingCertificate>,
    env: Env,
    delegated: Arc<Delegated>,
}

impl Upkeep {
    async fn run(&self) {
        let mut looks = 0_u32;
        loop {
            let authenticated = self.read_authentication().await;
            let registered = self.publish_authority().await;
            looks += 1;
            if looks.is_multiple_of(LOOKS_A_CERTIFICATE)
                && let Err(error) = self.renew()
            {
                tracing::error!(error = %runtime::Chain(&error), "the serving certificate was not renewed");
            }
            let wait = match authenticated.and(registered) {
                Ok(()) => REFRESH,
                Err(error) => {
                    tracing::warn!(error = %runtime::Chain(&*error), "the hub is not yet set up on its parent");
                    RETRY
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn read_authentication(&self) -> Result<(), BoxError> {
        let map = self
            .client
            .get(
                &CONFIG_MAPS,
                Some("kube-system"),
                "extension-apiserver-authentication",
            )
            .await?;
        Ok(self.delegated.set_authentication(&map)?)
    }

    /// Puts the CA into the APIServices that lack it. One that is not installed is left alone.
    async fn publish_authority(&self) -> Result<(), BoxError> {
        let bundle = STANDARD.encode(self.authority.certificate_pem());
        for name in API_SERVICES {
            let Some(service) = self.client.get_opt(&API_SERVICE, None, name).await? else {
                tracing::debug!(name, "API service is not installed");
                continue;
            };
            if service["spec"]["caBundle"] == bundle.as_str()
                && service["spec"]["insecureSkipTLSVerify"] != true
            {
                continue;
            }
            let patch = json!({"spec": {"caBundle": bundle, "insecureSkipTLSVerify": null}});
            self.client
                .patch(&API_SERVICE, None, name, None, Patch::Merge, &patch)
                .await?;
            tracing::info!(name, "API service trusts the hub's certificate authority");
        }
        Ok(())
    }

    fn renew(&self) -> Result<(), Error> {
        Ok(self
            .certificate
            .replace(&issue(&self.authority, &self.names, &self.env)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_hubs_of_one_authority_talk_to_each_other() {
        let env = Env::system();
        let ours = Authority::create(HUB, env.now(), &env).unwrap();
        let theirs = Authority::create(HUB, env.now(), &env).unwrap();
        let names = service_names(Vec::new());
        let certificate = ServingCertificate::new(&issue(&ours, &names, &env).unwrap()).unwrap();
        let listener = TcpListener::bind("localhost:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let hub = Hub::new(
            Client::from_service(tower::service_fn(|_| {
                std::future::pending::<Result<http::Response<String>, std::convert::Infallible>>()
            })),
            env.clone(),
            Config::default(),
            CancellationToken::new(),
        );
        tokio::spawn(listen::serve(
            listener,
            for_peers(&ours, certificate).unwrap(),
            Arc::new(Door(hub.registry().clone())),
            listen::Limits::default(),
            CancellationToken::new(),
        ));
        let ask = async |config: ClientConfig| {
            // With TLS 1.3 a client learns that it is refused when it reads.
            let connector = TlsConnector::new(Arc::new(config));
            let stream = connector.connect("localhost", port, true).await?;
            let stream = hyper_util::rt::TokioIo::new(stream);
            let (mut sender, connection) = hyper::client::conn::http1::handshake(stream)
                .await
                .map_err(io::Error::other)?;
            tokio::spawn(connection);
            let request = http::Request::get("/connect")
                .header("host", "localhost")
                .body(String::new());
            let response = sender
                .send_request(request.unwrap())
                .await
                .map_err(io::Error::other)?;
            Ok::<_, io::Error>(response.status())
        };
        let shown = |authority: &Authority| {
            let lifetime = SignedDuration::from_hours(1);
            let identity = authority.issue_client(HUB, &[], lifetime, &env).unwrap();
            pki::client_config(ours.certificate_pem(), Some(&identity)).unwrap()
        };
        let peer = ToPeers::new(&ours, env.clone()).unwrap().config().unwrap();
        assert_eq!(
            ask(peer).await.unwrap(),
            http::StatusCode::BAD_REQUEST,
            "it came to the door"
        );
        assert!(ask(shown(&theirs)).await.is_err(), "of another authority");
        let bare = pki::client_config(ours.certificate_pem(), None).unwrap();
        assert!(ask(bare).await.is_err(), "without a certificate");
        assert!(ask(shown(&ours)).await.is_ok(), "the refused have done no harm");
    }

    #[test]
    fn hubs_of_one_parent_share_their_authority() {
        let env = Env::system();
        let authority = Authority::create(HUB, env.now(), &env).unwrap();
        let secret = json!({"data": {
            "tls.crt": STANDARD.encode(authority.certificate_pem()),
            "tls.key": STANDARD.encode(authority.key_pem().expose()),
        }});
        let again = from_secret(&secret).unwrap();
        assert_eq!(again.certificate_pem(), authority.certificate_pem());
        assert!(issue(&again, &service_names(vec!["10.0.0.1".to_owned()]), &env).is_ok());
        assert!(from_secret(&json!({})).is_err());
    }
}
