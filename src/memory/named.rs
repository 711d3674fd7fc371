//! Named stores: one per process for each name, whichever thread opens it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
#[cfg(not(tollgate_loom))]
use std::sync::LazyLock;

use super::{MemoryStore, Seed, locked};
use crate::sync::Mutex;

/// Named stores live as long as the process. A worker thread that ends must not drop the counts of
/// the other threads, and a time in which no thread uses the store must not reset them.
#[cfg(not(tollgate_loom))]
static NAMED_STORES: LazyLock<Mutex<HashMap<String, NamedStore>>> = LazyLock::new(Mutex::default);

// Each run of a model begins with none.
#[cfg(tollgate_loom)]
loom::lazy_static! {
    static ref NAMED_STORES: Mutex<HashMap<String, NamedStore>> = Mutex::default();
}

#[derive(Debug)]
struct NamedStore {
    store: Arc<MemoryStore>,
    own_clock: bool,
}

/// The error for the name of a store that exists with other options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameInUse {
    /// The store of this name has another `maxKeys`.
    MaxKeys(usize),
    /// Only one of the two stores has a clock of its own.
    Clock,
}

impl fmt::Display for NameInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxKeys(max_keys) => write!(f, "is in use with maxKeys: {max_keys}"),
            Self::Clock => f.write_str("is in use with another clock"),
        }
    }
}

impl std::error::Error for NameInUse {}

/// Opens the store called `name`, or creates it with a seed that is requested when it is first
/// needed.
///
/// # Errors
/// [`NameInUse`] if the store exists with other options.
pub fn open_named(
    name: &str,
    max_keys: usize,
    own_clock: bool,
    seed_source: impl FnOnce() -> Seed + Send + 'static,
) -> Result<Arc<MemoryStore>, NameInUse> {
    let mut named = locked(&NAMED_STORES);
    let Some(found) = named.get(name) else {
        let store = MemoryStore::with_seed_source(max_keys, seed_source);
        named.insert(name.to_owned(), NamedStore { store: Arc::clone(&store), own_clock });
        return Ok(store);
    };
    if found.store.max_keys() != max_keys {
        return Err(NameInUse::MaxKeys(found.store.max_keys()));
    }
    if found.own_clock != own_clock {
        return Err(NameInUse::Clock);
    }
    Ok(Arc::clone(&found.store))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_store_per_name() {
        let first = open_named("named-one", 10, false, || (1, 2)).unwrap();
        let again = open_named("named-one", 10, false, || (3, 4)).unwrap();
        let other = open_named("named-two", 10, false, || (1, 2)).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert!(!Arc::ptr_eq(&first, &other));
    }

    #[test]
    fn other_options_are_refused() {
        let _store = open_named("named-three", 10, false, || (1, 2)).unwrap();
        let keys = open_named("named-three", 11, false, || (1, 2)).unwrap_err();
        assert_eq!(keys.to_string(), "is in use with maxKeys: 10");
        let clock = open_named("named-three", 10, true, || (1, 2)).unwrap_err();
        assert_eq!(clock, NameInUse::Clock);
    }
}
