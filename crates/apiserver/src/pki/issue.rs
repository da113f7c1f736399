//! Making certificates: subjects, lifetimes, signatures. Pure but for the key generator's randomness.

use std::net::IpAddr;

use clock::Env;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SerialNumber,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::{AUTHORITY_LIFETIME, PkiError, Secret};

/// How far back a certificate's validity starts: clocks of clients may be behind ours.
const BACKDATE: SignedDuration = SignedDuration::from_hours(24);

/// A new P-256 key.
pub(super) fn new_key() -> Result<KeyPair, PkiError> {
    Ok(KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?)
}

/// What a leaf certificate says.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    common_name: String,
    organizations: Vec<String>,
    /// Host names and addresses; empty for clients.
    names: Vec<String>,
}

impl Leaf {
    pub(crate) fn client(user: &str, groups: &[String]) -> Self {
        Self {
            common_name: user.to_owned(),
            organizations: groups.to_vec(),
            names: Vec::new(),
        }
    }

    pub(crate) fn server(common_name: &str, names: Vec<String>) -> Self {
        Self {
            common_name: common_name.to_owned(),
            organizations: Vec::new(),
            names,
        }
    }

    fn params(&self) -> Result<CertificateParams, PkiError> {
        let mut params = CertificateParams::new(self.names.clone())?;
        params.distinguished_name = distinguished_name(&self.common_name, &self.organizations);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![if self.names.is_empty() {
            ExtendedKeyUsagePurpose::ClientAuth
        } else {
            ExtendedKeyUsagePurpose::ServerAuth
        }];
        params.use_authority_key_identifier_extension = true;
        Ok(params)
    }

    /// Whether a certificate already says all of this.
    pub(super) fn is_said_by(&self, certificate: &X509Certificate<'_>) -> bool {
        let subject = certificate.subject();
        let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| {
            value.as_str().map(str::to_owned).unwrap_or_default()
        };
        let common_names: Vec<String> = subject.iter_common_name().map(text).collect();
        let organizations: Vec<String> = subject.iter_organization().map(text).collect();
        let names = alternative_names(certificate);
        common_names == [self.common_name.clone()]
            && organizations == self.organizations
            && self.names.iter().all(|name| names.contains(name))
    }
}

fn alternative_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    extension
        .value
        .general_names
        .iter()
        .filter_map(|name| {
            if let GeneralName::DNSName(name) = name {
                return Some((*name).to_owned());
            }
            let GeneralName::IPAddress(bytes) = name else {
                return None;
            };
            let address = match bytes.len() {
                4 => IpAddr::from(<[u8; 4]>::try_from(*bytes).ok()?),
                16 => IpAddr::from(<[u8; 16]>::try_from(*bytes).ok()?),
                _ => return None,
            };
            Some(address.to_string())
        })
        .collect()
}

fn distinguished_name(common_name: &str, organizations: &[String]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    // rcgen keeps one value for each type, so several groups are several custom entries of the same OID would
    // be lost: `Authority::issue_client` refuses more than one.
    if let Some(organization) = organizations.first() {
        name.push(DnType::OrganizationName, organization.as_str());
    }
    name.push(DnType::CommonName, common_name);
    name
}

fn set_lifetime(params: &mut CertificateParams, now: Timestamp, lifetime: SignedDuration) {
    let at = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or(0);
        rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds)
    };
    params.not_before = at(now.saturating_sub(BACKDATE).unwrap_or(Timestamp::UNIX_EPOCH));
    params.not_after = at(now.saturating_add(lifetime).unwrap_or(Timestamp::MAX));
}

fn serial(env: &Env) -> SerialNumber {
    let mut bytes = [0; 16];
    env.random.fill(&mut bytes);
    // Positive and without a leading zero, as DER wants its integers.
    bytes[0] = (bytes[0] & 0x7f) | 0x40;
    SerialNumber::from_slice(&bytes)
}

/// A certificate with its key, both PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate (chain), PEM.
    pub certificate_pem: String,
    /// The private key, PKCS #8 PEM.
    pub key_pem: Secret,
}

impl Identity {
    /// The last moment at which the certificate is valid.
    pub fn not_after(&self) -> Timestamp {
        with_certificate(&self.certificate_pem, not_after).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// A certificate authority.
pub struct Authority {
    certificate_pem: String,
    key: KeyPair,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("certificate_pem", &self.certificate_pem)
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// A new authority with a new key.
    ///
    /// # Errors
    /// [`PkiError::Issue`] if the cryptography library refuses.
    pub fn create(common_name: &str, now: Timestamp, env: &Env) -> Result<Self, PkiError> {
        Self::create_with(common_name, new_key()?, now, env)
    }

    /// A new certificate for an existing key.
    pub(super) fn create_with(
        common_name: &str,
        key: KeyPair,
        now: Timestamp,
        env: &Env,
    ) -> Result<Self, PkiError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(common_name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        params.serial_number = Some(serial(env));
        set_lifetime(&mut params, now, AUTHORITY_LIFETIME);
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate_pem: certificate.pem(),
            key,
        })
    }

