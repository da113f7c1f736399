//! Bootstrap tokens (`ID.SECRET`), which live in Secrets of kube-system: the first credential of whoever joins.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::user::{AUTHENTICATED, UserInfo};

/// Where the Secrets are.
pub(crate) const NAMESPACE: &str = "kube-system";
/// Their type.
pub(crate) const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";

/// A token that has the form of one.
pub(crate) struct BootstrapToken<'a> {
    id: &'a str,
    secret: &'a str,
}

impl<'a> BootstrapToken<'a> {
    /// Reads `[a-z0-9]{6}.[a-z0-9]{16}`.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (id, secret) = text.split_once('.')?;
        let plain = |part: &str| {
            part.bytes()
                .all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
        };
        (id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret)).then_some(Self { id, secret })
    }

    /// The name of the Secret that would hold it.
    pub(crate) fn secret_name(&self) -> String {
        format!("bootstrap-token-{}", self.id)
    }

    /// The user of a token, if the Secret says that it is one and may be used to authenticate.
    pub(crate) fn user(&self, secret: &Value, now: Timestamp) -> Result<UserInfo, &'static str> {
        if secret["type"] != SECRET_TYPE {
            return Err("is in a Secret of another type");
        }
        if !secret["metadata"]["deletionTimestamp"].is_null() {
            return Err("is being deleted");
        }
        if !same(&datum(secret, "token-secret"), self.secret) {
            return Err("has another secret");
        }
        if datum(secret, "token-id") != self.id {
            return Err("has another id");
        }
        if is_expired(secret, now) {
            return Err("has expired");
        }
        if datum(secret, "usage-bootstrap-authentication") != "true" {
            return Err("may not be used to authenticate");
        }
        let mut groups = vec![GROUP.to_owned()];
        for group in datum(secret, "auth-extra-groups").split(',').map(str::trim) {
            match group {
                "" => {}
                group if is_bootstrap_group(group) => groups.push(group.to_owned()),
                _ => return Err("names a group that is not system:bootstrappers:NAME"),
            }
        }
        groups.push(AUTHENTICATED.to_owned());
        Ok(UserInfo {
            name: format!("system:bootstrap:{}", self.id),
            groups,
            ..UserInfo::default()
        })
    }
}

/// Whether a bootstrap token's Secret has an expiration that is over, or one that nobody can read.
pub(crate) fn is_expired(secret: &Value, now: Timestamp) -> bool {
    let expiration = datum(secret, "expiration");
    !expiration.is_empty() && expiration.parse::<Timestamp>().map_or(true, |end| now >= end)
}

/// When a bootstrap token's Secret expires.
pub(crate) fn expiration(secret: &Value) -> Option<Timestamp> {
    datum(secret, "expiration").parse().ok()
}

/// `\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`
fn is_bootstrap_group(group: &str) -> bool {
    let Some(name) = group.strip_prefix("system:bootstrappers:") else {
        return false;
    };
    let alphanumeric = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    name.len() <= 256
        && name.bytes().last().is_some_and(alphanumeric)
        && name
            .bytes()
            .all(|byte| alphanumeric(byte) || matches!(byte, b':' | b'-'))
}

fn datum(secret: &Value, key: &str) -> String {
    secret["data"][key]
        .as_str()
        .and_then(|text| STANDARD.decode(text).ok())
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_default()
}

/// Compares without telling by its duration where the difference is: hashes are compared, not the secrets.
fn same(left: &str, right: &str) -> bool {
    Sha256::digest(left) == Sha256::digest(right)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn knows_the_form_of_a_token() {
        for (text, is_one) in [
            ("abcdef.0123456789abcdef", true),
            ("abcdef.0123456789abcde", false),
            ("Abcdef.0123456789abcdef", false),
            ("abcdef-0123456789abcdef", false),
            ("abcdef.0123456789abcd.f", false),
            ("abcdéf.0123456789abcde", false),
        ] {
            assert_eq!(BootstrapToken::parse(text).is_some(), is_one, "{text}");
        }
    }

    #[test]
    fn reads_the_rules_from_its_secret() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let check = |changes: &[(&str, &str)], want: Result<&str, &str>| {
            let mut secret = json!({"type": SECRET_TYPE, "data": {}, "metadata": {}});
            let defaults = [
                ("token-id", "abcdef"),
                ("token-secret", "0123456789abcdef"),
                ("usage-bootstrap-authentication", "true"),
            ];
            for (key, value) in defaults.iter().chain(changes) {
                secret["data"][*key] = json!(STANDARD.encode(value));
            }
            let token = BootstrapToken::parse("abcdef.0123456789abcdef").unwrap();
            let got = token
                .user(&secret, now)
                .map(|user| format!("{} {}", user.name, user.groups.join(" ")));
            assert_eq!(got.as_deref().map_err(|why| *why), want, "{changes:?}");
        };
        check(
            &[],
            Ok("system:bootstrap:abcdef system:bootstrappers system:authenticated"),
        );
        check(
            &[(
                "auth-extra-groups",
                "system:bootstrappers:a:b,system:bootstrappers:c",
            )],
            Ok(
                "system:bootstrap:abcdef system:bootstrappers system:bootstrappers:a:b system:bootstrappers:c system:authenticated",
            ),
        );
        check(
            &[("auth-extra-groups", "system:masters")],
            Err("names a group that is not system:bootstrappers:NAME"),
        );
        check(&[("token-secret", "x")], Err("has another secret"));
        check(&[("token-id", "x")], Err("has another id"));
        check(&[("expiration", "2020-01-01T00:00:00Z")], Err("has expired"));
        check(&[("expiration", "soon")], Err("has expired"));
        check(
            &[("expiration", "2999-01-01T00:00:00Z")],
            Ok("system:bootstrap:abcdef system:bootstrappers system:authenticated"),
        );
        check(
            &[("usage-bootstrap-authentication", "false")],
            Err("may not be used to authenticate"),
        );
    }
}
