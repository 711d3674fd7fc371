//! The names of a script's keys, concatenated in one buffer.

/// The names of keys, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptKeys {
    names: Vec<u8>,
    /// For each key: the end of its name in the buffer.
    ends: Vec<usize>,
}

impl ScriptKeys {
    /// An empty list with the capacity for `count` of another's keys, if their lengths are similar.
    pub(crate) fn with_capacity_of(other: &Self, count: usize) -> Self {
        let count = count.min(other.len());
        let bytes = (other.names.len() * count).div_ceil(other.len().max(1));
        Self { names: Vec::with_capacity(bytes), ends: Vec::with_capacity(count) }
    }

    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.names);
        self.ends.push(self.names.len());
    }

    pub(crate) fn drop_last(&mut self) {
        self.ends.pop();
        self.names.truncate(self.ends.last().copied().unwrap_or(0));
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        let start = self.names.len();
        self.names.extend_from_slice(&other.names);
        self.ends.extend(other.ends.iter().map(|end| start + end));
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.names[start..self.ends[index]]
    }

    /// The names, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> ScriptKeys {
        let mut keys = ScriptKeys::default();
        for name in names {
            keys.push(|names| names.extend_from_slice(name.as_bytes()));
        }
        keys
    }

    #[test]
    fn keys_stay_apart() {
        let mut all = keys(&["a", "", "bcd"]);
        all.extend(&keys(&["", "e"]));
        assert_eq!(all.iter().collect::<Vec<_>>(), [&b"a"[..], b"", b"bcd", b"", b"e"]);
        all.drop_last();
        all.drop_last();
        assert_eq!(all, keys(&["a", "", "bcd"]));
        assert_eq!((all.len(), all.is_empty(), keys(&[]).is_empty()), (3, false, true));
    }
}
