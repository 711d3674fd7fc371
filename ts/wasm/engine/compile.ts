/** Compiles a module from hexadecimal text. */
export function compile(hexadecimal: string): WebAssembly.Module {
  return new WebAssembly.Module(bytesOf(hexadecimal))
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length / 2)
  for (let index = 0; index < bytes.length; index++) {
    bytes[index] = (digitAt(text, 2 * index) << 4) | digitAt(text, 2 * index + 1)
  }
  return bytes
}

/** The value of a digit: `0` to `9` and `a` to `f`. */
function digitAt(text: string, index: number): number {
  const unit = text.charCodeAt(index)
  return unit < 0x40 ? unit - 0x30 : unit - 0x57
}
