//! Lists that are short nearly always.

/// A list with room for so many before it needs an allocation.
#[cfg(not(target_arch = "wasm32"))]
pub type ShortList<T, const ROOM: usize> = smallvec::SmallVec<[T; ROOM]>;

/// WebAssembly is downloaded: there the code of such lists, for each kind of thing, costs more than it gains.
#[cfg(target_arch = "wasm32")]
pub type ShortList<T, const ROOM: usize> = Vec<T>;
