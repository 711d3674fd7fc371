//! Generates what JavaScript needs of a module that was built with wasm-bindgen.
//!
//! `tollgate-bindgen MODULE.wasm FOLDER`

use std::env;
use std::error::Error;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [module, folder] = &arguments[..] else {
        return Err("tollgate-bindgen takes a module and a folder".into());
    };
    let mut bindgen = Bindgen::new();
    bindgen
        .input_path(module)
        .web(true)?
        .typescript(true)
        // Whoever starts the engine has the module already.
        .omit_default_module_path(true)
        .remove_name_section(true)
        .remove_producers_section(true)
        .out_name("engine")
        .generate(folder)?;
    Ok(())
}
