//! How the names of keys are hashed: so that nobody can guess it.

#[cfg(not(feature = "wasm-redis"))]
pub(crate) use std::hash::RandomState as Hashes;

#[cfg(feature = "wasm-redis")]
pub(crate) use seeded::Seeded as Hashes;
#[cfg(feature = "wasm-redis")]
pub use seeded::seed;

/// The random numbers of the standard library are the same in every process there.
#[cfg(feature = "wasm-redis")]
mod seeded {
    use std::cell::Cell;
    use std::hash::BuildHasher;

    use siphasher::sip::SipHasher13;

    thread_local! {
        static SEED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    }

    /// Sets the secret of the hash function. Draw it at random, before anything is hashed.
    pub fn seed(seed: (u64, u64)) {
        SEED.set(seed);
    }

    /// Hashes by the secret.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Seeded;

    impl BuildHasher for Seeded {
        type Hasher = SipHasher13;

        fn build_hasher(&self) -> SipHasher13 {
            let (first, second) = SEED.get();
            SipHasher13::new_with_keys(first, second)
        }
    }
}
