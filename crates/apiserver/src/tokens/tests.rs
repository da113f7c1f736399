use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;
use crate::pki::Pki;
use crate::pki::tests::env_at;

const NOW: i64 = 1_800_000_000;

fn keys() -> (TokenKeys, clock::Env) {
    let (env, _) = env_at(NOW);
    let pki = Pki::ephemeral(&[], &env).unwrap();
    let keys = TokenKeys::from_pem(pki.service_account_key.expose(), "us", &["api".to_owned()]).unwrap();
    (keys, env)
}

fn claims() -> Claims {
    Claims {
        namespace: "shop".into(),
        account: ObjectRef {
            name: "robot".into(),
            uid: "u-1".into(),
        },
        bound: Bound::Nothing,
        audiences: vec!["api".into()],
        not_before: NOW,
        expires: Some(NOW + 600),
        issued: NOW,
        id: "j-1".into(),
    }
}

fn forge(header: Value, payload: &Value, signature: &str) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{signature}", part(&header), part(payload))
}

#[test]
fn accepts_its_own_tokens_while_they_are_valid() {
    let (env, _) = env_at(NOW);
    let seeded = TokenKeys::seeded(&env, "us", &["api".to_owned()]).unwrap();
    for keys in [keys().0, seeded] {
        for bound in [
            Bound::Nothing,
            Bound::Pod(ObjectRef::default(), Some(ObjectRef::default())),
            Bound::Secret(ObjectRef::default()),
            Bound::Node(ObjectRef::default()),
        ] {
            let claims = Claims { bound, ..claims() };
            let token = keys.sign(&claims).unwrap();
            assert_eq!(*keys.verify(&token, NOW).unwrap(), claims);
            assert_eq!(*keys.verify(&token, NOW + 599).unwrap(), claims, "from the cache");
            assert_eq!(keys.verify(&token, NOW + 600), Err(TokenError::Expired));
            assert_eq!(keys.verify(&token, NOW - 1), Err(TokenError::NotYet));
        }
    }
}

#[test]
fn refuses_forged_tokens() {
    let (keys, _) = keys();
    let token = keys.sign(&claims()).unwrap();
    let mut parts = token.split('.');
    let (header, payload, signature) = (
        parts.next().unwrap(),
        parts.next().unwrap(),
        parts.next().unwrap(),
    );
    let decoded: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap();
    let kid =
        serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(header).unwrap()).unwrap()["kid"].clone();
    let mut other_payload = decoded.clone();
    other_payload["kubernetes.io"]["serviceaccount"]["name"] = json!("admin");
    let (stranger, _) = self::keys();
    for (what, forged) in [
        (
            "no algorithm",
            forge(json!({"alg": "none", "kid": kid}), &decoded, ""),
        ),
        (
            "no algorithm, in capitals",
            forge(json!({"alg": "NONE", "kid": kid}), &decoded, signature),
        ),
        (
            "a symmetric algorithm",
            forge(json!({"alg": "HS256", "kid": kid}), &decoded, signature),
        ),
        (
            "another asymmetric one",
            forge(json!({"alg": "RS256", "kid": kid}), &decoded, signature),
        ),
        (
            "an unknown key",
            forge(
                json!({"alg": "ES256", "kid": "../../sa.key"}),
                &decoded,
                signature,
            ),
        ),
        (
            "an embedded key",
            forge(
                json!({"alg": "ES256", "jwk": stranger.jwks()["keys"][0]}),
                &decoded,
                stranger.sign(&claims()).unwrap().rsplit('.').next().unwrap(),
            ),
        ),
        (
            "another payload",
            forge(json!({"alg": "ES256", "kid": kid}), &other_payload, signature),
        ),
        ("a stranger's key", stranger.sign(&claims()).unwrap()),
        ("an empty signature", format!("{header}.{payload}.")),
    ] {
        assert_eq!(keys.verify(&forged, NOW), Err(TokenError::Signature), "{what}");
    }
}

#[test]
fn refuses_malformed_tokens() {
    let (keys, _) = keys();
    for token in ["", ".", "..", "...", "a.b.c", "a.b", "é.é.é"] {
        let found = keys.verify(token, NOW);
        assert!(
            matches!(found, Err(TokenError::Malformed(_))),
            "{token}: {found:?}"
        );
    }
    let long = "x".repeat(1 << 20);
    assert_eq!(keys.verify(&long, NOW), Err(TokenError::TooLong(1 << 20)));
    let elsewhere = forge(json!({"alg": "ES256"}), &json!({"iss": "https://elsewhere"}), "x");
    assert_eq!(keys.verify(&elsewhere, NOW), Err(TokenError::Issuer));
}

