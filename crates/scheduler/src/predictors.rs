//! Asks predictors: many at a time, each with a deadline, so that one that hangs holds up nobody but its own cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::{HeaderMap, Request, Uri, header};
use kubeio::{Client, Connection, Trust};
use placement::predict::{self, CLUSTER_HEADER, PATH};
use placement::{Cluster, ClusterKey, Inventory, Prediction, Predictor, PredictorArgs};
use runtime::Chain;
use tokio::sync::Semaphore;

use crate::direct::DirectAccess;

/// How many clusters are asked at a time.
const AT_ONCE: usize = 128;
/// The longest answer that is read.
const ANSWER_LIMIT: usize = 64 << 10;

/// Whom to ask, and how.
pub(crate) struct Predictors {
    /// Carries questions through the tunnels.
    parent: Client,
    /// Where clusters' own predictors may be asked directly.
    access: DirectAccess,
    /// Of predictors that are asked directly, by address, with what that of a cluster was found to mean.
    direct: Mutex<BTreeMap<String, (Option<IpAddr>, Client)>>,
    permits: Semaphore,
}

impl Predictors {
    /// Questions have connections of their own: clusters that are silent shall not hold up what else the scheduler asks
    /// of the parent.
    pub(crate) fn new(parent: &Client, access: DirectAccess) -> Self {
        Self {
            parent: parent.through("", HeaderMap::new()),
            access,
            direct: Mutex::default(),
            permits: Semaphore::new(AT_ONCE),
        }
    }

    /// What each cluster has room for.
    pub(crate) async fn ask(
        &self,
        args: &PredictorArgs,
        inventory: &Inventory,
        clusters: &[Arc<Cluster>],
    ) -> BTreeMap<ClusterKey, Prediction> {
        // What is not divided needs no room.
        let body = |wanted: &placement::Wanted| {
            let question = || predict::question(&wanted.requirements).to_string().into_bytes();
            wanted.desired.map(|_| question())
        };
        let questions: Vec<Option<Vec<u8>>> = inventory.feeds.iter().map(body).collect();
        let (mut answers, mut asked) = (BTreeMap::new(), FuturesUnordered::new());
        for cluster in clusters {
            // A question takes memory once it may be put: thousands of Subscriptions may ask thousands of clusters.
            let permit = loop {
                tokio::select! {
                    biased;
                    Some(answer) = asked.next() => answers.extend([answer]),
                    permit = self.permits.acquire() => break permit,
                }
            };
            let questions = &questions;
            asked.push(async move {
                let _permit = permit;
                (
                    cluster.key.clone(),
                    self.ask_about(args, questions, cluster).await,
                )
            });
        }
        answers.extend(asked.collect::<Vec<_>>().await);
        answers
    }

    /// What all predictors of a cluster say together.
    async fn ask_about(
        &self,
        args: &PredictorArgs,
        questions: &[Option<Vec<u8>>],
        cluster: &Cluster,
    ) -> Prediction {
        let own = match &cluster.predictor {
            Predictor::Tunnel(path) => Some((self.parent.clone(), format!("{path}{PATH}"))),
            Predictor::Direct(address) => Some((self.own(args, address).await?, PATH.to_owned())),
            Predictor::Off => None,
            Predictor::Nowhere => {
                return Err(
                    "status.predictorAddress is no http or https URL of a host and a plain path".to_owned(),
                );
            }
            Predictor::Unreachable => {
                return Err("its predictor is behind a tunnel that it does not have".to_owned());
            }
        };
        let mut targets: Vec<(Client, String)> = own.into_iter().collect();
        for address in &args.addresses {
            targets.push((self.direct(address, None)?, PATH.to_owned()));
        }
        let mut together: Option<predict::Room> = None;
        for (client, path) in &targets {
            let mut room = predict::Room::new();
            for question in questions {
                room.push(match question {
                    Some(body) => Some(self.put(args, client, path, cluster, body).await?),
                    None => None,
                });
            }
            together = Some(match together {
                Some(others) => predict::merge(&others, &room),
                None => room,
            });
        }
        together.ok_or_else(|| "it has no predictor (status.predictorEnabled)".to_owned())
    }

