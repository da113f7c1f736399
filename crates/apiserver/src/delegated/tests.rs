use std::sync::atomic::{AtomicUsize, Ordering};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::*;
use crate::authz::Target;
use crate::pki::{Identity, Pki};

struct Echo;

impl GroupHandler for Echo {
    fn group(&self) -> &str {
        "shadow"
    }
    fn version(&self) -> &str {
        "v1alpha1"
    }
    fn discovery(&self) -> Value {
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "shadow/v1alpha1", "resources": []})
    }
    fn handle(&self, info: RequestInfo, user: UserInfo, _: Request<Body>) -> BoxFuture<'_, Response<Body>> {
        let text = format!("{} {} {} {:?}", user.name, info.verb, info.resource, user.extra);
        Box::pin(async move { Response::new(Body::from(text)) })
    }
}

#[derive(Default)]
struct Parent {
    reviews: AtomicUsize,
}

impl TokenReviewer for Parent {
    fn review<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<UserInfo>, ApiError>> {
        self.reviews.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { Ok((token == "good").then(|| UserInfo::new("tom", &[]))) })
    }
}

impl AccessReviewer for Parent {
    fn review<'a>(
        &'a self,
        user: &'a UserInfo,
        attributes: &'a Attributes,
    ) -> BoxFuture<'a, Result<Decision, ApiError>> {
        self.reviews.fetch_add(1, Ordering::SeqCst);
        let may = match &attributes.target {
            Target::Path(_) => true,
            Target::Resource { resource, .. } => user.name != "system:anonymous" && resource == "pods",
        };
        Box::pin(async move {
            Ok(if may {
                Decision::allowed("")
            } else {
                Decision::no_opinion()
            })
        })
    }
}

fn world() -> (Arc<Delegated>, Arc<Parent>, Pki) {
    let env = Env::system();
    let pki = Pki::ephemeral(&[], &env).unwrap();
    let parent = Arc::new(Parent::default());
    let server = Delegated::new(Config {
        groups: vec![Arc::new(Echo)],
        tokens: parent.clone(),
        access: parent.clone(),
        env,
    });
    let data = json!({
        "client-ca-file": pki.authority.certificate_pem(),
        "requestheader-client-ca-file": pki.front_proxy_authority.certificate_pem(),
        "requestheader-allowed-names": "[\"front-proxy-client\"]",
        "requestheader-username-headers": "[\"X-Remote-User\"]",
        "requestheader-group-headers": "[\"X-Remote-Group\"]",
        "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
    });
    server.set_authentication(&json!({ "data": data })).unwrap();
    (server, parent, pki)
}

fn peer(identity: &Identity) -> Peer {
    let chain = CertificateDer::pem_slice_iter(identity.certificate_pem.as_bytes());
    Peer {
        address: None,
        certificates: chain.map(Result::unwrap).collect(),
    }
}

async fn get(server: &Delegated, peer: &Peer, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = server.answer(request.body(Body::empty()).unwrap(), peer).await;
    let code = response.status().as_u16();
    let body = response.into_body().read(1 << 20).await.unwrap();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

const PODS: &str = "/apis/shadow/v1alpha1/pods";

#[tokio::test]
async fn believes_the_parents_front_proxy() {
    let (server, _, pki) = world();
    let said = [("x-remote-user", "ann"), ("x-remote-extra-clusternet-token", "t")];
    let (code, text) = get(&server, &peer(&pki.front_proxy), PODS, &said).await;
    assert_eq!(
        (code, text.as_str()),
        (200, r#"ann list pods {"clusternet-token": ["t"]}"#)
    );
    let (code, text) = get(&server, &Peer::default(), PODS, &said).await;
    assert_eq!(code, 403, "{text}");
    assert!(text.contains("system:anonymous"));
    let (code, text) = get(&server, &peer(&pki.admin), PODS, &said).await;
    assert_eq!(code, 200);
    assert!(text.starts_with("kubernetes-admin list pods"), "{text}");
    let (code, _) = get(
        &server,
        &peer(&pki.front_proxy),
        "/apis/shadow/v1alpha1/secrets",
        &said,
    )
    .await;
    assert_eq!(code, 403);
    let (code, text) = get(&server, &peer(&pki.front_proxy), PODS, &[]).await;
    assert_eq!(code, 403, "a proxy that names nobody is nobody: {text}");
}

#[tokio::test(start_paused = true)]
async fn asks_the_parent_about_tokens_and_rights_and_remembers_for_a_while() {
    let (server, parent, _) = world();
    let good = [("authorization", "Bearer good")];
    assert_eq!(
        get(&server, &Peer::default(), PODS, &good).await.1,
        "tom list pods {}"
    );
    assert_eq!(parent.reviews.load(Ordering::SeqCst), 2);
    get(&server, &Peer::default(), PODS, &good).await;
    assert_eq!(parent.reviews.load(Ordering::SeqCst), 2, "remembered");
    tokio::time::advance(std::time::Duration::from_secs(11)).await;
    get(&server, &Peer::default(), PODS, &good).await;
    assert_eq!(parent.reviews.load(Ordering::SeqCst), 4, "asked again");
    assert_eq!(
        get(
            &server,
            &Peer::default(),
            PODS,
            &[("authorization", "Bearer bad")]
        )
        .await
        .0,
        401
    );
    let long = format!("Bearer {}", "x".repeat(20_000));
    assert_eq!(
        get(&server, &Peer::default(), PODS, &[("authorization", &long)])
            .await
            .0,
        401
    );
}

#[tokio::test]
async fn serves_discovery_and_health() {
    let (server, _, pki) = world();
    let admin = peer(&pki.admin);
    let (code, text) = get(&server, &admin, "/apis", &[]).await;
    assert_eq!(code, 200);
    assert!(text.contains("\"shadow/v1alpha1\""), "{text}");
    let (_, text) = get(&server, &admin, "/apis/shadow/v1alpha1", &[]).await;
    assert!(text.contains("APIResourceList"), "{text}");
    for path in [
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/apis/shadow/v1alpha1",
        "/version",
    ] {
        assert_eq!(get(&server, &admin, path, &[]).await.0, 200, "{path}");
    }
    assert_eq!(
        get(&server, &Peer::default(), "/readyz", &[]).await,
        (200, "ok".to_owned())
    );
    assert_eq!(get(&server, &admin, "/apis/other/v1/things", &[]).await.0, 404);
}

#[test]
fn refuses_a_configuration_that_is_not_usable() {
    let (server, _, pki) = world();
    let authorities = pki.front_proxy_authority.certificate_pem();
    for data in [
        json!({"client-ca-file": "no pem"}),
        json!({"requestheader-client-ca-file": authorities}),
        json!({"requestheader-client-ca-file": authorities, "requestheader-username-headers": "X-Remote-User"}),
    ] {
        assert!(
            server.set_authentication(&json!({ "data": data })).is_err(),
            "{data}"
        );
    }
    assert!(
        server.set_authentication(&json!({})).is_ok(),
        "it then trusts nobody"
    );
}
