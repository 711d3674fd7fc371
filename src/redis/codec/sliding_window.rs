//! The codec of `lua/sliding_window/general.lua` in both layouts.

use super::metadata::split;
use super::{
    Codec, KeySummary, STATUS_LEN, ScriptAlgorithm, StoredMetadata, decimal, numbers, push_double,
};
use crate::algorithm::{Algorithm as _, BucketLayout, SlidingWindow};
use crate::policy::Policy;
use crate::protocol::value::ELEMENT_SIZE;
use crate::time::Micros;

impl Codec for SlidingWindow {
    fn algorithm(&self) -> ScriptAlgorithm {
        match self.layout() {
            BucketLayout::List => ScriptAlgorithm::SlidingWindowList,
            BucketLayout::Hash => ScriptAlgorithm::SlidingWindowHash,
        }
    }

    fn push_policy(&self, request: &mut Vec<u8>) {
        push_double(request, self.limit());
        push_double(request, self.width());
        push_double(request, self.span());
    }

    fn override_len(&self) -> usize {
        3
    }

    fn with_override(&self, numbers: &[u64]) -> Option<Policy> {
        let &[limit, width, span] = numbers else { return None };
        let buckets = span.checked_div(width)?;
        Some(Policy::SlidingWindow(Self::new(limit, span, buckets, self.layout()).ok()?))
    }

    fn state_len(&self) -> usize {
        STATUS_LEN
    }
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

/// Summarizes the elements of a list at the time `now`. Returns `None` for other elements.
pub(crate) fn list_summary(elements: &[Vec<u8>], now: Micros) -> Option<KeySummary> {
    let mut ends = Vec::with_capacity(elements.len());
    let (mut reset_at, mut expired) = (0, 0);
    let mut metadata = StoredMetadata::default();
    for element in elements {
        let (mut state, trailer) = element.split_at_checked(usize::try_from(ELEMENT_SIZE).ok()?)?;
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

/// Summarizes the fields of a hash at the time `now`. Returns `None` for other fields.
pub(crate) fn hash_summary(fields: &[Vec<u8>], now: Micros) -> Option<KeySummary> {
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
