//! The states themselves, as the script writes them.

use std::sync::Arc;

use super::{Facts, Shape, StoredExtras};
use crate::algorithm::{CounterState, IntervalNumbers, IntervalState, RateState, State as _};
use crate::redis::codec::{COUNTS, EPOCH_MS, doubles};
use crate::redis::inspect::metadata::split;
use crate::time::{MAX_SAFE, MICROS_PER_MILLI, Micros};

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raw {
    /// A string.
    Text(Vec<u8>),
    /// A list's elements; a hash's fields, each with its value; or of a log the oldest entry and the newest,
    /// each with its score, and how many there are.
    Items(Vec<Vec<u8>>),
}

impl Raw {
    /// What it tells at the time `now`, if it is a state that lies so.
    #[must_use]
    pub fn facts(&self, shape: Shape, now: Micros) -> Option<Facts> {
        let (state, extras) = match (self, shape) {
            (Self::Text(value), Shape::Rate) => with_extras(value, |state| rate(state, now)),
            (Self::Text(value), Shape::Window) => with_extras(value, |state| window(state, now)),
            (Self::Text(value), Shape::Interval) => {
                with_extras(value, |state| interval(state, now))
            }
            (Self::Text(value), Shape::Counter) => with_extras(value, |state| counter(state, now)),
            (Self::Items(elements), Shape::List) => return list(elements, now),
            (Self::Items(fields), Shape::Hash) => return hash(fields, now),
            (Self::Items(words), Shape::Log) => return log(words),
            _ => return None,
        };
        Some(Facts { extras, ..state? })
    }
}

fn with_extras(
    value: &[u8],
    read: impl FnOnce(&[u8]) -> Option<Facts>,
) -> (Option<Facts>, StoredExtras) {
    let (state, extras) = split(value);
    (read(state), extras)
}

/// Reads so many numbers from the front.
fn numbers<const N: usize>(bytes: &mut &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    doubles(bytes, &mut numbers)?;
    Some(numbers)
}

fn rate(mut state: &[u8], now: Micros) -> Option<Facts> {
    let [micros, part, period, units, burst] = numbers(&mut state)?;
    let (booked_until, lingers) = match state {
        [] => (0, false),
        b"l" => (0, true),
        _ => {
            let [booked] = numbers(&mut state)?;
            (booked, state == b"B")
        }
    };
    // No policy takes longer to drain than can be counted.
    let full = u128::from(burst) * u128::from(period) / u128::from(units.max(1));
    if full > u128::from(MAX_SAFE) {
        return None;
    }
    let numbers = [micros, part, period, units, burst, u64::from(lingers), booked_until];
    let state = RateState::from_numbers(&numbers)?;
    Some(Facts {
        used: state.used(now),
        most: Some(burst),
        rate: Some((units, period)),
        settles_at: Some(state.reset_at()),
        booked_until: (booked_until > now).then_some(booked_until),
        ..Facts::default()
    })
}

fn interval(mut state: &[u8], now: Micros) -> Option<Facts> {
    let [anchor, used, every, tokens, most] = numbers(&mut state)?;
    let lingers = match state {
        [] => false,
        b"l" => true,
        _ => return None,
    };
    // No policy has such numbers.
    let is_countable = every > 0 && tokens > 0 && used <= most;
    let full = most.div_ceil(tokens.max(1)).checked_mul(every)?;
    if !is_countable || full > MAX_SAFE {
        return None;
    }
    let numbers = Arc::new(IntervalNumbers { every, tokens, most, lingers });
    let state = IntervalState { anchor, used, numbers };
    Some(Facts {
        used: state.used_at(now),
        most: Some(most),
        rate: Some((tokens, every)),
        settles_at: Some(state.reset_at()),
        ..Facts::default()
    })
}

fn counter(mut state: &[u8], now: Micros) -> Option<Facts> {
    let [ends_ms, current, previous, window_ms] = numbers(&mut state)?;
    let is_countable = state.is_empty() && window_ms > 0;
    if !is_countable || current.max(previous) > MAX_SAFE / window_ms {
        return None;
    }
    let state = CounterState { ends_ms, current, previous, window_ms };
    Some(Facts {
        used: state.used_at(now),
        window: Some(window_ms * MICROS_PER_MILLI),
        settles_at: Some(state.reset_at()),
        ..Facts::default()
    })
}

