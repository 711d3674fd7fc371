// Loaded before a program: simulates another platform, a system that refuses to load an addon, or
// the choice of another addon.
//
//     node --require ./pretend.cjs PROGRAM [--platform linux-arm64-musl] [--dlopen WHAT_THE_SYSTEM_SAYS] [--library FILE]
const fs = require('node:fs')

const { platform, dlopen, library } = Object.fromEntries(
  process.argv.slice(2).flatMap((word, at, words) => (at % 2 === 0 ? [[word.slice('--'.length), words[at + 1]]] : [])),
)

if (platform !== undefined) {
  const [system, arch, abi] = platform.split('-')
  Object.defineProperty(process, 'platform', { value: system })
  Object.defineProperty(process, 'arch', { value: arch })
  // The loader reads a file, and falls back to Node's report.
  const { readFileSync } = fs
  fs.readFileSync = (path, ...rest) => (path === '/usr/bin/ldd' ? `${abi} libc` : readFileSync(path, ...rest))
  const header = abi === 'gnu' ? { glibcVersionRuntime: '2.36' } : {}
  process.report.getReport = () => ({ header, sharedObjects: [] })
}

if (dlopen !== undefined) {
  process.dlopen = () => {
    throw new Error(dlopen)
  }
}

if (library !== undefined) {
  process.env.NAPI_RS_NATIVE_LIBRARY_PATH = library
}
