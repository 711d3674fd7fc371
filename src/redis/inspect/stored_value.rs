//! Decodes stored states. The script encodes them.

use std::sync::Arc;

use super::{KeySummary, StoredMetadata, ValueLayout};
use crate::algorithm::{CounterState, IntervalNumbers, IntervalState, KeyState as _, RateState};
use crate::redis::codec::{COUNTS, EPOCH_MS, doubles};
use crate::redis::inspect::metadata::split;
use crate::time::{MAX_SAFE, MICROS_PER_MILLI, Micros};

/// The raw value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawValue {
    /// A string.
    Text(Vec<u8>),
    /// The elements of a list; the fields of a hash, each with its value; or, for a log, the oldest
    /// and the newest entry, each with its score, and the number of entries.
    Items(Vec<Vec<u8>>),
}

impl RawValue {
    /// The summary of a state of this layout at the time `now`, in epoch microseconds; `None` if
    /// the value is not such a state.
    #[must_use]
    pub fn summary(&self, layout: ValueLayout, now: Micros) -> Option<KeySummary> {
        let (state, metadata) = match (self, layout) {
            (Self::Text(value), ValueLayout::Rate) => {
                with_metadata(value, |state| rate(state, now))
            }
            (Self::Text(value), ValueLayout::Window) => {
                with_metadata(value, |state| window(state, now))
            }
            (Self::Text(value), ValueLayout::Interval) => {
                with_metadata(value, |state| interval(state, now))
            }
            (Self::Text(value), ValueLayout::Counter) => {
                with_metadata(value, |state| counter(state, now))
            }
            (Self::Items(elements), ValueLayout::List) => return list(elements, now),
            (Self::Items(fields), ValueLayout::Hash) => return hash(fields, now),
            (Self::Items(words), ValueLayout::Log) => return log(words),
            _ => return None,
        };
        Some(KeySummary { metadata, ..state? })
    }
}

fn with_metadata(
    value: &[u8],
    read: impl FnOnce(&[u8]) -> Option<KeySummary>,
) -> (Option<KeySummary>, StoredMetadata) {
    let (state, metadata) = split(value);
    (read(state), metadata)
}

/// Takes `N` numbers from the front.
fn numbers<const N: usize>(bytes: &mut &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    doubles(bytes, &mut numbers)?;
    Some(numbers)
}

fn rate(mut state: &[u8], now: Micros) -> Option<KeySummary> {
    let [micros, part, period, units, burst] = numbers(&mut state)?;
    let (scheduled_until, lingers) = match state {
        [] => (0, false),
        b"l" => (0, true),
        _ => {
            let [booked] = numbers(&mut state)?;
            (booked, state == b"B")
        }
    };
    // No policy takes longer than MAX_SAFE microseconds to drain.
    let full = u128::from(burst) * u128::from(period) / u128::from(units.max(1));
    if full > u128::from(MAX_SAFE) {
        return None;
    }
    let numbers = [micros, part, period, units, burst, u64::from(lingers), scheduled_until];
    let state = RateState::from_numbers(&numbers)?;
    Some(KeySummary {
        used: state.used(now),
        max_used: Some(burst),
        rate: Some((units, period)),
        reset_at: Some(state.reset_at()),
        scheduled_until: (scheduled_until > now).then_some(scheduled_until),
        ..KeySummary::default()
    })
}

fn interval(mut state: &[u8], now: Micros) -> Option<KeySummary> {
    let [anchor, used, every, tokens, max_used] = numbers(&mut state)?;
    let lingers = match state {
        [] => false,
        b"l" => true,
        _ => return None,
    };
    // Other numbers belong to no policy.
    let is_countable = every > 0 && tokens > 0 && used <= max_used;
    let full = max_used.div_ceil(tokens.max(1)).checked_mul(every)?;
    if !is_countable || full > MAX_SAFE {
        return None;
    }
    let numbers = Arc::new(IntervalNumbers { every, tokens, max_used, lingers });
    let state = IntervalState { anchor, used, numbers };
    Some(KeySummary {
        used: state.used_at(now),
        max_used: Some(max_used),
        rate: Some((tokens, every)),
        reset_at: Some(state.reset_at()),
        ..KeySummary::default()
    })
}

fn counter(mut state: &[u8], now: Micros) -> Option<KeySummary> {
    let [ends_ms, current, previous, window_ms] = numbers(&mut state)?;
    let is_countable = state.is_empty() && window_ms > 0;
    if !is_countable || current.max(previous) > MAX_SAFE / window_ms {
        return None;
    }
    let state = CounterState { ends_ms, current, previous, window_ms };
    Some(KeySummary {
        used: state.used_at(now),
        window: Some(window_ms * MICROS_PER_MILLI),
        reset_at: Some(state.reset_at()),
        ..KeySummary::default()
    })
}

