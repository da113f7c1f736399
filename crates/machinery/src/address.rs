//! Which addresses mean the same to more than one machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address can mean the same to machines in two networks: it is not unspecified, loopback, link-local,
/// multicast or broadcast, nor an IPv4 address written as one of IPv6.
pub fn is_common(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_common_v4(address),
        IpAddr::V6(address) => is_common_v6(address),
    }
}

fn is_common_v4(address: Ipv4Addr) -> bool {
    let this_network = address.octets()[0] == 0;
    !(this_network
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast())
}

fn is_common_v6(address: Ipv6Addr) -> bool {
    // An IPv4 address in disguise belongs to the other family, `::` and `::1` among them.
    let disguised = address.to_ipv4().is_some();
    !(disguised || address.is_unicast_link_local() || address.is_multicast())
}

#[cfg(test)]
mod tests {
    use super::is_common;

    #[test]
    fn tells_what_means_the_same_elsewhere() {
        for (address, expected) in [
            ("10.0.0.1", true),
            ("203.0.113.7", true),
            ("fd00::1", true),
            ("0.1.2.3", false),
            ("127.9.9.9", false),
            ("169.254.169.254", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::ffff:10.0.0.1", false),
            ("fe80::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_common(address.parse().unwrap()), expected, "{address}");
        }
    }
}
