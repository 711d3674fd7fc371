//! The number of cases that a property test runs.

use std::ops::Range;

use proptest::prelude::{ProptestConfig, Rng as _};
use proptest::test_runner::{FileFailurePersistence, RngAlgorithm, TestRng};

/// `count` cases, or the percentage of them that `TOLLGATE_CASES` sets: 10 for a quick run, 1000
/// for a long one. At least one case.
///
/// # Panics
///
/// If `TOLLGATE_CASES` is not a whole number of at least 1.
pub(crate) fn cases(count: u32) -> ProptestConfig {
    let percent = match std::env::var("TOLLGATE_CASES") {
        Ok(text) => text.parse().ok().filter(|&percent| percent > 0).unwrap_or_else(|| {
            panic!("TOLLGATE_CASES must be a percentage, a whole number from 1, got {text:?}")
        }),
        Err(_) => 100,
    };
    let scaled = (u64::from(count) * percent).div_ceil(100);
    // A failing case is kept beside its test: `buckets.regressions` for `buckets.rs`.
    let kept = FileFailurePersistence::WithSource("regressions");
    ProptestConfig {
        failure_persistence: Some(Box::new(kept)),
        ..ProptestConfig::with_cases(u32::try_from(scaled).unwrap_or(u32::MAX))
    }
}

/// The seeds of a test that draws its cases itself: as many as [`cases`], from another start for each
/// `PROPTEST_RNG_SEED`.
pub(crate) fn seeds(count: u32) -> Range<u64> {
    let drawn = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|text| text.parse().ok());
    let first = drawn.unwrap_or(1_u64) << 32;
    first..first + u64::from(cases(count).cases)
}

/// Random numbers by a seed.
pub(crate) struct Random(TestRng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.to_le_bytes(); 4].concat()))
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.0.next_u64() % most
    }

    pub(crate) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