fn window(mut state: &[u8], now: Micros) -> Option<Facts> {
    let packed = str::from_utf8(state).ok().and_then(|text| text.parse::<u64>().ok());
    let [ends_ms, count] = match packed {
        Some(packed) => [packed / COUNTS + EPOCH_MS, packed % COUNTS],
        None => numbers(&mut state).filter(|_| state.is_empty())?,
    };
    let is_counted = ends_ms <= MAX_SAFE / MICROS_PER_MILLI && count <= MAX_SAFE;
    let ends_at = is_counted.then_some(ends_ms * MICROS_PER_MILLI)?;
    let is_open = ends_at > now && count > 0;
    Some(Facts {
        used: if is_open { count } else { 0 },
        ends_at: is_open.then_some(ends_at),
        settles_at: Some(if count > 0 { ends_at } else { 0 }),
        ..Facts::default()
    })
}

/// Buckets, by their ends, which increase: those count that end later than a window ago. How long the window is
/// tells the newest, by when the key settles.
fn buckets(ends: &[(Micros, u64)], settles: Micros, now: Micros) -> Option<Facts> {
    let Some(&(newest, _)) = ends.last() else { return Some(Facts::default()) };
    let span = settles.checked_sub(newest)?;
    let counts = |end: Micros| now < settles && end.saturating_add(span) > now;
    let counted: Vec<_> = ends.iter().filter(|(end, _)| counts(*end)).collect();
    Some(Facts {
        used: counted.iter().fold(0, |sum, (_, units)| sum.saturating_add(*units)),
        window: (span > 0).then_some(span),
        settles_at: Some(settles),
        entries: Some(counted.len() as u64),
        ..Facts::default()
    })
}

fn list(elements: &[Vec<u8>], now: Micros) -> Option<Facts> {
    const SIZE: usize = 34;
    let mut ends = Vec::with_capacity(elements.len());
    let (mut settled, mut gone) = (0, 0);
    let mut extras = StoredExtras::default();
    for element in elements {
        let (mut state, trailer) = element.split_at_checked(SIZE)?;
        let [end, before, after, settles] = numbers(&mut state)?;
        gone = usize::from(u16::from_be_bytes(*state.first_chunk()?));
        ends.push((end, after.checked_sub(before)?));
        let (rest, behind) = split(trailer);
        if !rest.is_empty() {
            return None;
        }
        (settled, extras) = (settles, behind);
    }
    // The newest says how many at the head are gone.
    Some(Facts { extras, ..buckets(ends.get(gone..)?, settled, now)? })
}

fn hash(fields: &[Vec<u8>], now: Micros) -> Option<Facts> {
    let mut extras = StoredExtras::default();
    let (mut ends, mut settled) = (Vec::new(), None);
    for [field, value] in fields.as_chunks().0 {
        match &field[..] {
            b"extras" => extras = split(value).1,
            b"settles" => settled = Some(decimal(value)?),
            end => ends.push((decimal(end)?, decimal(value)?)),
        }
    }
    ends.sort_unstable();
    let settled = if ends.is_empty() { 0 } else { settled? };
    Some(Facts { extras, ..buckets(&ends, settled, now)? })
}

/// A log's entry: the units up to it, those of its own, and what stands behind the newest.
fn entry(member: &[u8]) -> Option<(u64, u64, StoredExtras)> {
    let (after, rest) = member.split_at_checked(7)?;
    let (units, rest) = rest.split_at_checked(4)?;
    let behind = match rest {
        [_] => &[][..],
        rest => rest.get(12..)?,
    };
    let (state, extras) = split(behind);
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    state.is_empty().then(|| (number(after), number(units), extras))
}

fn log(words: &[Vec<u8>]) -> Option<Facts> {
    let [oldest, oldest_at, newest, newest_at, size] = words else { return None };
    let ((first, units, _), (after, own, extras)) = (entry(oldest)?, entry(newest)?);
    let used = after.checked_sub(first)?.checked_add(units)?;
    // What has no units carries what stands behind the state, and counts for nobody.
    let is_used = used > 0 && own > 0;
    Some(Facts {
        used,
        entries: Some(decimal(size)?),
        oldest_at: is_used.then_some(decimal(oldest_at)?),
        newest_at: is_used.then_some(decimal(newest_at)?),
        settles_at: (!is_used).then_some(0),
        extras,
        ..Facts::default()
    })
}

