//! The addresses under which this process reaches servers behind a network address translation.

use std::collections::HashMap;

use super::connector::Address;

/// The addresses to connect to, by the addresses that nodes and sentinels report.
#[derive(Debug, Clone, Default)]
pub struct NatMap(HashMap<Address, Address>);

impl FromIterator<(Address, Address)> for NatMap {
    fn from_iter<I: IntoIterator<Item = (Address, Address)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl NatMap {
    /// The address to connect to for a reported address.
    pub(crate) fn reachable<'a>(&'a self, reported: &'a Address) -> &'a Address {
        self.0.get(reported).unwrap_or(reported)
    }
}