fn window(mut state: &[u8], now: Micros) -> Option<KeySummary> {
    let packed = str::from_utf8(state).ok().and_then(|text| text.parse::<u64>().ok());
    let [ends_ms, count] = match packed {
        Some(packed) => [packed / COUNTS + EPOCH_MS, packed % COUNTS],
        None => numbers(&mut state).filter(|_| state.is_empty())?,
    };
    let is_counted = ends_ms <= MAX_SAFE / MICROS_PER_MILLI && count <= MAX_SAFE;
    let ends_at = is_counted.then_some(ends_ms * MICROS_PER_MILLI)?;
    let is_open = ends_at > now && count > 0;
    Some(KeySummary {
        used: if is_open { count } else { 0 },
        ends_at: is_open.then_some(ends_at),
        reset_at: Some(if count > 0 { ends_at } else { 0 }),
        ..KeySummary::default()
    })
}

/// Summarizes buckets, each with its end, in increasing order. A bucket counts if it ends later
/// than one window ago. The window's length is the time from the newest end to the key's reset.
fn buckets(ends: &[(Micros, u64)], reset_at: Micros, now: Micros) -> Option<KeySummary> {
    let Some(&(newest, _)) = ends.last() else { return Some(KeySummary::default()) };
    let span = reset_at.checked_sub(newest)?;
    let counts = |end: Micros| now < reset_at && end.saturating_add(span) > now;
    let counted: Vec<_> = ends.iter().filter(|(end, _)| counts(*end)).collect();
    Some(KeySummary {
        used: counted.iter().fold(0, |sum, (_, units)| sum.saturating_add(*units)),
        window: (span > 0).then_some(span),
        reset_at: Some(reset_at),
        entries: Some(counted.len() as u64),
        ..KeySummary::default()
    })
}

fn list(elements: &[Vec<u8>], now: Micros) -> Option<KeySummary> {
    const SIZE: usize = 34;
    let mut ends = Vec::with_capacity(elements.len());
    let (mut reset_at, mut expired) = (0, 0);
    let mut metadata = StoredMetadata::default();
    for element in elements {
        let (mut state, trailer) = element.split_at_checked(SIZE)?;
        let [end, before, after, resets_at] = numbers(&mut state)?;
        expired = usize::from(u16::from_be_bytes(*state.first_chunk()?));
        ends.push((end, after.checked_sub(before)?));
        let (rest, found) = split(trailer);
        if !rest.is_empty() {
            return None;
        }
        (reset_at, metadata) = (resets_at, found);
    }
    // The newest element has the number of expired elements at the head.
    Some(KeySummary { metadata, ..buckets(ends.get(expired..)?, reset_at, now)? })
}

fn hash(fields: &[Vec<u8>], now: Micros) -> Option<KeySummary> {
    let mut metadata = StoredMetadata::default();
    let (mut ends, mut reset_at) = (Vec::new(), None);
    for [field, value] in fields.as_chunks().0 {
        match &field[..] {
            b"extras" => metadata = split(value).1,
            b"settles" => reset_at = Some(decimal(value)?),
            end => ends.push((decimal(end)?, decimal(value)?)),
        }
    }
    ends.sort_unstable();
    let reset_at = if ends.is_empty() { 0 } else { reset_at? };
    Some(KeySummary { metadata, ..buckets(&ends, reset_at, now)? })
}

/// Decodes a log entry: the units up to and including it, its own units, and the metadata, which
/// only the newest entry has.
fn entry(member: &[u8]) -> Option<(u64, u64, StoredMetadata)> {
    let (after, rest) = member.split_at_checked(7)?;
    let (units, rest) = rest.split_at_checked(4)?;
    let metadata_bytes = match rest {
        [_] => &[][..],
        rest => rest.get(12..)?,
    };
    let (state, metadata) = split(metadata_bytes);
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    state.is_empty().then(|| (number(after), number(units), metadata))
}

fn log(words: &[Vec<u8>]) -> Option<KeySummary> {
    let [oldest, oldest_at, newest, newest_at, size] = words else { return None };
    let ((first, units, _), (after, own, metadata)) = (entry(oldest)?, entry(newest)?);
    let used = after.checked_sub(first)?.checked_add(units)?;
    // An entry without units only carries metadata.
    let is_used = used > 0 && own > 0;
    Some(KeySummary {
        used,
        entries: Some(decimal(size)?),
        oldest_at: is_used.then_some(decimal(oldest_at)?),
        newest_at: is_used.then_some(decimal(newest_at)?),
        reset_at: (!is_used).then_some(0),
        metadata,
        ..KeySummary::default()
    })
}

