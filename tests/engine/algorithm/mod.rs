//! Each algorithm against its exact oracle.

pub(crate) mod bucket_oracle;
pub(crate) mod bucket_overflow;
pub(crate) mod buckets;
pub(crate) mod calendar_window;
pub(crate) mod log_oracle;
pub(crate) mod overflow;
pub(crate) mod sliding_counter;
pub(crate) mod sliding_log;
pub(crate) mod sliding_window;
pub(crate) mod window_oracle;
