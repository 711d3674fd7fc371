//! Tells the linker what Node provides when the addon is loaded, and shortens the Lua files for Redis.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    #[cfg(feature = "node")]
    napi_build::setup();
    println!("cargo::rerun-if-changed=lua");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    shorten_all(Path::new("lua"), &out.join("lua"));
}

/// Writes the Lua files of a folder without comments and indentation: a third of their bytes, which every
/// client sends to Redis and every bundle with WebAssembly contains.
fn shorten_all(folder: &Path, out: &Path) {
    fs::create_dir_all(out).expect("OUT_DIR can be written");
    for entry in fs::read_dir(folder).expect("lua/ can be read") {
        let path = entry.expect("lua/ can be read").path();
        let target = out.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            shorten_all(&path, &target);
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            let text = fs::read_to_string(&path).expect("lua/ can be read");
            fs::write(target, shortened(&text)).expect("OUT_DIR can be written");
        }
    }
}

/// Comments end with their line, and have lines of their own. No string has several lines.
fn shortened(text: &str) -> String {
    let is_kept = |line: &&str| {
        !line.is_empty() && (!line.starts_with("--") || line.starts_with("--@include "))
    };
    text.lines().map(str::trim).filter(is_kept).map(|line| format!("{line}\n")).collect()
}
