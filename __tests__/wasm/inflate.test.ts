/** The decompression of inlined modules, compared with zlib. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { deflateRawSync, constants as z } from 'node:zlib'
import { deflated, size } from '../../generated/wasm/inlined.js'
import { inflate } from '../../ts/wasm/engine/inflate.js'

const random = (length: number, values: number) => {
  let state = 1
  return Buffer.from(
    Array.from({ length }, () => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
      return (state >>> 16) % values
    }),
  )
}

/** Contents that need every form of a block, and every length and distance of a copy. */
const CONTENTS: Readonly<Record<string, Buffer>> = {
  nothing: Buffer.alloc(0),
  'one byte': Buffer.from('a'),
  'one repeated byte': Buffer.alloc(100_000, 7),
  'bytes that do not repeat': random(150_000, 256),
  'two values': random(100_000, 2),
  'few values, and a copy from far behind': Buffer.concat([random(32_000, 40), random(700, 200), random(32_000, 40)]),
}

/** Stored blocks, blocks with fixed codes, and blocks with codes of their own, also many small ones. */
const OPTIONS = [{ level: 0 }, { strategy: z.Z_FIXED }, { level: 1, memLevel: 1 }, { level: 9 }, { strategy: z.Z_RLE }]

describe.each(Object.entries(CONTENTS))('%s', (_, content) => {
  test.each(OPTIONS)('compressed with %p', (options) => {
    expect(Buffer.compare(inflate(deflateRawSync(content, options), content.length), content)).toBe(0)
  })
})

test('the inlined engine is the module that workerd imports', () => {
  const module = readFileSync(join(__dirname, '..', '..', 'generated', 'wasm', 'tollgate.wasm'))
  expect(size).toBe(module.length)
  expect(Buffer.compare(inflate(Buffer.from(deflated, 'base64'), size), module)).toBe(0)
})