#[test]
fn issues_by_the_rules_of_a_token_request() {
    let (keys, env) = keys();
    let account = json!({"metadata": {"namespace": "shop", "name": "robot", "uid": "u-1"}});
    let pod = json!({"metadata": {"name": "p", "uid": "u-2"}, "spec": {"serviceAccountName": "robot"}});
    let check = |spec: Value, want: &str| {
        let request = json!({"spec": spec});
        let bound = (request["spec"]["boundObjectRef"]["name"] == "p").then_some(&pod);
        let got = match issue(&keys, &env, &account, &request, bound) {
            Err(error) => format!("{} {}", error.code, error.message),
            Ok(answer) => {
                let token = answer["status"]["token"].as_str().unwrap();
                let claims = keys.verify(token, NOW).unwrap();
                let lifetime = claims.expires.unwrap() - NOW;
                assert_eq!(answer["spec"]["expirationSeconds"], lifetime);
                format!("{:?} {lifetime} {:?}", claims.audiences, claims.bound)
            }
        };
        assert!(got.starts_with(want), "{spec}: {got}");
    };
    check(json!({}), "[\"api\"] 3600 Nothing");
    check(
        json!({"audiences": ["vault"], "expirationSeconds": 600}),
        "[\"vault\"] 600 Nothing",
    );
    check(
        json!({"expirationSeconds": 599}),
        "422 TokenRequest.authentication.k8s.io",
    );
    check(json!({"expirationSeconds": (1_i64 << 32) + 1}), "422");
    let reference = |kind: &str, name: &str, uid: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}});
    check(
        reference("Pod", "p", "u-2"),
        "[\"api\"] 3600 Pod(ObjectRef { name: \"p\", uid: \"u-2\" }, None)",
    );
    check(reference("Pod", "p", "old"), "409");
    check(reference("Pod", "q", ""), "404 pods \"q\" not found");
    check(reference("ConfigMap", "p", ""), "400");
    let other = json!({"metadata": {"namespace": "shop", "name": "other", "uid": "u-3"}});
    let request = json!({"spec": reference("Pod", "p", "")});
    assert_eq!(
        issue(&keys, &env, &other, &request, Some(&pod)).unwrap_err().code,
        400
    );
}

#[test]
fn a_secrets_token_never_expires_and_names_its_secret() {
    let (keys, _) = keys();
    let account = json!({"metadata": {"namespace": "shop", "name": "robot", "uid": "u-1"}});
    let token = secret_token(&keys, &account, "robot-token").unwrap();
    let claims = keys.verify(&token, i64::MAX).unwrap();
    assert!(claims.is_legacy());
    assert_eq!(claims.account.uid, "u-1");
    assert!(matches!(&claims.bound, Bound::Secret(secret) if secret.name == "robot-token"));
}

#[test]
fn the_cache_of_verified_tokens_is_bounded() {
    let (env, _) = env_at(NOW);
    let keys = TokenKeys::seeded(&env, "us", &[]).unwrap();
    for number in 0..5_000 {
        let token = keys
            .sign(&Claims {
                id: number.to_string(),
                ..claims()
            })
            .unwrap();
        keys.verify(&token, NOW).unwrap();
    }
    assert!(keys.remembered() <= 4_096);
}

#[test]
fn takes_the_keys_that_people_have() {
    for (pem, algorithm) in [
        (include_str!("fixtures/rsa-pkcs1.pem"), "RS256"),
        (include_str!("fixtures/rsa-pkcs8.pem"), "RS256"),
        (include_str!("fixtures/p256-sec1.pem"), "ES256"),
    ] {
        let keys = TokenKeys::from_pem(pem, "us", &[]).unwrap();
        let token = keys.sign(&claims()).unwrap();
        assert_eq!(*keys.verify(&token, NOW).unwrap(), claims());
        assert_eq!(keys.jwks()["keys"][0]["alg"], algorithm);
    }
    assert!(TokenKeys::from_pem("rubbish", "us", &[]).is_err());
}
