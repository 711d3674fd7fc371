//! A list that is nearly always short.

/// A list that stores up to `ROOM` items without an allocation.
#[cfg(not(target_arch = "wasm32"))]
pub type ShortList<T, const ROOM: usize> = smallvec::SmallVec<[T; ROOM]>;

/// A plain vector: in a WebAssembly download, the code of inline lists for each item type costs
/// more than it saves.
#[cfg(target_arch = "wasm32")]
pub type ShortList<T, const ROOM: usize> = Vec<T>;
