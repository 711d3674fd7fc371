//! Decodes the metadata after a state in the same value. `lua/executor/key_metadata.lua` encodes
//! it.

use super::doubles;
use crate::policy::ban::BanRecord;
use crate::policy::mark::Mark;
use crate::policy::owed::Owed;
use crate::protocol::value::METADATA_MIN_SIZE;
use crate::time::Micros;

const TAG: u8 = b'X';

/// The tag of metadata with a mark.
const TAG_WITH_MARK: u8 = b'Y';

/// The tag of metadata with a mark, which may be empty, and owed units.
const TAG_WITH_OWED: u8 = b'Z';

/// A block, an override, bans and owed units.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredMetadata {
    /// The end of the block, in epoch microseconds; 0 if there is none.
    pub blocked_until: Micros,
    /// The end of the override, in epoch microseconds; 0 if there is none.
    pub override_until: Micros,
    /// The parameters of the override, in the order of its policy's parameters.
    pub override_numbers: Vec<u64>,
    /// The strikes and the bans.
    pub bans: BanRecord,
    /// The mark.
    pub mark: Mark,
    /// The owed units.
    pub owed: Owed,
}

pub(crate) fn split(value: &[u8]) -> (&[u8], StoredMetadata) {
    read(value).unwrap_or_else(|| (value, StoredMetadata::default()))
}

fn read(value: &[u8]) -> Option<(&[u8], StoredMetadata)> {
    let (rest, [high, low, tag]) = value.split_last_chunk()?;
    let size = usize::from(u16::from_be_bytes([*high, *low]));
    if ![TAG, TAG_WITH_MARK, TAG_WITH_OWED].contains(tag) || (size as u64) < METADATA_MIN_SIZE {
        return None;
    }
    let state = value.len().checked_sub(size)?;
    let mut words = rest[state..].strip_prefix(&[*tag])?;
    let mut numbers = [0; 8];
    doubles(&mut words, &mut numbers)?;
    let (count, mut words) = words.split_first()?;
    let mut override_numbers = vec![0; usize::from(*count)];
    doubles(&mut words, &mut override_numbers)?;
    let mut mark = [0; 4];
    if *tag != TAG {
        doubles(&mut words, &mut mark)?;
    }
    let mut owed = [0; 4];
    if *tag == TAG_WITH_OWED {
        doubles(&mut words, &mut owed)?;
    }
    let [moved, valid_from, early, until] = mark;
    let mark = Mark { moved, valid_from, early, until };
    let [units, at, capacity, period] = owed;
    let owed = Owed { units, at, capacity, period };
    let [blocked_until, override_until, numbers @ ..] = numbers;
    let [strikes, window_end, step, banned_until, forget_at, excused_from] = numbers;
    let bans = BanRecord { strikes, window_end, step, banned_until, forget_at, excused_from };
    let metadata =
        StoredMetadata { blocked_until, override_until, override_numbers, bans, mark, owed };
    Some((&value[..state], metadata))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const BANS: BanRecord = BanRecord {
        strikes: 1,
        window_end: 2,
        step: 3,
        banned_until: 4,
        forget_at: 5,
        excused_from: 6,
    };

    pub(crate) const MARK_OF_TEXT: Mark = Mark { moved: 6, valid_from: 7, early: 8, until: 9 };

    pub(crate) const OWED_OF_TEXT: Owed = Owed { units: 10, at: 11, capacity: 12, period: 13 };

    /// Encodes metadata as `encode_metadata` in the script does.
    pub(crate) fn text(blocked_until: u32, override_until: u32, numbers: &[u32]) -> Vec<u8> {
        let mut text = vec![TAG_WITH_OWED];
        for number in [blocked_until, override_until, 1, 2, 3, 4, 5, 6] {
            text.extend(f64::from(number).to_be_bytes());
        }
        text.push(u8::try_from(numbers.len()).unwrap());
        for number in numbers {
            text.extend(f64::from(*number).to_be_bytes());
        }
        for number in 6..=13 {
            text.extend(f64::from(number).to_be_bytes());
        }
        text.extend(u16::try_from(text.len() + 3).unwrap().to_be_bytes());
        text.push(TAG_WITH_OWED);
        text
    }

    #[test]
    fn metadata_follows_the_state() {
        for numbers in [&[][..], &[1, 2, 3], &[9; 30]] {
            let value = [&b"state"[..], &text(7, 8, numbers)].concat();
            let (state, metadata) = split(&value);
            assert_eq!(state, b"state");
            let override_numbers = numbers.iter().map(|number| u64::from(*number)).collect();
            let expected = StoredMetadata {
                blocked_until: 7,
                override_until: 8,
                override_numbers,
                bans: BANS,
                mark: MARK_OF_TEXT,
                owed: OWED_OF_TEXT,
            };
            assert_eq!(metadata, expected);
        }
    }

    #[test]
    fn a_value_without_metadata_is_a_state() {
        let whole = text(7, 8, &[1]);
        let mut too_long = whole.clone();
        let end = too_long.len();
        too_long[end - 3..end - 1].copy_from_slice(&500_u16.to_be_bytes());
        for value in [&b""[..], b"X", b"a state that merely ends with Z", &whole[1..], &too_long] {
            assert_eq!(split(value), (value, StoredMetadata::default()), "{value:?}");
        }
    }
}
