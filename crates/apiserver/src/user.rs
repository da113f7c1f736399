//! Who a request is from.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;

/// The group of everybody who proved an identity.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody who did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group that may do anything.
pub const MASTERS: &str = "system:masters";

/// A user, as authentication (or impersonation) found it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The user's name.
    pub name: String,
    /// The user's uid, empty if unknown.
    pub uid: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
    /// Further facts, such as the pod that a token is bound to.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user with a name and groups; `system:authenticated` is added.
    pub fn new(name: impl Into<String>, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self {
            name: name.into(),
            groups,
            ..Self::default()
        }
    }

    /// Whoever has no credentials.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// A service account, as its tokens authenticate.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::new(
            format!("system:serviceaccount:{namespace}:{name}"),
            &[
                "system:serviceaccounts",
                &format!("system:serviceaccounts:{namespace}"),
            ],
        )
    }

    /// The control plane itself.
    pub fn loopback() -> Self {
        Self::new("system:apiserver", &[MASTERS])
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|candidate| candidate == group)
    }
}

/// The other end of a connection. Cheap to clone: every request has its own.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// Its address, `None` for in-process callers.
    pub address: Option<SocketAddr>,
    /// The certificates it presented, its own first; proof of possession is done, trust is not yet decided.
    pub certificates: Arc<[CertificateDer<'static>]>,
}

/// Where a request comes from.
#[derive(Debug, Clone)]
pub enum Caller {
    /// A connection: the request's own credentials decide who it is.
    Peer(Peer),
    /// A part of this process that acts as a known user.
    User(UserInfo),
}
