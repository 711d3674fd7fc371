//! Stores with a name: one per process, whichever thread opens them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};

use super::{MemoryStore, Seed, locked};

/// Named stores live as long as the process: a worker thread that ends must not take the counts of
/// the others with it, nor may a pause in which no thread holds the store reset them.
static NAMED: LazyLock<Mutex<HashMap<String, Named>>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
struct Named {
    store: Arc<MemoryStore>,
    own_clock: bool,
}

/// The name is in use for a store with other options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameTaken {
    /// The store of this name holds another number of keys.
    MaxKeys(usize),
    /// One of the two has a clock of its own and the other has not.
    Clock,
}

impl fmt::Display for NameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxKeys(max_keys) => write!(f, "is in use with maxKeys: {max_keys}"),
            Self::Clock => f.write_str("is in use with another clock"),
        }
    }
}

impl std::error::Error for NameTaken {}

/// Opens the store called `name`, or makes it, with a seed that is drawn when it is needed.
///
/// # Errors
/// [`NameTaken`] if it exists with other options.
pub fn open_named(
    name: &str,
    max_keys: usize,
    own_clock: bool,
    draw: impl FnOnce() -> Seed + Send + 'static,
) -> Result<Arc<MemoryStore>, NameTaken> {
    let mut named = locked(&NAMED);
    let Some(found) = named.get(name) else {
        let store = MemoryStore::drawing(max_keys, draw);
        named.insert(name.to_owned(), Named { store: Arc::clone(&store), own_clock });
        return Ok(store);
    };
    if found.store.max_keys() != max_keys {
        return Err(NameTaken::MaxKeys(found.store.max_keys()));
    }
    if found.own_clock != own_clock {
        return Err(NameTaken::Clock);
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
        assert_eq!(clock, NameTaken::Clock);
    }
}
