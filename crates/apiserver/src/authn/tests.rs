use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::json;

use super::*;
use crate::authz::fake::FakeSource;
use crate::pki::tests::{StandingClock, env_at};
use crate::pki::{Identity, Pki};
use crate::tokens::{Bound, Claims, ObjectRef, secret_token};

const NOW: i64 = 1_800_000_000;

struct World {
    source: FakeSource,
    pki: Pki,
    env: Env,
    clock: Arc<StandingClock>,
    authenticator: Authenticator,
}

fn world() -> World {
    let (env, clock) = env_at(NOW);
    let source = FakeSource::default();
    let pki = Pki::ephemeral(&[], &env).unwrap();
    let tokens = TokenKeys::from_pem(pki.service_account_key.expose(), "us", &["api".to_owned()]).unwrap();
    source.put(
        "serviceaccounts",
        &json!({"metadata": {"namespace": "shop", "name": "robot", "uid": "u-1"}}),
    );
    let authenticator = Authenticator::new(Config {
        source: Arc::new(source.clone()),
        env: env.clone(),
        tokens: Arc::new(tokens),
        client_authorities_pem: Some(pki.authority.certificate_pem().to_owned()),
        front_proxy: Some(
            FrontProxy::new(
                pki.front_proxy_authority.certificate_pem(),
                vec!["front-proxy-client".to_owned()],
                FrontProxyHeaders::default(),
            )
            .unwrap(),
        ),
        anonymous: Anonymous::Allowed,
    })
    .unwrap();
    World {
        source,
        pki,
        env,
        clock,
        authenticator,
    }
}

