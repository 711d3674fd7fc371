//! Stored values: their layouts, and what a value shows without its policy.

use super::{
    KeySummary, concurrency, fixed_window, metadata, rate, sliding_counter, sliding_log,
    sliding_window, token_bucket_interval,
};
use crate::protocol::{POLICY_KINDS, ScriptAlgorithm};
use crate::time::Micros;

/// The layout of a tag's states; `None` if the tag is unknown.
#[must_use]
pub fn layout_of(tag: &str) -> Option<ScriptAlgorithm> {
    POLICY_KINDS.iter().find_map(|(name, layout)| (*name == tag).then_some(*layout))
}

/// The raw value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawValue {
    /// A string.
    Text(Vec<u8>),
    /// The elements of a list; the fields of a hash, each with its value; or, for a log, the oldest
    /// and the newest entry, each with its score, and the number of entries.
    Items(Vec<Vec<u8>>),
}

type ReadSummary = fn(&[u8], Micros) -> Option<KeySummary>;

impl RawValue {
    /// The summary of a state of this layout at the time `now`; `None` for any other value.
    #[must_use]
    pub fn summary(&self, layout: ScriptAlgorithm, now: Micros) -> Option<KeySummary> {
        let (value, read): (_, ReadSummary) = match (self, layout) {
            (Self::Items(elements), ScriptAlgorithm::SlidingWindowList) => {
                return sliding_window::list_summary(elements, now);
            }
            (Self::Items(fields), ScriptAlgorithm::SlidingWindowHash) => {
                return sliding_window::hash_summary(fields, now);
            }
            (Self::Items(words), ScriptAlgorithm::SlidingLog) => {
                return sliding_log::summary(words);
            }
            (Self::Text(value), ScriptAlgorithm::Rate) => (value, rate::summary),
            (Self::Text(value), ScriptAlgorithm::FixedWindow) => (value, fixed_window::summary),
            (Self::Text(value), ScriptAlgorithm::TokenBucketInterval) => {
                (value, token_bucket_interval::summary)
            }
            (Self::Text(value), ScriptAlgorithm::SlidingCounter) => {
                (value, sliding_counter::summary)
            }
            (Self::Text(value), ScriptAlgorithm::Concurrency) => (value, concurrency::summary),
            _ => return None,
        };
        let (state, metadata) = metadata::split(value);
        Some(KeySummary { metadata, ..read(state, now)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::algorithm::{
        BucketLayout, CalendarWindow, Concurrency, FixedWindow, Gcra, IntervalBucket, LeakyBucket,
        Levels, LogLimit, SlidingCounter, SlidingLog, SlidingWindow, TokenBucket,
    };
    use crate::calendar::Every;
    use crate::policy::Policy;
    use crate::protocol::value::{COUNTS, EPOCH_MS};
    use crate::redis::codec::metadata::StoredMetadata;
    use crate::redis::codec::metadata::tests::{BANS, MARK_OF_TEXT, OWED_OF_TEXT, text};
    use crate::time::MAX_SAFE;

    /// 2026-11-21, in the middle of a second.
    const NOW: Micros = 1_795_219_200_500_000;
    const SECOND: Micros = 1_000_000;

    fn packed(numbers: &[u64]) -> Vec<u8> {
        #[expect(clippy::cast_precision_loss)]
        numbers.iter().flat_map(|number| (*number as f64).to_be_bytes()).collect()
    }

    fn summary(layout: ScriptAlgorithm, value: &[u8]) -> Option<KeySummary> {
        RawValue::Text(value.to_vec()).summary(layout, NOW)
    }

    #[test]
    fn every_algorithm_has_a_tag_and_a_layout() {
        let sliding = |layout| Policy::SlidingWindow(SlidingWindow::new(3, 4, 4, layout).unwrap());
        let limits = [LogLimit { limit: 3, window: 1 }, LogLimit { limit: 4, window: 2 }];
        let policies = [
            Policy::Gcra(Gcra::new(3, 1, 3).unwrap()),
            Policy::TokenBucket(TokenBucket::new(3, 3, 1).unwrap()),
            Policy::LeakyBucket(LeakyBucket::new(3, 3, 1).unwrap()),
            Policy::IntervalBucket(IntervalBucket::new(Levels::full(3), 3, 1).unwrap()),
            Policy::FixedWindow(FixedWindow::new(3, 1_000).unwrap()),
            Policy::CalendarWindow(CalendarWindow::new(3, Every::Day, "UTC").unwrap()),
            Policy::SlidingCounter(SlidingCounter::new(3, 1_000).unwrap()),
            sliding(BucketLayout::List),
            sliding(BucketLayout::Hash),
            Policy::SlidingLog(SlidingLog::new(3, 1, false).unwrap()),
            Policy::SlidingLog(SlidingLog::with_limits(&limits, None).unwrap()),
            Policy::Concurrency(Concurrency::new(3, 1_000).unwrap()),
        ];
        assert_eq!(policies.map(|policy| policy.tag()), POLICY_KINDS.map(|(tag, _)| tag));
        assert_eq!(layout_of("swh"), Some(ScriptAlgorithm::SlidingWindowHash));
        assert_eq!(layout_of("~holds"), None);
    }

    #[test]
    fn a_rate_shows_charged_units_and_its_parameters() {
        let state = packed(&[NOW + 3 * SECOND, 0, SECOND, 2, 10]);
        let found = summary(ScriptAlgorithm::Rate, &state).unwrap();
        assert_eq!((found.used, found.max_used, found.rate), (6, Some(10), Some((2, SECOND))));
        assert_eq!((found.reset_at, found.scheduled_until), (Some(NOW + 3 * SECOND), None));
        let booked = [&state[..], &packed(&[NOW + SECOND]), b"b"].concat();
        assert_eq!(
            summary(ScriptAlgorithm::Rate, &booked).unwrap().scheduled_until,
            Some(NOW + SECOND)
        );
        let lingering = [&state[..], b"l"].concat();
        let reset_at = summary(ScriptAlgorithm::Rate, &lingering).unwrap().reset_at.unwrap();
        assert!(reset_at > NOW + 3 * SECOND);
    }

    #[test]
    fn a_state_far_ahead_of_the_clock_is_fully_used() {
        let far = NOW + 1_000 * SECOND;
        assert_eq!(
            summary(ScriptAlgorithm::Rate, &packed(&[far, 0, SECOND, 2, 10])).unwrap().used,
            10
        );
        assert_eq!(
            summary(ScriptAlgorithm::TokenBucketInterval, &packed(&[far, 3, SECOND, 2, 10]))
                .unwrap()
                .used,
            10
        );
    }

    #[test]
    fn windows_are_packed_or_two_numbers() {
        let ends_ms = NOW / 1_000 + 5_000;
        let integer = ((ends_ms - EPOCH_MS) * COUNTS + 17).to_string().into_bytes();
        for value in [integer, packed(&[ends_ms, 17])] {
            let found = summary(ScriptAlgorithm::FixedWindow, &value).unwrap();
            assert_eq!((found.used, found.ends_at), (17, Some(ends_ms * 1_000)), "{value:?}");
        }
        let over = summary(ScriptAlgorithm::FixedWindow, &packed(&[NOW / 1_000, 17])).unwrap();
        assert_eq!((over.used, over.ends_at), (0, None));
    }

    #[test]
    fn metadata_is_decoded_with_its_state() {
        let value = [packed(&[0, 0]), text(7, 8, &[5, 60])].concat();
        let found = summary(ScriptAlgorithm::FixedWindow, &value).unwrap();
        let override_numbers = vec![5, 60];
        assert_eq!(
            found.metadata,
            StoredMetadata {
                blocked_until: 7,
                override_until: 8,
                override_numbers,
                bans: BANS,
                mark: MARK_OF_TEXT,
                owed: OWED_OF_TEXT,
            }
        );
        let counter = [packed(&[NOW / 1_000 + 500, 4, 8, 1_000]), text(7, 0, &[])].concat();
        let found = summary(ScriptAlgorithm::SlidingCounter, &counter).unwrap();
        assert_eq!((found.used, found.window, found.metadata.blocked_until), (8, Some(SECOND), 7));
    }

    #[test]
    fn buckets_count_by_their_ends() {
        let element = |end: Micros, before, after, expired: u16| {
            [packed(&[end, before, after, NOW + 2 * SECOND]), expired.to_be_bytes().to_vec()]
                .concat()
        };
        let list = [
            element(NOW - 4 * SECOND, 0, 100, 0),
            element(NOW - 2 * SECOND, 100, 103, 0),
            element(NOW, 103, 107, 0),
            element(NOW + SECOND, 107, 112, 1),
        ];
        // The window is one second long: the key resets one second after the newest end.
        let found = RawValue::Items(list.to_vec())
            .summary(ScriptAlgorithm::SlidingWindowList, NOW)
            .unwrap();
        assert_eq!((found.used, found.window, found.entries), (9, Some(SECOND), Some(2)));
        let words = [
            "settles".to_owned(),
            (NOW + 2 * SECOND).to_string(),
            (NOW + SECOND).to_string(),
            "5".to_owned(),
            NOW.to_string(),
            "4".to_owned(),
            (NOW - SECOND).to_string(),
            "9".to_owned(),
        ];
        let hash = words.map(String::into_bytes).to_vec();
        let found = RawValue::Items(hash).summary(ScriptAlgorithm::SlidingWindowHash, NOW).unwrap();
        assert_eq!((found.used, found.window), (9, Some(SECOND)));
    }

    #[test]
    fn invalid_states_have_no_summary() {
        let zeros = packed(&[0; 5]);
        for (layout, value) in [
            (ScriptAlgorithm::Rate, &b"hello"[..]),
            (ScriptAlgorithm::Rate, &zeros),
            (ScriptAlgorithm::Rate, &packed(&[NOW, 0, 1 << 52, 1, 1 << 52])),
            (ScriptAlgorithm::TokenBucketInterval, &zeros),
            (ScriptAlgorithm::TokenBucketInterval, &packed(&[NOW, 1, 1 << 52, 1, 1 << 52])),
            (ScriptAlgorithm::SlidingCounter, &zeros),
            (ScriptAlgorithm::FixedWindow, b"one:two"),
            (ScriptAlgorithm::SlidingWindowList, b"a string"),
        ] {
            assert_eq!(summary(layout, value), None, "{layout:?}");
        }
        assert_eq!(
            RawValue::Items(vec![b"x".to_vec()]).summary(ScriptAlgorithm::SlidingWindowList, NOW),
            None
        );
        assert_eq!(
            RawValue::Items(vec![b"x".to_vec()]).summary(ScriptAlgorithm::SlidingLog, NOW),
            None
        );
        let hash = vec![b"settles".to_vec(), b"often".to_vec()];
        assert_eq!(RawValue::Items(hash).summary(ScriptAlgorithm::SlidingWindowHash, NOW), None);
    }

    #[test]
    fn the_units_of_a_fast_rate_with_a_slot_ahead_are_capped() {
        let [arrival, slot] = [NOW + 50_000_000; 2];
        let value = packed(&[arrival, 0, 15, MAX_SAFE, 1_000, slot]);
        let value = [&value[..], b"b"].concat();
        assert_eq!(summary(ScriptAlgorithm::Rate, &value).unwrap().used, MAX_SAFE);
    }

    /// Other programs may write any value, including numbers of any size.
    #[test]
    fn no_stored_value_causes_a_panic() {
        let number = prop_oneof![0_u64..20, NOW - 20..NOW + 20, Just(1 << 52), Just(MAX_SAFE)];
        let numbers = prop::collection::vec(number, 4..7).prop_map(|numbers| packed(&numbers));
        let word = prop_oneof![
            numbers,
            (0_u64..=u64::MAX).prop_map(|number| number.to_string().into_bytes()),
            prop::collection::vec(any::<u8>(), 0..60),
            Just(b"settles".to_vec()),
        ];
        let tail = prop_oneof![
            Just(vec![]),
            Just(b"l".to_vec()),
            Just(vec![0, 0]),
            Just(text(7, 8, &[9]))
        ];
        let value = (word, tail).prop_map(|(word, tail)| [word, tail].concat());
        let values = prop::collection::vec(value, 1..7);
        proptest!(|(values in values, now in prop_oneof![Just(NOW), Just(0), Just(MAX_SAFE)])| {
            for (_, layout) in POLICY_KINDS {
                let _read = RawValue::Text(values[0].clone()).summary(layout, now);
                let _read = RawValue::Items(values.clone()).summary(layout, now);
            }
        });
    }
}
