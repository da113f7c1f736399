//! The agent's Deployment in a child, and the Secret that lets it register.

use serde_json::{Value, json};

use super::add_probes;
use crate::names::{AGENT, SYSTEM_NAMESPACE};
use crate::secret;

/// The Secret in the child with the token and the parent's authority.
pub const BOOTSTRAP_SECRET: &str = "clusternet-agent-bootstrap";
/// Where it is mounted.
const MOUNT: &str = "/var/run/tombolo";
/// The agent's port of health and metrics, as it is when nothing else is said.
const STATUS_PORT: u16 = 10_650;

/// How an agent is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentOptions<'a> {
    /// The image with this program.
    pub image: &'a str,
    /// The parent's address as the child sees it.
    pub parent_url: &'a str,
    /// The name that the cluster asks for; without one the agent makes one up.
    pub name: Option<&'a str>,
    /// `Pull`, `Push` or `Dual`; the agent's default without.
    pub sync_mode: Option<&'a str>,
    /// How many run; one of them works.
    pub replicas: u32,
    /// Whether the Secret holds the parent's authority; without one the machine's own are trusted.
    pub has_authority: bool,
}

/// What the agent registers with. The authority is in PEM.
pub fn bootstrap_secret(token: &str, authority: Option<&str>) -> Value {
    let mut data = json!({"token": secret::encode(token)});
    if let Some(authority) = authority {
        data["ca.crt"] = json!(secret::encode(authority));
    }
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": BOOTSTRAP_SECRET, "namespace": SYSTEM_NAMESPACE}, "data": data,
    })
}

/// The agent's Deployment. Its identity and rights are those of [`child()`](super::child()).
pub fn agent(options: &AgentOptions<'_>) -> Value {
    let mut args = vec!["agent", "--cluster-reg-parent-url", options.parent_url];
    if let Some(name) = options.name {
        args.extend(["--cluster-reg-name", name]);
    }
    if let Some(mode) = options.sync_mode {
        args.extend(["--cluster-sync-mode", mode]);
    }
    let authority = format!("{MOUNT}/ca.crt");
    if options.has_authority {
        args.extend(["--cluster-reg-parent-ca", &authority]);
    }
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": AGENT, "namespace": SYSTEM_NAMESPACE, "labels": {"app": AGENT}},
        "spec": {
            "replicas": options.replicas,
            "selector": {"matchLabels": {"app": AGENT}},
            "template": {
                "metadata": {"labels": {"app": AGENT}},
                "spec": {
                    "serviceAccountName": AGENT,
                    "securityContext": {"runAsNonRoot": true, "runAsUser": 65_532, "seccompProfile": {"type": "RuntimeDefault"}},
                    "volumes": [{"name": "bootstrap", "secret": {"secretName": BOOTSTRAP_SECRET}}],
                    "containers": [{
                        "name": "tombolo", "image": options.image, "args": args,
                        "env": [{"name": "TOMBOLO_CLUSTER_REG_TOKEN", "valueFrom": {
                            "secretKeyRef": {"name": BOOTSTRAP_SECRET, "key": "token"},
                        }}],
                        "volumeMounts": [{"name": "bootstrap", "mountPath": MOUNT, "readOnly": true}],
                        "securityContext": {
                            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
                    }],
                },
            },
        },
    });
    add_probes(&mut deployment, STATUS_PORT);
    deployment
}