    /// From its parts; they must belong together.
    ///
    /// # Errors
    /// [`PkiError::Pem`] if a part does not parse or the key is not the certificate's.
    pub fn from_pem(certificate_pem: &str, key_pem: &str) -> Result<Self, PkiError> {
        let key = parse_key(key_pem)?;
        if !belongs(certificate_pem, &key) {
            return Err(PkiError::Pem {
                what: "a certificate authority",
                why: "the key is not the certificate's".to_owned(),
            });
        }
        Ok(Self {
            certificate_pem: certificate_pem.to_owned(),
            key,
        })
    }

    /// Its certificate, PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The last moment at which it is valid.
    pub(super) fn not_after(&self) -> Timestamp {
        with_certificate(&self.certificate_pem, not_after).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Its private key, PEM.
    pub fn key_pem(&self) -> Secret {
        Secret::new(self.key.serialize_pem())
    }

    /// A client certificate for a user (common name) and its group (organization).
    ///
    /// # Errors
    /// [`PkiError::Pem`] for more than one group, [`PkiError::Issue`] if the cryptography library refuses.
    pub fn issue_client(
        &self,
        user: &str,
        groups: &[String],
        lifetime: SignedDuration,
        env: &Env,
    ) -> Result<Identity, PkiError> {
        if groups.len() > 1 {
            return Err(PkiError::Pem {
                what: "a client's subject",
                why: format!("{} groups are given, the limit is 1", groups.len()),
            });
        }
        self.issue(&Leaf::client(user, groups), lifetime, env.now(), env)
    }

    /// A serving certificate for host names and addresses.
    ///
    /// # Errors
    /// [`PkiError::Issue`] for a name that is none, or if the cryptography library refuses.
    pub fn issue_server(
        &self,
        common_name: &str,
        names: &[String],
        lifetime: SignedDuration,
        env: &Env,
    ) -> Result<Identity, PkiError> {
        self.issue(
            &Leaf::server(common_name, names.to_vec()),
            lifetime,
            env.now(),
            env,
        )
    }

    pub(crate) fn issue(
        &self,
        leaf: &Leaf,
        lifetime: SignedDuration,
        now: Timestamp,
        env: &Env,
    ) -> Result<Identity, PkiError> {
        let key = new_key()?;
        let certificate_pem = self.certify(leaf, &key, lifetime, now, env)?;
        Ok(Identity {
            certificate_pem,
            key_pem: Secret::new(key.serialize_pem()),
        })
    }

    pub(super) fn certify(
        &self,
        leaf: &Leaf,
        key: &KeyPair,
        lifetime: SignedDuration,
        now: Timestamp,
        env: &Env,
    ) -> Result<String, PkiError> {
        let mut params = leaf.params()?;
        params.serial_number = Some(serial(env));
        set_lifetime(&mut params, now, lifetime);
        let issuer = Issuer::from_ca_cert_pem(&self.certificate_pem, &self.key)?;
        Ok(params.signed_by(key, &issuer)?.pem())
    }

    /// Whether a leaf was signed by this authority.
    pub(super) fn signed(&self, certificate: &X509Certificate<'_>) -> bool {
        with_certificate(&self.certificate_pem, |own| {
            certificate.verify_signature(Some(own.public_key())).is_ok()
        })
        .unwrap_or(false)
    }
}

/// The end of a certificate's validity.
pub(super) fn not_after(certificate: &X509Certificate<'_>) -> Timestamp {
    Timestamp::from_second(certificate.validity().not_after.timestamp()).unwrap_or(Timestamp::MAX)
}

/// When a certificate was made.
pub(super) fn made(certificate: &X509Certificate<'_>) -> Timestamp {
    Timestamp::from_second(certificate.validity().not_before.timestamp())
        .and_then(|begin| begin.checked_add(BACKDATE))
        .unwrap_or(Timestamp::MAX)
}

/// Whether a key is the one that a certificate certifies.
pub(super) fn belongs(certificate_pem: &str, key: &KeyPair) -> bool {
    with_certificate(certificate_pem, |certificate| {
        certificate.public_key().raw == key.subject_public_key_info().as_slice()
    })
    .unwrap_or(false)
}

/// Parses a PKCS #8 PEM key.
pub(super) fn parse_key(pem: &str) -> Result<KeyPair, PkiError> {
    KeyPair::from_pem(pem).map_err(|error| PkiError::Pem {
        what: "a private key",
        why: error.to_string(),
    })
}

/// Looks at the first certificate of a PEM text.
pub(super) fn with_certificate<T>(
    pem: &str,
    look: impl FnOnce(&X509Certificate<'_>) -> T,
) -> Result<T, PkiError> {
    let problem = |why: String| PkiError::Pem {
        what: "a certificate",
        why,
    };
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| problem(error.to_string()))?;
    let (_, certificate) = X509Certificate::from_der(&der).map_err(|error| problem(error.to_string()))?;
    Ok(look(&certificate))
}
