//! Networks of IPv4: what belongs to one, and how its addresses are given out; pure.

use std::net::Ipv4Addr;

/// A network such as `192.168.103.0/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sim) struct Range {
    first: u32,
    last: u32,
    bits: u32,
}

impl Range {
    /// A network in the form of CIDR with nothing set behind its prefix (G8S refuses others).
    pub(in crate::sim) fn parse(text: &str) -> Option<Self> {
        let (base, bits) = text.split_once('/')?;
        let base = base.parse::<Ipv4Addr>().ok()?.to_bits();
        let bits = bits.parse::<u32>().ok().filter(|bits| *bits <= 32)?;
        let size = 1_u64 << (32 - bits);
        let last = u32::try_from(u64::from(base) + size - 1).ok()?;
        (u64::from(base) % size == 0).then_some(Self { first: base, last, bits })
    }

    pub(in crate::sim) fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// The length of the prefix.
    pub(in crate::sim) fn bits(self) -> u32 {
        self.bits
    }

    /// The mask, such as `255.255.255.0`.
    pub(in crate::sim) fn mask(self) -> String {
        let host = self.last - self.first;
        Ipv4Addr::from_bits(!host).to_string()
    }

    /// The first address of a host, which is the gateway's (vco-api.md 4.2, TF, G8S).
    pub(in crate::sim) fn gateway(self) -> String {
        Ipv4Addr::from_bits(self.first.saturating_add(1)).to_string()
    }

    /// How many addresses there are, hosts or not.
    pub(in crate::sim) fn size(self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    /// Whether it is an address of a host that is not the gateway.
    pub(in crate::sim) fn has_host(self, ip: &str) -> bool {
        let ip = ip.parse::<Ipv4Addr>().map_or(0, Ipv4Addr::to_bits);
        ip > self.first.saturating_add(1) && ip < self.last
    }

    /// The addresses of hosts, gateway excluded, from the bottom up or the top down.
    pub(in crate::sim) fn hosts(self) -> impl DoubleEndedIterator<Item = String> {
        let low = self.first.saturating_add(2);
        (low..self.last).map(|ip| Ipv4Addr::from_bits(ip).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Range {
        Range::parse(text).unwrap()
    }

    #[test]
    fn networks_overlap_or_not() {
        for (a, b, overlap) in [
            ("192.168.103.0/24", "192.168.103.0/24", true),
            ("192.168.103.0/24", "192.168.104.0/24", false),
            ("192.168.0.0/16", "192.168.104.0/24", true),
            ("0.0.0.0/0", "255.255.255.255/32", true),
        ] {
            assert_eq!(of(a).overlaps(of(b)), overlap, "{a} {b}");
        }
    }

    #[test]
    fn only_networks_are_networks() {
        for text in ["192.168.103.1/24", "192.168.103.0", "192.168.103.0/33", "x/24", ""] {
            assert_eq!(Range::parse(text), None, "{text}");
        }
        assert_eq!(of("192.168.103.0/24").mask(), "255.255.255.0");
    }

    #[test]
    fn hosts_are_between_the_gateway_and_the_broadcast_address() {
        let range = of("10.0.0.0/29");
        assert_eq!(range.gateway(), "10.0.0.1");
        assert_eq!(range.hosts().next_back().unwrap(), "10.0.0.6");
        assert_eq!(range.hosts().count(), 5);
        for (ip, has) in
            [("10.0.0.1", false), ("10.0.0.2", true), ("10.0.0.6", true), ("10.0.0.7", false)]
        {
            assert_eq!(range.has_host(ip), has, "{ip}");
        }
        assert_eq!(of("10.0.0.0/31").hosts().count(), 0);
        assert_eq!(of("10.0.0.0/32").hosts().count(), 0);
    }
}
