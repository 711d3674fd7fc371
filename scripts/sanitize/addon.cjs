// Loads the instrumented addon in the place of the usual one, also in workers and child processes.
// (NAPI_RS_NATIVE_LIBRARY_PATH would replace the addons of other packages, too.)
const { dlopen } = process
process.dlopen = (module, file, ...flags) =>
  dlopen.call(process, module, /tollgate\.[\w-]+\.node$/.test(file) ? process.env.TOLLGATE_SANITIZED : file, ...flags)