    /// One question.
    async fn put(
        &self,
        args: &PredictorArgs,
        client: &Client,
        path: &str,
        cluster: &Cluster,
        body: &[u8],
    ) -> Result<u32, String> {
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/json")
            .header(CLUSTER_HEADER, &cluster.id)
            .body(body.to_vec())
            .map_err(|error| format!("its predictor's address is none: {error}"))?;
        let asked = client.request_at_most(request, ANSWER_LIMIT);
        match tokio::time::timeout(args.timeout, asked).await {
            Ok(Ok(response)) => predict::answer(response.status().as_u16(), response.body()),
            Ok(Err(error)) => Err(format!("its predictor cannot be asked: {}", Chain(&error))),
            Err(_) => Err(format!(
                "its predictor has not answered within {} s",
                args.timeout.as_secs()
            )),
        }
    }

    /// Drops the clients of addresses that no cluster and no profile names any more.
    pub(crate) fn keep_only<'a>(
        &self,
        clusters: impl Iterator<Item = &'a Cluster>,
        config: &placement::Config,
    ) {
        let of_cluster = |cluster: &'a Cluster| match &cluster.predictor {
            Predictor::Direct(address) => Some(address),
            Predictor::Off | Predictor::Nowhere | Predictor::Unreachable | Predictor::Tunnel(_) => None,
        };
        let of_profiles = config.profiles().flat_map(|profile| &profile.predictor.addresses);
        let mut clients = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        if !clients.is_empty() {
            let named: BTreeSet<&String> = clusters.filter_map(of_cluster).chain(of_profiles).collect();
            clients.retain(|address, _| named.contains(address));
        }
    }

    /// The client of an address that a cluster names, if the scheduler asks there.
    async fn own(&self, args: &PredictorArgs, address: &str) -> Result<Client, String> {
        let bad = |why: &str| format!("its predictor's address {address} cannot be used: {why}");
        let uri: Uri = address.parse().map_err(|_| bad("it is no URL"))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let found: Vec<IpAddr> = match host.parse() {
            Ok(literal) => vec![literal],
            Err(_) => tokio::time::timeout(args.timeout, tokio::net::lookup_host((host, 0)))
                .await
                .map_err(|_| bad("its name is not resolved in time"))?
                .map_err(|error| bad(&error.to_string()))?
                .map(|found| found.ip())
                .collect(),
        };
        if let Some(refused) = found.iter().find(|it| !self.access.allows(**it)) {
            let why = format!("{refused} is not among what it may be (--predictor-direct-access-cidrs)");
            return Err(bad(&why));
        }
        let first = found.first().ok_or_else(|| bad("its name has no address"))?;
        self.direct(address, Some(*first))
    }

    /// The client of an address, and of what it means. Connections are kept; addresses come from ManagedClusters and the
    /// configuration.
    fn direct(&self, address: &str, at: Option<IpAddr>) -> Result<Client, String> {
        let mut clients = self.direct.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.get(address).filter(|(known, _)| *known == at) {
            return Ok(client.clone());
        }
        let connection = Connection {
            server: address.to_owned(),
            trust: Trust::System,
            token: String::new(),
        };
        let client = match at {
            Some(at) => Client::from_token_at(&connection, at),
            None => Client::from_token(&connection),
        }
        .map_err(|error| format!("its predictor's address cannot be used: {}", Chain(&error)))?;
        clients.insert(address.to_owned(), (at, client.clone()));
        Ok(client)
    }
}

/// Predictors for the tasks that ask them.
pub(crate) type Shared = Arc<Predictors>;

