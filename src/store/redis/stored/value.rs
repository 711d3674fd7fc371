//! The states themselves, as the script writes them.

use std::sync::Arc;

use super::super::wire::doubles;
use super::extras::split;
use super::{Facts, Shape};
use crate::algorithm::{CounterState, IntervalNumbers, IntervalState, RateState, State as _};
use crate::time::{MAX_SAFE, MICROS_PER_MILLI, Micros};

/// Packed windows count their ends, in milliseconds, from 2020: times so much, and the count is added.
const EPOCH_MS: u64 = 1_577_836_800_000;
const COUNTS: u64 = 8_192;

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
) -> (Option<Facts>, super::StoredExtras) {
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
        settles_at: Some(state.settled_at()),
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
        settles_at: Some(state.settled_at()),
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
        settles_at: Some(state.settled_at()),
        ..Facts::default()
    })
}

fn window(state: &[u8], now: Micros) -> Option<Facts> {
    let text = str::from_utf8(state).ok()?;
    let (ends_ms, count) = match text.split_once(':') {
        Some((ends, count)) => (ends.parse().ok()?, count.parse().ok()?),
        None => {
            let packed: u64 = text.parse().ok()?;
            (packed / COUNTS + EPOCH_MS, packed % COUNTS)
        }
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
    let mut extras = super::StoredExtras::default();
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
    let mut extras = super::StoredExtras::default();
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
fn entry(member: &[u8]) -> Option<(u64, u64, super::StoredExtras)> {
    let (after, rest) = member.split_at_checked(7)?;
    let (units, rest) = rest.split_at_checked(4)?;
    let behind = match rest {
        [] => &[][..],
        rest => rest.get(11..)?,
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