fn peer(identity: &Identity) -> Peer {
    let chain = CertificateDer::pem_slice_iter(identity.certificate_pem.as_bytes());
    Peer {
        address: None,
        certificates: chain.map(Result::unwrap).collect(),
    }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

impl World {
    async fn who(&self, peer: &Peer, pairs: &[(&'static str, &str)]) -> String {
        let mut headers = headers(pairs);
        let found = self.authenticator.authenticate(peer, &mut headers).await;
        assert!(
            !headers.contains_key("authorization"),
            "credentials go no further"
        );
        match found {
            Ok(user) => format!("{} [{}]", user.name, user.groups.join(" ")),
            Err(error) => {
                if error.code != 503 {
                    assert_eq!(
                        (error.message.as_str(), error.reason),
                        ("Unauthorized", Reason::Unauthorized)
                    );
                }
                error.code.to_string()
            }
        }
    }

    async fn bearer(&self, token: &str) -> String {
        self.who(&Peer::default(), &[("authorization", &format!("Bearer {token}"))])
            .await
    }

    fn token(&self, change: impl FnOnce(&mut Claims)) -> String {
        let mut claims = Claims {
            namespace: "shop".into(),
            account: ObjectRef {
                name: "robot".into(),
                uid: "u-1".into(),
            },
            bound: Bound::Nothing,
            audiences: vec!["api".into()],
            not_before: NOW,
            expires: Some(NOW + 3_600),
            issued: NOW,
            id: "j".into(),
        };
        change(&mut claims);
        self.authenticator.tokens().sign(&claims).unwrap()
    }
}

const ANONYMOUS: &str = "system:anonymous [system:unauthenticated]";
const ROBOT: &str = "system:serviceaccount:shop:robot [system:serviceaccounts system:serviceaccounts:shop system:authenticated]";

#[tokio::test]
async fn takes_a_request_without_credentials_for_anonymous() {
    let world = world();
    assert_eq!(world.who(&Peer::default(), &[]).await, ANONYMOUS);
    for value in [
        "Basic system:anonymous",
        "Basic c3lzdGVtOmFub255bW91czo=",
        "Bearer",
        "Negotiate x",
    ] {
        assert_eq!(
            world.who(&Peer::default(), &[("authorization", value)]).await,
            ANONYMOUS,
            "{value}"
        );
    }
}

#[tokio::test]
async fn believes_certificates_of_its_own_authority_while_they_are_valid() {
    let world = world();
    let admin = peer(&world.pki.admin);
    assert_eq!(
        world.who(&admin, &[]).await,
        "kubernetes-admin [system:masters system:authenticated]"
    );
    let (other, _) = env_at(NOW);
    let stranger = Pki::ephemeral(&[], &other).unwrap();
    assert_eq!(world.who(&peer(&stranger.admin), &[]).await, "401");
    let token = format!("Bearer {}", world.token(|_| {}));
    assert_eq!(
        world
            .who(&peer(&stranger.admin), &[("authorization", &token)])
            .await,
        ROBOT,
        "a token still counts beside a certificate that does not"
    );
    let nameless = world
        .pki
        .authority
        .issue_client("", &[], SignedDuration::from_hours(1), &world.env)
        .unwrap();
    assert_eq!(world.who(&peer(&nameless), &[]).await, "401");
    assert_eq!(
        world.who(&peer(&world.pki.serving), &[]).await,
        "401",
        "a serving certificate is no client's"
    );
    *world.clock.0.lock().unwrap() = Timestamp::from_second(NOW + 366 * 24 * 3_600).unwrap();
    assert_eq!(
        world.who(&admin, &[]).await,
        "401",
        "expired, although it is remembered"
    );
}

#[tokio::test]
async fn believes_tokens_while_what_they_are_bound_to_exists() {
    let world = world();
    let plain = world.token(|_| {});
    assert_eq!(world.bearer(&plain).await, ROBOT);
    assert_eq!(
        world
            .bearer(&world.token(|claims| claims.audiences = vec!["vault".into()]))
            .await,
        "401"
    );
    assert_eq!(
        world
            .bearer(&world.token(|claims| claims.expires = Some(NOW)))
            .await,
        "401"
    );
    assert_eq!(
        world
            .bearer(&world.token(|claims| claims.account.uid = "old".into()))
            .await,
        "401"
    );
    let pod = ObjectRef {
        name: "web".into(),
        uid: "p-1".into(),
    };
    let bound = world.token(|claims| claims.bound = Bound::Pod(pod, None));
    assert_eq!(world.bearer(&bound).await, "401");
    world.source.put(
        "pods",
        &json!({"metadata": {"namespace": "shop", "name": "web", "uid": "p-1"}}),
    );
    assert_eq!(world.bearer(&bound).await, ROBOT);
    world.source.put(
        "pods",
        &json!({"metadata": {"namespace": "shop", "name": "web", "uid": "p-2"}}),
    );
    assert_eq!(world.bearer(&bound).await, "401", "the pod was replaced");
    world.source.remove("serviceaccounts", "shop", "robot");
    assert_eq!(
        world.bearer(&plain).await,
        "401",
        "the account is gone, although the token is remembered"
    );
}

#[tokio::test]
async fn a_secrets_token_dies_with_its_secret() {
    let world = world();
    let account = json!({"metadata": {"namespace": "shop", "name": "robot", "uid": "u-1"}});
    let token = secret_token(world.authenticator.tokens(), &account, "robot-token").unwrap();
    assert_eq!(world.bearer(&token).await, "401");
    let mut secret = json!({
        "type": "kubernetes.io/service-account-token", "data": {"token": STANDARD.encode(&token)},
        "metadata": {
            "namespace": "shop", "name": "robot-token",
            "annotations": {"kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.uid": "u-1"},
        },
    });
    world.source.put("secrets", &secret);
    assert_eq!(world.bearer(&token).await, ROBOT);
    secret["data"]["token"] = json!(STANDARD.encode("another"));
    world.source.put("secrets", &secret);
    assert_eq!(world.bearer(&token).await, "401", "the Secret was made anew");
    secret["data"]["token"] = json!(STANDARD.encode(&token));
    secret["type"] = json!("Opaque");
    world.source.put("secrets", &secret);
    assert_eq!(world.bearer(&token).await, "401");
    world.source.remove("secrets", "shop", "robot-token");
    assert_eq!(world.bearer(&token).await, "401");
}

#[tokio::test]
async fn believes_bootstrap_tokens_of_kube_system() {
    let world = world();
    assert_eq!(world.bearer("abcdef.0123456789abcdef").await, "401");
    let data = json!({
        "token-id": STANDARD.encode("abcdef"), "token-secret": STANDARD.encode("0123456789abcdef"),
        "usage-bootstrap-authentication": STANDARD.encode("true"),
    });
    let secret = |namespace: &str| {
        json!({
            "type": "bootstrap.kubernetes.io/token", "data": data,
            "metadata": {"namespace": namespace, "name": "bootstrap-token-abcdef"},
        })
    };
    world.source.put("secrets", &secret("default"));
    assert_eq!(
        world.bearer("abcdef.0123456789abcdef").await,
        "401",
        "the wrong namespace"
    );
    world.source.put("secrets", &secret("kube-system"));
    assert_eq!(
        world.bearer("abcdef.0123456789abcdef").await,
        "system:bootstrap:abcdef [system:bootstrappers system:authenticated]"
    );
}

#[tokio::test]
async fn believes_the_headers_of_front_proxies_alone() {
    let world = world();
    let said = [
        ("x-remote-user", "ann"),
        ("x-remote-group", "dev"),
        ("x-remote-group", "ops"),
        ("x-remote-extra-clusternet-token", "t"),
    ];
    let proxy = peer(&world.pki.front_proxy);
    assert_eq!(
        world.who(&proxy, &said).await,
        "ann [dev ops system:authenticated]"
    );
    assert_eq!(world.who(&Peer::default(), &said).await, ANONYMOUS);
    assert_eq!(
        world.who(&peer(&world.pki.admin), &said).await,
        "kubernetes-admin [system:masters system:authenticated]",
        "an administrator is no proxy"
    );
    let other = world
        .pki
        .front_proxy_authority
        .issue_client("somebody-else", &[], SignedDuration::from_hours(1), &world.env)
        .unwrap();
    assert_eq!(
        world.who(&peer(&other), &said).await,
        "401",
        "its name is not allowed"
    );
    let mut all = headers(&said);
    let user = world.authenticator.authenticate(&proxy, &mut all).await.unwrap();
    assert_eq!(user.extra["clusternet-token"], ["t"]);
    assert!(all.is_empty(), "nothing of it goes further: {all:?}");
}

#[tokio::test]
async fn takes_a_token_from_the_protocols_of_a_websocket() {
    let world = world();
    let encoded = URL_SAFE_NO_PAD.encode(world.token(|_| {}));
    let protocols = format!("v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.{encoded}");
    let mut all = headers(&[("sec-websocket-protocol", &protocols)]);
    let user = world
        .authenticator
        .authenticate(&Peer::default(), &mut all)
        .await
        .unwrap();
    assert_eq!(user.name, "system:serviceaccount:shop:robot");
    assert_eq!(all["sec-websocket-protocol"], "v5.channel.k8s.io");
}

#[tokio::test]
async fn refuses_hostile_tokens() {
    let world = world();
    for token in [
        "x".repeat(1 << 20),
        "a.b.c".to_owned(),
        ".".repeat(5_000),
        "abcdef.0123456789abcdeg".to_owned(),
    ] {
        assert_eq!(world.bearer(&token).await, "401");
    }
    let mut all = HeaderMap::new();
    all.insert(
        AUTHORIZATION,
        HeaderValue::from_bytes(b"Bearer \xff\xfe").unwrap(),
    );
    let error = world
        .authenticator
        .authenticate(&Peer::default(), &mut all)
        .await
        .unwrap_err();
    assert_eq!(error.code, 401);
}

#[tokio::test]
async fn calls_no_credential_bad_that_it_cannot_look_up() {
    let world = world();
    let token = world.token(|_| {});
    let stale = world.token(|claims| claims.expires = Some(NOW - 3_600));
    let stranger = Pki::ephemeral(&[], &world.env).unwrap();
    world.source.close();
    for (what, token, expected) in [
        ("a service account", token.as_str(), "503"),
        ("a bootstrap token", "abcdef.0123456789abcdef", "503"),
        ("an expired token needs no look", &stale, "401"),
        ("what is no token needs none either", "a.b.c", "401"),
    ] {
        assert_eq!(world.bearer(token).await, expected, "{what}");
    }
    let bearer = format!("Bearer {token}");
    let unknown = peer(&stranger.admin);
    assert_eq!(
        world.who(&unknown, &[("authorization", &bearer)]).await,
        "503",
        "the token beside a bad certificate may be good"
    );
    assert_eq!(
        world.who(&peer(&world.pki.admin), &[]).await,
        "kubernetes-admin [system:masters system:authenticated]",
        "certificates need no store"
    );
    let gate = Gate::new(
        Some(Arc::new(world.authenticator)),
        Arc::new(crate::authz::AllowAll),
    );
    let review = json!({"spec": {"token": token}});
    let (now, user) = (Timestamp::UNIX_EPOCH, UserInfo::loopback());
    let group = "authentication.k8s.io";
    let answer = crate::reviews::create(&gate, now, &user, group, "tokenreviews", "", &review).await;
    assert_eq!(answer.unwrap_err().code, 503, "a review does not say no either");
}
