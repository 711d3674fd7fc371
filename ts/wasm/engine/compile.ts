import { inflate } from './inflate.js'

/** A module in the text of a program. */
interface Inlined {
  /** The number of its bytes. */
  readonly size: number
  /** Raw deflate in Base64. */
  readonly deflated: string
}

interface Zlib {
  inflateRawSync(bytes: Uint8Array): Uint8Array<ArrayBuffer>
}

// The bundles for the web replace `globalThis.process`, and Node.js before 20.16 lacks the function.
const builtin = (globalThis as { readonly process?: { getBuiltinModule?: (name: string) => unknown } }).process
  ?.getBuiltinModule

/** Compiles a module at once, because the engine starts while its module is loaded. */
export function compile({ deflated, size }: Inlined): WebAssembly.Module {
  const bytes = bytesOf(deflated)
  const zlib = builtin?.('node:zlib') as Zlib | undefined
  return new WebAssembly.Module(zlib === undefined ? inflate(bytes, size) : zlib.inflateRawSync(bytes))
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64)
  const bytes = new Uint8Array(text.length)
  for (let index = 0; index < bytes.length; index++) {
    bytes[index] = text.charCodeAt(index)
  }
  return bytes
}
