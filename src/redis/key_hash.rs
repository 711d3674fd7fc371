//! Hashes key names with a secret, so that nobody can choose colliding keys.

#[cfg(not(feature = "wasm-redis"))]
pub(crate) use std::hash::RandomState as KeyHashBuilder;

#[cfg(feature = "wasm-redis")]
pub(crate) use seeded::SeededHashBuilder as KeyHashBuilder;
#[cfg(feature = "wasm-redis")]
pub use seeded::seed;

/// In WebAssembly, std's random numbers are equal in all processes: JavaScript has the secret.
#[cfg(feature = "wasm-redis")]
mod seeded {
    use std::cell::Cell;
    use std::hash::BuildHasher;

    use siphasher::sip::SipHasher13;

    thread_local! {
        static SEED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    }

    /// Sets the secret of the hash function. It must be random, and set before the first key is
    /// hashed.
    pub fn seed(seed: (u64, u64)) {
        SEED.set(seed);
    }

    #[derive(Debug, Clone, Default)]
    pub(crate) struct SeededHashBuilder;

    impl BuildHasher for SeededHashBuilder {
        type Hasher = SipHasher13;

        fn build_hasher(&self) -> SipHasher13 {
            let (first, second) = SEED.get();
            SipHasher13::new_with_keys(first, second)
        }
    }
}
