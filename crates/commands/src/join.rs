//! `join`: what a cluster needs to join, with a fresh token of its own.

use std::io::Write;

use api::install::{ChildOptions, child};
use api::kubernetes::SECRETS;
use api::names::{AGENT, BOOTSTRAP_GROUP, SYSTEM_NAMESPACE};
use clock::Env;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::manifests::print;
use crate::{Error, Hub};

/// How a cluster joins.
#[derive(Debug, Clone)]
pub struct JoinOptions {
    /// The name it gets.
    pub name: String,
    /// The parent's address as the child sees it.
    pub parent_url: String,
    /// The image with this program.
    pub image: String,
    /// How long the token can be used.
    pub token_lifetime: SignedDuration,
    /// What the parent may send there.
    pub rights: ChildOptions,
}

/// Makes a bootstrap token on the hub and prints what is to be applied in the child.
///
/// # Errors
/// [`Error`] if the hub does not take the token.
pub async fn join(
    hub: &Hub,
    env: &Env,
    options: &JoinOptions,
    out: &mut (dyn Write + Send),
) -> Result<(), Error> {
    let (id, secret) = (token_part(env, 6), token_part(env, 16));
    let expiration = env
        .now()
        .checked_add(options.token_lifetime)
        .map_err(|error| Error::Usage(format!("a token cannot last {}: {error}", options.token_lifetime)))?;
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
        "metadata": {
            "name": format!("bootstrap-token-{id}"), "namespace": "kube-system",
            "labels": {api::labels::CLUSTER_NAME: options.name},
        },
        "stringData": {
            "token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
            "auth-extra-groups": BOOTSTRAP_GROUP, "expiration": expiration.to_string(),
            "description": format!("lets cluster {} join", options.name),
        },
    });
    hub.client
        .create(&SECRETS, Some("kube-system"), &object)
        .await
        .map_err(Error::hub("the hub takes no bootstrap token"))?;
    let mut objects = child(&options.rights);
    objects.push(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": "clusternet-agent-bootstrap", "namespace": SYSTEM_NAMESPACE},
        "stringData": {"token": format!("{id}.{secret}"), "ca.crt": ca(hub)?},
    }));
    objects.push(deployment(options));
    print(out, &objects)
}

/// Random lower-case letters and digits, as bootstrap tokens have.
fn token_part(env: &Env, length: usize) -> String {
    env.suffix(length)
}

fn ca(hub: &Hub) -> Result<String, Error> {
    let authority = hub.door()?.authority;
    authority
        .and_then(|pem| String::from_utf8(pem).ok())
        .ok_or_else(|| Error::Missing("the hub's kubeconfig names no certificate authority".into()))
}

fn deployment(options: &JoinOptions) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": AGENT, "namespace": SYSTEM_NAMESPACE, "labels": {"app": AGENT}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": AGENT}},
            "template": {
                "metadata": {"labels": {"app": AGENT}},
                "spec": {
                    "serviceAccountName": AGENT,
                    "securityContext": {"runAsNonRoot": true, "runAsUser": 65_532, "seccompProfile": {"type": "RuntimeDefault"}},
                    "volumes": [{"name": "bootstrap", "secret": {"secretName": "clusternet-agent-bootstrap"}}],
                    "containers": [{
                        "name": "tombolo", "image": options.image,
                        "args": [
                            "agent", "--cluster-reg-parent-url", options.parent_url,
                            "--cluster-reg-name", options.name,
                            "--cluster-reg-parent-ca", "/var/run/tombolo/ca.crt",
                        ],
                        "env": [{"name": "TOMBOLO_CLUSTER_REG_TOKEN", "valueFrom": {
                            "secretKeyRef": {"name": "clusternet-agent-bootstrap", "key": "token"},
                        }}],
                        "volumeMounts": [{"name": "bootstrap", "mountPath": "/var/run/tombolo", "readOnly": true}],
                        "securityContext": {
                            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
                    }],
                },
            },
        },
    })
}
