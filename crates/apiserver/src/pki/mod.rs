//! The certificates and keys of an embedded control plane: made on the first start, loaded and renewed on later
//! ones. Knows files only through [`clock::disk::Disk`] (which makes them 0600) and knows nothing of requests.
//! The entry type is [`Pki`].

mod files;
mod issue;
mod kubeconfig;
pub mod succession;
mod tls;

use std::fmt;

use clock::Env;
use clock::disk::Disk;
use jiff::{SignedDuration, Timestamp};

pub use issue::{Authority, Identity};
pub use kubeconfig::{Credential, Kubeconfig};
pub use succession::{Phase, Step};
pub(crate) use tls::roots;
pub use tls::{ServingCertificate, client_config, install_default, provider, server_config};

/// How long leaf certificates are valid.
pub const LEAF_LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);
/// How long authorities are valid.
pub const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// A leaf with less than this left is made anew.
pub const LEAF_RENEWAL: SignedDuration = SignedDuration::from_hours(60 * 24);
/// An authority with less than this left gets a successor ([`succession`]).
pub const AUTHORITY_RENEWAL: SignedDuration = SignedDuration::from_hours(2 * 365 * 24);

/// One for which it is too late for that, and one that only this process trusts, is made anew with its old key and name:
/// what it signed stays valid.
pub const LAST_RENEWAL: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The common name of our own front proxy's certificate.
pub const FRONT_PROXY: &str = "front-proxy-client";

