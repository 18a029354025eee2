//! Classifies IP addresses: public, private, or never a target of webhooks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// On the internet.
    Public,
    /// Loopback or a private network.
    Private,
    /// Never a target: link-local (metadata services of clouds), multicast, reserved, unspecified, and
    /// tunnels that contain another address.
    Never,
}

/// Returns the class of an address. An IPv4 address mapped into IPv6 counts as the IPv4 address.
#[must_use]
pub(super) fn reach(address: IpAddr) -> Reach {
    match address.to_canonical() {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    match address.octets() {
        [10 | 127, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => {
            Reach::Private
        }
        [0 | 224..=255, ..]
        | [169, 254, ..]
        // Azure's platform service, in the public range.
        | [168, 63, 129, 16]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => Reach::Never,
        _ => Reach::Public,
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] | [0xfc00..=0xfdff, ..] if !is_amazon_metadata(address) => {
            Reach::Private
        }
        // NAT64: the last 32 bits are the IPv4 address.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            reach_v4(Ipv4Addr::new(a, b, c, d))
        }
        // Teredo and other special-purpose ranges, documentation, 6to4.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..] => Reach::Never,
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Never,
    }
}

/// Amazon's metadata service, in the private range.
fn is_amazon_metadata(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0xfd00, 0xec2, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_classified() {
        let cases: [(Reach, &[&str]); 3] = [
            (
                Reach::Public,
                &[
                    "1.1.1.1",
                    "8.8.8.8",
                    "172.15.0.1",
                    "172.32.0.1",
                    "100.63.0.1",
                    "100.128.0.1",
                    "2606:4700::1",
                    "2a00::1",
                    "::ffff:8.8.8.8",
                    "64:ff9b::808:808",
                ],
            ),
            (
                Reach::Private,
                &[
                    "127.0.0.1",
                    "127.255.0.9",
                    "10.0.0.1",
                    "172.16.0.1",
                    "172.31.255.255",
                    "192.168.1.1",
                    "100.64.0.1",
                    "100.127.255.255",
                    "100.100.100.200",
                    "::1",
                    "fc00::1",
                    "fdff::1",
                    "::ffff:127.0.0.1",
                    "::ffff:10.1.2.3",
                    "64:ff9b::7f00:1",
                ],
            ),
            (
                Reach::Never,
                &[
                    "0.0.0.0",
                    "0.1.2.3",
                    "169.254.169.254",
                    "169.254.0.1",
                    "192.0.0.192",
                    "192.0.2.1",
                    "198.18.0.1",
                    "198.51.100.1",
                    "203.0.113.1",
                    "224.0.0.1",
                    "239.255.255.250",
                    "240.0.0.1",
                    "255.255.255.255",
                    "168.63.129.16",
                    "::",
                    "::2",
                    "::127.0.0.1",
                    "fe80::1",
                    "febf::1",
                    "fec0::1",
                    "ff02::1",
                    "2001:db8::1",
                    "2001::1",
                    "2002:7f00:1::1",
                    "3fff::1",
                    "100::1",
                    "fd00:ec2::254",
                    "::ffff:169.254.169.254",
                    "::ffff:0.0.0.0",
                    "64:ff9b::a9fe:a9fe",
                    "64:ff9b:1::1",
                    "5f00::1",
                ],
            ),
        ];
        for (expected, addresses) in cases {
            for text in addresses {
                assert_eq!(reach(text.parse().expect("an address")), expected, "{text}");
            }
        }
    }
}