/// A whole number as Redis tells it.
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

    fn facts(shape: Shape, value: &[u8]) -> Option<Facts> {
        Raw::Text(value.to_vec()).facts(shape, NOW)
    }

    #[test]
    fn a_rate_tells_what_is_on_the_books_and_the_numbers_that_wrote_it() {
        let state = packed(&[NOW + 3 * SECOND, 0, SECOND, 2, 10]);
        let told = facts(Shape::Rate, &state).unwrap();
        assert_eq!((told.used, told.most, told.rate), (6, Some(10), Some((2, SECOND))));
        assert_eq!((told.settles_at, told.booked_until), (Some(NOW + 3 * SECOND), None));
        let booked = [&state[..], &packed(&[NOW + SECOND]), b"b"].concat();
        assert_eq!(facts(Shape::Rate, &booked).unwrap().booked_until, Some(NOW + SECOND));
        let lingering = [&state[..], b"l"].concat();
        let settles_at = facts(Shape::Rate, &lingering).unwrap().settles_at.unwrap();
        assert!(settles_at > NOW + 3 * SECOND);
    }

    #[test]
    fn what_a_clock_step_left_behind_is_fully_used() {
        let far = NOW + 1_000 * SECOND;
        assert_eq!(facts(Shape::Rate, &packed(&[far, 0, SECOND, 2, 10])).unwrap().used, 10);
        assert_eq!(facts(Shape::Interval, &packed(&[far, 3, SECOND, 2, 10])).unwrap().used, 10);
    }

    #[test]
    fn windows_are_packed_or_two_numbers() {
        let ends_ms = NOW / 1_000 + 5_000;
        let integer = ((ends_ms - EPOCH_MS) * COUNTS + 17).to_string().into_bytes();
        for value in [integer, packed(&[ends_ms, 17])] {
            let told = facts(Shape::Window, &value).unwrap();
            assert_eq!((told.used, told.ends_at), (17, Some(ends_ms * 1_000)), "{value:?}");
        }
        let over = facts(Shape::Window, &packed(&[NOW / 1_000, 17])).unwrap();
        assert_eq!((over.used, over.ends_at), (0, None));
    }

    #[test]
    fn what_stands_behind_a_state_is_told_with_it() {
        let value = [packed(&[0, 0]), text(7, 8, &[5, 60])].concat();
        let told = facts(Shape::Window, &value).unwrap();
        let numbers = vec![5, 60];
        assert_eq!(told.extras, StoredExtras { blocked_until: 7, numbers_until: 8, numbers });
        let counter = [packed(&[NOW / 1_000 + 500, 4, 8, 1_000]), text(7, 0, &[])].concat();
        let told = facts(Shape::Counter, &counter).unwrap();
        assert_eq!((told.used, told.window, told.extras.blocked_until), (8, Some(SECOND), 7));
    }

    #[test]
    fn buckets_count_by_their_ends() {
        let element = |end: Micros, before, after, gone: u16| {
            [packed(&[end, before, after, NOW + 2 * SECOND]), gone.to_be_bytes().to_vec()].concat()
        };
        let list = [
            element(NOW - 4 * SECOND, 0, 100, 0),
            element(NOW - 2 * SECOND, 100, 103, 0),
            element(NOW, 103, 107, 0),
            element(NOW + SECOND, 107, 112, 1),
        ];
        // The window is a second long: it takes the newest so long to settle.
        let told = Raw::Items(list.to_vec()).facts(Shape::List, NOW).unwrap();
        assert_eq!((told.used, told.window, told.entries), (9, Some(SECOND), Some(2)));
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
        let told = Raw::Items(hash).facts(Shape::Hash, NOW).unwrap();
        assert_eq!((told.used, told.window), (9, Some(SECOND)));
    }

    #[test]
    fn what_is_no_state_is_nothing() {
        let zeros = packed(&[0; 5]);
        for (shape, value) in [
            (Shape::Rate, &b"hello"[..]),
            (Shape::Rate, &zeros),
            (Shape::Rate, &packed(&[NOW, 0, 1 << 52, 1, 1 << 52])),
            (Shape::Interval, &zeros),
            (Shape::Interval, &packed(&[NOW, 1, 1 << 52, 1, 1 << 52])),
            (Shape::Counter, &zeros),
            (Shape::Window, b"one:two"),
            (Shape::List, b"a string"),
        ] {
            assert_eq!(facts(shape, value), None, "{shape:?}");
        }
        assert_eq!(Raw::Items(vec![b"x".to_vec()]).facts(Shape::List, NOW), None);
        assert_eq!(Raw::Items(vec![b"x".to_vec()]).facts(Shape::Log, NOW), None);
        let hash = vec![b"settles".to_vec(), b"often".to_vec()];
        assert_eq!(Raw::Items(hash).facts(Shape::Hash, NOW), None);
    }

    /// Strangers may write anything; numbers of any size among it.
    #[test]
    fn nothing_that_is_stored_makes_it_panic() {
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
            for (_, shape) in TAGS {
                let _read = Raw::Text(values[0].clone()).facts(shape, now);
                let _read = Raw::Items(values.clone()).facts(shape, now);
            }
        });
    }
}
