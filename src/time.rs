//! The unit of time, and the largest numbers.
//!
//! Every time in the engine is a whole number of microseconds since the Unix epoch. Every number
//! that may reach JavaScript or Lua stays below 2^53, where a double is still exact.

/// A time (since the Unix epoch) or a length of time, in whole microseconds.
pub type Micros = u64;

/// Microseconds in a millisecond.
pub const MICROS_PER_MILLI: Micros = 1_000;

/// The largest whole number up to which a double represents every whole number: 2^53 − 1.
pub const MAX_SAFE: u64 = (1 << 53) - 1;

/// The largest time (in the year 2112) and the longest length of time (142 years). The sum of two
/// such numbers still fits a double exactly.
pub const MAX_TIME: Micros = 1 << 52;

/// A length of time in whole milliseconds, rounded up: after a wait of that length the time has
/// passed.
#[must_use]
pub fn whole_millis(length: Micros) -> u64 {
    length.div_ceil(MICROS_PER_MILLI)
}

/// The end of a length of time, at most [`MAX_SAFE`].
#[must_use]
pub fn end_of(start: Micros, length: Micros) -> Micros {
    start.saturating_add(length).min(MAX_SAFE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_safe_number_is_javascripts() {
        assert_eq!(MAX_SAFE, 9_007_199_254_740_991);
        assert_eq!(MAX_TIME, 4_503_599_627_370_496);
    }

    #[test]
    fn millis_round_up() {
        assert_eq!(whole_millis(0), 0);
        assert_eq!(whole_millis(1), 1);
        assert_eq!(whole_millis(1_000), 1);
        assert_eq!(whole_millis(1_001), 2);
    }

    #[test]
    fn ends_are_exact_doubles() {
        let ends = [end_of(1, 2), end_of(MAX_SAFE, 1), end_of(Micros::MAX, 1)];
        assert_eq!(ends, [3, MAX_SAFE, MAX_SAFE]);
    }
}
