//! Where clusters' own predictors may be asked without the tunnel. The address is the cluster's word: it shall not lead
//! the scheduler to what only the scheduler reaches. Pure.

use std::net::IpAddr;
use std::str::FromStr;

use machinery::address;

/// At which addresses the scheduler asks; default: any but those that mean something else to each who asks (loopback,
/// link-local, multicast, unspecified).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectAccess {
    networks: Vec<Network>,
}

/// Addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network, such as 10.0.0.0/8 or fd00::/8")]
pub struct InvalidNetwork(String);

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let read = || {
            let (address, bits) = text.split_once('/')?;
            let (address, bits): (IpAddr, u8) = (address.parse().ok()?, bits.parse().ok()?);
            (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some(Self { address, bits })
        };
        read().ok_or_else(|| InvalidNetwork(text.to_owned()))
    }
}

impl Network {
    fn holds(self, address: IpAddr) -> bool {
        let bits = u32::from(self.bits);
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differs = u32::from(own) ^ u32::from(other);
                differs.checked_shr(32 - bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differs = u128::from(own) ^ u128::from(other);
                differs.checked_shr(128 - bits).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl DirectAccess {
    /// In these networks only; in the usual ones if there are none.
    pub fn within(networks: Vec<Network>) -> Self {
        Self { networks }
    }

    /// Whether the scheduler asks at an address.
    pub(crate) fn allows(&self, address: IpAddr) -> bool {
        // One of version 4 in the clothes of version 6 is dialled as what it is.
        let address = address.to_canonical();
        if !self.networks.is_empty() {
            return self.networks.iter().any(|network| network.holds(address));
        }
        address::is_common(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_do_not_send_the_scheduler_to_itself() {
        let within = |networks: &str| {
            let networks = networks.split_whitespace().map(|it| it.parse().unwrap());
            DirectAccess::within(networks.collect())
        };
        for (networks, address, expected) in [
            ("", "10.0.0.1", true),
            ("", "203.0.113.7", true),
            ("", "fd00::1", true),
            ("", "2001:db8::1", true),
            ("", "127.0.0.1", false),
            ("", "127.9.9.9", false),
            ("", "0.0.0.0", false),
            ("", "0.1.2.3", false),
            ("", "169.254.169.254", false),
            ("", "224.0.0.1", false),
            ("", "255.255.255.255", false),
            ("", "::", false),
            ("", "::1", false),
            ("", "::ffff:127.0.0.1", false),
            ("", "::ffff:169.254.169.254", false),
            ("", "::127.0.0.1", false),
            ("", "fe80::1", false),
            ("", "ff02::1", false),
            ("10.0.0.0/8 fd00::/8", "10.255.0.1", true),
            ("10.0.0.0/8 fd00::/8", "::ffff:10.0.0.1", true),
            ("10.0.0.0/8 fd00::/8", "11.0.0.1", false),
            ("10.0.0.0/8 fd00::/8", "fd12::1", true),
            ("10.0.0.0/8 fd00::/8", "2001:db8::1", false),
            ("127.0.0.1/32", "127.0.0.1", true),
            ("127.0.0.1/32", "127.0.0.2", false),
            ("0.0.0.0/0", "169.254.169.254", true),
            ("::/0", "10.0.0.1", false),
        ] {
            let got = within(networks).allows(address.parse().unwrap());
            assert_eq!(got, expected, "{networks:?} {address}");
        }
        for bad in ["", "10.0.0.0", "10.0.0.0/33", "fd00::/129", "a/8", "10.0.0.0/x"] {
            let error = bad.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains("such as 10.0.0.0/8"), "{error}");
        }
    }
}