/// A whole number in a reply.
fn decimal(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?;
    // A score above 10^15 may have an exponent.
    let number = text.parse().ok().or_else(|| whole(text.parse().ok()?));
    number.filter(|number| *number <= MAX_SAFE)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
fn whole(number: f64) -> Option<u64> {
    let cut = number as u64;
    (cut as f64 == number).then_some(cut)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::TAGS;
    use super::*;
    use crate::redis::inspect::metadata::tests::text;

    /// 2026-11-21, in the middle of a second.
    const NOW: Micros = 1_795_219_200_500_000;
    const SECOND: Micros = 1_000_000;

    fn packed(numbers: &[u64]) -> Vec<u8> {
        #[expect(clippy::cast_precision_loss)]
        numbers.iter().flat_map(|number| (*number as f64).to_be_bytes()).collect()
    }

    fn summary(layout: ValueLayout, value: &[u8]) -> Option<KeySummary> {
        RawValue::Text(value.to_vec()).summary(layout, NOW)
    }

    #[test]
    fn a_rate_shows_charged_units_and_its_parameters() {
        let state = packed(&[NOW + 3 * SECOND, 0, SECOND, 2, 10]);
        let found = summary(ValueLayout::Rate, &state).unwrap();
        assert_eq!((found.used, found.max_used, found.rate), (6, Some(10), Some((2, SECOND))));
        assert_eq!((found.reset_at, found.scheduled_until), (Some(NOW + 3 * SECOND), None));
        let booked = [&state[..], &packed(&[NOW + SECOND]), b"b"].concat();
        assert_eq!(
            summary(ValueLayout::Rate, &booked).unwrap().scheduled_until,
            Some(NOW + SECOND)
        );
        let lingering = [&state[..], b"l"].concat();
        let reset_at = summary(ValueLayout::Rate, &lingering).unwrap().reset_at.unwrap();
        assert!(reset_at > NOW + 3 * SECOND);
    }

    #[test]
    fn a_state_far_ahead_of_the_clock_is_fully_used() {
        let far = NOW + 1_000 * SECOND;
        assert_eq!(summary(ValueLayout::Rate, &packed(&[far, 0, SECOND, 2, 10])).unwrap().used, 10);
        assert_eq!(
            summary(ValueLayout::Interval, &packed(&[far, 3, SECOND, 2, 10])).unwrap().used,
            10
        );
    }

    #[test]
    fn windows_are_packed_or_two_numbers() {
        let ends_ms = NOW / 1_000 + 5_000;
        let integer = ((ends_ms - EPOCH_MS) * COUNTS + 17).to_string().into_bytes();
        for value in [integer, packed(&[ends_ms, 17])] {
            let found = summary(ValueLayout::Window, &value).unwrap();
            assert_eq!((found.used, found.ends_at), (17, Some(ends_ms * 1_000)), "{value:?}");
        }
        let over = summary(ValueLayout::Window, &packed(&[NOW / 1_000, 17])).unwrap();
        assert_eq!((over.used, over.ends_at), (0, None));
    }

    #[test]
    fn metadata_is_decoded_with_its_state() {
        let value = [packed(&[0, 0]), text(7, 8, &[5, 60])].concat();
        let found = summary(ValueLayout::Window, &value).unwrap();
        let override_numbers = vec![5, 60];
        assert_eq!(
            found.metadata,
            StoredMetadata { blocked_until: 7, override_until: 8, override_numbers }
        );
        let counter = [packed(&[NOW / 1_000 + 500, 4, 8, 1_000]), text(7, 0, &[])].concat();
        let found = summary(ValueLayout::Counter, &counter).unwrap();
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
        let found = RawValue::Items(list.to_vec()).summary(ValueLayout::List, NOW).unwrap();
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
        let found = RawValue::Items(hash).summary(ValueLayout::Hash, NOW).unwrap();
        assert_eq!((found.used, found.window), (9, Some(SECOND)));
    }

    #[test]
    fn invalid_states_have_no_summary() {
        let zeros = packed(&[0; 5]);
        for (layout, value) in [
            (ValueLayout::Rate, &b"hello"[..]),
            (ValueLayout::Rate, &zeros),
            (ValueLayout::Rate, &packed(&[NOW, 0, 1 << 52, 1, 1 << 52])),
            (ValueLayout::Interval, &zeros),
            (ValueLayout::Interval, &packed(&[NOW, 1, 1 << 52, 1, 1 << 52])),
            (ValueLayout::Counter, &zeros),
            (ValueLayout::Window, b"one:two"),
            (ValueLayout::List, b"a string"),
        ] {
            assert_eq!(summary(layout, value), None, "{layout:?}");
        }
        assert_eq!(RawValue::Items(vec![b"x".to_vec()]).summary(ValueLayout::List, NOW), None);
        assert_eq!(RawValue::Items(vec![b"x".to_vec()]).summary(ValueLayout::Log, NOW), None);
        let hash = vec![b"settles".to_vec(), b"often".to_vec()];
        assert_eq!(RawValue::Items(hash).summary(ValueLayout::Hash, NOW), None);
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
            for (_, layout) in TAGS {
                let _read = RawValue::Text(values[0].clone()).summary(layout, now);
                let _read = RawValue::Items(values.clone()).summary(layout, now);
            }
        });
    }
}