/// The names and addresses that a serving certificate always carries.
const SERVING_NAMES: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Why certificates could not be made or loaded.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file could not be read or written.
    #[error("file \"{file}\" of the key directory")]
    File {
        /// Its name.
        file: String,
        /// What the disk said.
        #[source]
        source: std::io::Error,
    },
    /// A file does not hold what its name says.
    #[error("file \"{file}\" of the key directory is damaged: {why}")]
    Damaged {
        /// Its name.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A certificate could not be made.
    #[error("cannot issue a certificate")]
    Issue(#[from] rcgen::Error),
    /// The TLS library refused a certificate, key or configuration.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// A PEM text is not what it should be.
    #[error("not usable as {what}: {why}")]
    Pem {
        /// What it was meant to be.
        what: &'static str,
        /// What is wrong.
        why: String,
    },
}

/// A text that must not be logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a text in.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Everything that a control plane signs and authenticates with.
#[derive(Debug)]
pub struct Pki {
    /// Signs serving and client certificates.
    pub authority: Authority,
    /// What the listener shows.
    pub serving: Identity,
    /// The administrator's client certificate (`system:masters`).
    pub admin: Identity,
    /// Signs front proxies' client certificates.
    pub front_proxy_authority: Authority,
    /// What the aggregator shows to aggregated API servers.
    pub front_proxy: Identity,
    /// PKCS #8 PEM of the key that signs service-account tokens.
    pub service_account_key: Secret,
    /// The authorities that clients and servers are to trust, PEM: the one that signs, and the one that will or did.
    pub trusted_pem: String,
    /// What happens next to them, and when it is time for that.
    pub next_step: (Step, Timestamp),
}

impl Pki {
    /// Loads what is there, makes what is missing, renews what nears its end. `names` are further host names and
    /// addresses of the serving certificate. A directory that was never used ends complete; a crash at any point
    /// leaves one that a second call completes.
    ///
    /// # Errors
    /// [`PkiError::File`] for the disk's errors; [`PkiError::Damaged`] for a file that does not parse: keys are
    /// never replaced silently.
    pub fn load_or_create(disk: &dyn Disk, names: &[String], env: &Env) -> Result<Self, PkiError> {
        let now = env.now();
        files::finish_succession(disk)?;
        let authority = files::authority(disk, "ca", "tombolo-ca", LAST_RENEWAL, now, env)?;
        let (trusted_pem, phase) = files::trusted(disk, &authority)?;
        let front_proxy_authority = files::authority(
            disk,
            "front-proxy-ca",
            "tombolo-front-proxy-ca",
            AUTHORITY_RENEWAL,
            now,
            env,
        )?;
        let serving = files::leaf(disk, "apiserver", &authority, &serving_names(names), now, env)?;
        let admin_subject = issue::Leaf::client("kubernetes-admin", &["system:masters".to_owned()]);
        let admin = files::leaf(disk, "admin", &authority, &admin_subject, now, env)?;
        let proxy_subject = issue::Leaf::client(FRONT_PROXY, &[]);
        let front_proxy = files::leaf(
            disk,
            "front-proxy-client",
            &front_proxy_authority,
            &proxy_subject,
            now,
            env,
        )?;
        let service_account_key = files::key(disk, "sa.key")?;
        Ok(Self {
            authority,
            serving,
            admin,
            front_proxy_authority,
            front_proxy,
            service_account_key,
            trusted_pem,
            next_step: succession::next(phase),
        })
    }

    /// Takes the next step of one authority following another, whether or not it is time for it; answers which one that
    /// was. Load again then.
    ///
    /// # Errors
    /// As [`Pki::load_or_create`].
    pub fn succeed(disk: &dyn Disk, env: &Env) -> Result<Step, PkiError> {
        let now = env.now();
        files::finish_succession(disk)?;
        let authority = files::authority(disk, "ca", "tombolo-ca", LAST_RENEWAL, now, env)?;
        let (_, phase) = files::trusted(disk, &authority)?;
        let (step, _) = succession::next(phase);
        match step {
            Step::Announce => {
                files::authority(disk, files::NEXT, "tombolo-ca", LAST_RENEWAL, now, env)?;
            }
            Step::Succeed => files::succeed(disk, &authority)?,
            Step::Forget => files::forget(disk)?,
        }
        Ok(step)
    }

    /// The same without files, for tests and processes that keep nothing.
    ///
    /// # Errors
    /// [`PkiError::Issue`] if the cryptography library refuses.
    pub fn ephemeral(names: &[String], env: &Env) -> Result<Self, PkiError> {
        let now = env.now();
        let authority = Authority::create("tombolo-ca", now, env)?;
        let front_proxy_authority = Authority::create("tombolo-front-proxy-ca", now, env)?;
        let serving = authority.issue(&serving_names(names), LEAF_LIFETIME, now, env)?;
        let admin = authority.issue_client(
            "kubernetes-admin",
            &["system:masters".to_owned()],
            LEAF_LIFETIME,
            env,
        )?;
        let front_proxy = front_proxy_authority.issue_client(FRONT_PROXY, &[], LEAF_LIFETIME, env)?;
        let ends = authority.not_after();
        Ok(Self {
            trusted_pem: authority.certificate_pem().to_owned(),
            next_step: succession::next(Phase::Alone { ends }),
            authority,
            serving,
            admin,
            front_proxy_authority,
            front_proxy,
            service_account_key: Secret::new(issue::new_key()?.serialize_pem()),
        })
    }

    /// The administrator's kubeconfig for a server URL.
    pub fn admin_kubeconfig(&self, cluster: &str, server: &str) -> Kubeconfig {
        Kubeconfig {
            cluster: cluster.to_owned(),
            server: server.to_owned(),
            certificate_authority_pem: Some(self.trusted_pem.clone()),
            user: "admin".to_owned(),
            credential: Credential::Certificate(self.admin.clone()),
            namespace: None,
        }
    }

    /// When the first leaf needs renewal: a process that runs that long loads again then.
    pub fn renewal_at(&self) -> Timestamp {
        [&self.serving, &self.admin, &self.front_proxy]
            .into_iter()
            .map(|identity| identity.not_after())
            .min()
            .and_then(|end| end.checked_sub(LEAF_RENEWAL).ok())
            .unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

fn serving_names(names: &[String]) -> issue::Leaf {
    let mut all: Vec<String> = SERVING_NAMES.iter().map(|name| (*name).to_owned()).collect();
    for name in names {
        if !name.is_empty() && !all.contains(name) {
            all.push(name.clone());
        }
    }
    issue::Leaf::server("kube-apiserver", all)
}

#[cfg(test)]
pub(crate) mod tests;
