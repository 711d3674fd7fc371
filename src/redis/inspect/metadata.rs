//! The other end of `lua/executor/key_metadata.lua`: what stands behind a state in the same value.

use crate::redis::codec::doubles;
use crate::time::Micros;

const MARK: u8 = b'X';
const LEAST: usize = 48;

/// A block, and numbers of a key's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredExtras {
    /// The end of the block; 0 if there is none.
    pub blocked_until: Micros,
    /// The end of the numbers; 0 if there are none.
    pub numbers_until: Micros,
    /// The numbers, in the order in which their policy's words begin.
    pub numbers: Vec<u64>,
}

/// Splits a value into the state and what stands behind it.
pub(crate) fn split(value: &[u8]) -> (&[u8], StoredExtras) {
    read(value).unwrap_or_else(|| (value, StoredExtras::default()))
}

fn read(value: &[u8]) -> Option<(&[u8], StoredExtras)> {
    let (rest, [high, low, MARK]) = value.split_last_chunk()? else { return None };
    let size = usize::from(u16::from_be_bytes([*high, *low]));
    if size < LEAST {
        return None;
    }
    let state = value.len().checked_sub(size)?;
    let mut words = rest[state..].strip_prefix(&[MARK])?;
    let mut ends = [0; 2];
    doubles(&mut words, &mut ends)?;
    let (count, mut words) = words.split_first()?;
    let mut numbers = vec![0; usize::from(*count)];
    doubles(&mut words, &mut numbers)?;
    let [blocked_until, numbers_until] = ends;
    Some((&value[..state], StoredExtras { blocked_until, numbers_until, numbers }))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// As `extras_text` in the script writes it.
    pub(crate) fn text(blocked_until: u32, numbers_until: u32, numbers: &[u32]) -> Vec<u8> {
        let mut text = vec![MARK];
        for end in [blocked_until, numbers_until] {
            text.extend(f64::from(end).to_be_bytes());
        }
        text.push(u8::try_from(numbers.len()).unwrap());
        for number in numbers {
            text.extend(f64::from(*number).to_be_bytes());
        }
        text.resize(text.len().max(45), 0);
        text.extend(u16::try_from(text.len() + 3).unwrap().to_be_bytes());
        text.push(MARK);
        text
    }

    #[test]
    fn a_block_and_numbers_stand_behind_the_state() {
        for numbers in [&[][..], &[1, 2, 3], &[9; 30]] {
            let value = [&b"state"[..], &text(7, 8, numbers)].concat();
            let (state, extras) = split(&value);
            assert_eq!(state, b"state");
            let numbers = numbers.iter().map(|number| u64::from(*number)).collect();
            assert_eq!(extras, StoredExtras { blocked_until: 7, numbers_until: 8, numbers });
        }
    }

    #[test]
    fn a_value_without_them_is_a_state() {
        let whole = text(7, 8, &[1]);
        let mut too_long = whole.clone();
        let end = too_long.len();
        too_long[end - 3..end - 1].copy_from_slice(&500_u16.to_be_bytes());
        for value in [&b""[..], b"X", b"a state that merely ends with X", &whole[1..], &too_long] {
            assert_eq!(split(value), (value, StoredExtras::default()), "{value:?}");
        }
    }
}