#[cfg(test)]
mod tests {
    use apiserver::Body;
    use apiserver::listen::{Handle, Limits, serve};
    use apiserver::pki::{Pki, ServingCertificate, server_config};
    use apiserver::user::Peer;
    use clock::Env;
    use futures::future::BoxFuture;
    use runtime::CancellationToken;
    use serde_json::json;
    use tokio::net::TcpListener;
    use tokio::sync::watch;

    use super::*;

    #[tokio::test]
    async fn forgets_the_clients_of_addresses_that_nobody_names() {
        let client = |address: &str| {
            Client::from_token(&Connection {
                server: address.to_owned(),
                trust: Trust::System,
                token: String::new(),
            })
            .unwrap()
        };
        let predictors = Predictors::new(&client("http://parent"), DirectAccess::default());
        for address in ["http://cluster", "http://profile", "http://former"] {
            predictors.direct(address, None).unwrap();
        }
        let cluster = json!({"metadata": {"namespace": "ns", "name": "c"}, "status": {
            "predictorEnabled": true, "predictorDirectAccess": true, "predictorAddress": "http://cluster"}});
        let args = json!([{"name": "Predictor", "args": {"addresses": ["http://profile"]}}]);
        let config = placement::Config::parse(
            &json!({"profiles": [{"schedulerName": "default", "pluginConfig": args}]}),
        );
        predictors.keep_only(Cluster::from_value(&cluster).iter(), &config.unwrap());
        let kept: Vec<String> = predictors.direct.lock().unwrap().keys().cloned().collect();
        assert_eq!(kept, ["http://cluster", "http://profile"]);
    }
    /// A parent behind which predictors hang. It takes two requests on a connection.
    struct Silent(watch::Sender<usize>);

    impl Handle for Silent {
        fn handle(
            self: Arc<Self>,
            request: http::Request<Body>,
            _: Peer,
        ) -> BoxFuture<'static, http::Response<Body>> {
            Box::pin(async move {
                if request.uri().path().ends_with(PATH) {
                    self.0.send_modify(|asked| *asked += 1);
                    std::future::pending::<()>().await;
                }
                http::Response::new(Body::from("{}"))
            })
        }
    }

    #[tokio::test]
    async fn who_is_silent_holds_up_nothing_else_on_the_parent() {
        let pki = Pki::ephemeral(&[], &Env::system()).unwrap();
        let tls = server_config(ServingCertificate::new(&pki.serving).unwrap(), &[]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("https://{}", listener.local_addr().unwrap());
        let parent = Arc::new(Silent(watch::Sender::new(0)));
        let mut asked = parent.0.subscribe();
        let limits = Limits {
            streams: 2,
            ..Limits::default()
        };
        tokio::spawn(serve(listener, tls, parent, limits, CancellationToken::new()));
        let trust = Trust::Ca(pki.authority.certificate_pem().into());
        let client = Client::from_token(&Connection {
            server,
            trust,
            token: String::new(),
        });
        let client = client.unwrap();
        let clusters: Vec<Arc<Cluster>> = (0..4)
            .map(|index| {
                let status = json!({"predictorEnabled": true, "predictorAddress": "http://localhost:8080", "useSocket": true});
                let object = json!({"metadata": {"namespace": "ns", "name": format!("c{index}")},
                    "spec": {"clusterId": format!("id-{index}")}, "status": status});
                Arc::new(Cluster::from_value(&object).unwrap())
            })
            .collect();
        let feed = json!({"apiVersion": "v1", "kind": "F", "name": "f", "desiredReplicas": 1});
        let inventory = Inventory::from_value(&json!({"spec": {"feeds": [feed]}}));
        let predictors = Predictors::new(&client, DirectAccess::default());
        let args = PredictorArgs::default();
        let asking = predictors.ask(&args, &inventory, &clusters);
        let meanwhile = async {
            asked.wait_for(|asked| *asked == clusters.len()).await.unwrap();
            client.get_path("/version").await.unwrap();
        };
        tokio::select! {
            biased;
            () = meanwhile => {}
            answers = asking => panic!("{answers:?}"),
        }
    }
}
