//! Functions of URLs, addresses and networks, and of texts with a named format.

use std::net::IpAddr;
use std::rc::Rc;

use super::super::meter::Meter;
use super::super::text::{Url, address, cidr, holds, masked};
use super::super::value::Val;
use super::{Made, call, fail};
use crate::names;

/// Formats of texts that have a name, and how one of them is broken.
pub(super) fn formats<'a>(name: &str, values: &[Val<'a>]) -> Made<'a> {
    let made = match (name, values) {
        ("format.named", [Val::Text(name)]) => match FORMATS.into_iter().find(|known| *known == &**name) {
            Some(known) => Val::some(Val::Format(known)),
            None => Val::Optional(None),
        },
        ("validate", [Val::Format(format), Val::Text(text)]) => match broken(format, text) {
            Some(why) => Val::some(Val::list(vec![Val::text(why)])),
            None => Val::Optional(None),
        },
        (name, []) => match name
            .strip_prefix("format.")
            .and_then(|name| FORMATS.into_iter().find(|known| *known == name))
        {
            Some(known) => Val::Format(known),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(made))
}

/// The named formats.
pub(in crate::cel) const FORMATS: [&str; 13] = [
    "byte",
    "date",
    "datetime",
    "dns1035Label",
    "dns1035LabelPrefix",
    "dns1123Label",
    "dns1123LabelPrefix",
    "dns1123Subdomain",
    "dns1123SubdomainPrefix",
    "labelValue",
    "qualifiedName",
    "uri",
    "uuid",
];

fn broken(format: &str, text: &str) -> Option<String> {
    // a prefix may end in a dash
    let padded = format!("{text}a");
    let checked = match format {
        "dns1123Label" => names::is_dns1123_label(text),
        "dns1123Subdomain" => names::is_dns1123_subdomain(text),
        "dns1035Label" => names::is_dns1035_label(text),
        "dns1123LabelPrefix" => names::is_dns1123_label(&padded),
        "dns1123SubdomainPrefix" => names::is_dns1123_subdomain(&padded),
        "dns1035LabelPrefix" => names::is_dns1035_label(&padded),
        "labelValue" => names::validate_label_value(text),
        "qualifiedName" => names::is_qualified_name(text),
        _ if crate::schema::has_format(format, text) => Ok(()),
        _ => return Some(format!("invalid {format}")),
    };
    checked.err()
}

pub(super) fn network<'a>(name: &str, values: &[Val<'a>], meter: &mut Meter<'_>) -> Made<'a> {
    let first = || values.first().map(Val::brief).unwrap_or_default();
    let made = match (name, values) {
        ("isURL", [Val::Text(text)]) => Val::Bool(Url::parse(text).is_some()),
        ("url", [Val::Text(text)]) => match Url::parse(text) {
            Some(url) => Val::Url(Rc::new(url)),
            None => {
                return fail(format!(
                    "URL parse error during conversion from string: '{}'",
                    first()
                ));
            }
        },
        ("getQuery", [Val::Url(url)]) => {
            meter.step(url.pairs().count().saturating_mul(4))?;
            let entry = |(key, values): (String, Vec<String>)| {
                let values = values.into_iter().map(Val::text).collect();
                (Val::text(key), Val::list(values))
            };
            Val::Map(Rc::new(url.query().into_iter().map(entry).collect()))
        }
        (_, [Val::Url(url)]) => match name {
            "getScheme" => Val::text(url.scheme.as_str()),
            "getHost" => Val::text(url.host.as_str()),
            "getHostname" => Val::text(url.hostname()),
            "getPort" => Val::text(url.port()),
            "getEscapedPath" => Val::text(url.path.as_str()),
            _ => return Ok(None),
        },
        ("isIP", [Val::Text(text)]) => Val::Bool(address(text).is_some()),
        ("isCIDR", [Val::Text(text)]) => Val::Bool(cidr(text).is_some()),
        ("ip", [Val::Text(text)]) => match address(text) {
            Some(address) => Val::Ip(address),
            None => {
                return fail(format!(
                    "IP Address '{}' parse error during conversion from string",
                    first()
                ));
            }
        },
        ("cidr", [Val::Text(text)]) => match cidr(text) {
            Some((address, bits)) => Val::Cidr(address, bits),
            None => {
                return fail(format!(
                    "network address parse error during conversion from string: '{}'",
                    first()
                ));
            }
        },
        ("ip.isCanonical", [Val::Text(text)]) => match address(text) {
            Some(address) => Val::Bool(address.to_string() == **text),
            None => {
                return fail(format!(
                    "IP Address '{}' parse error during conversion from string",
                    first()
                ));
            }
        },
        (_, [Val::Ip(address)]) => match of_address(name, *address) {
            Some(made) => made,
            None => return Ok(None),
        },
        ("ip", [Val::Cidr(address, _)]) => Val::Ip(*address),
        ("masked", [Val::Cidr(address, bits)]) => Val::Cidr(masked(*address, *bits), *bits),
        ("prefixLength", [Val::Cidr(_, bits)]) => Val::Int((*bits).into()),
        ("containsIP", [Val::Cidr(net, bits), Val::Ip(address)]) => Val::Bool(holds((*net, *bits), *address)),
        ("containsCIDR", [Val::Cidr(net, bits), Val::Cidr(address, more)]) => {
            Val::Bool(more >= bits && holds((*net, *bits), *address))
        }
        ("containsIP" | "containsCIDR", [net @ Val::Cidr(_, _), text @ Val::Text(_)]) => {
            let other = call(
                if name == "containsIP" { "ip" } else { "cidr" },
                std::slice::from_ref(text),
                meter,
            )?;
            return network(name, &[net.clone(), other], meter);
        }
        _ => return Ok(None),
    };
    Ok(Some(made))
}

fn family_of(address: IpAddr) -> i64 {
    if address.is_ipv4() { 4 } else { 6 }
}

fn of_address<'a>(name: &str, address: IpAddr) -> Option<Val<'a>> {
    let link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    };
    let link_local_multicast = match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    };
    let broadcast = match address {
        IpAddr::V4(address) => address.is_broadcast(),
        IpAddr::V6(_) => false,
    };
    Some(Val::Bool(match name {
        "ip" => return Some(Val::Ip(address)),
        "family" => return Some(Val::Int(family_of(address))),
        "isUnspecified" => address.is_unspecified(),
        "isLoopback" => address.is_loopback(),
        "isLinkLocalMulticast" => link_local_multicast,
        "isLinkLocalUnicast" => link_local,
        "isGlobalUnicast" => {
            !(address.is_unspecified()
                || address.is_loopback()
                || address.is_multicast()
                || link_local
                || broadcast)
        }
        _ => return None,
    }))
}
