//! Tells the linker what Node provides when the addon is loaded.

fn main() {
    #[cfg(feature = "node")]
    napi_build::setup();
}
