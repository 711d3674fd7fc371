import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

// promise: flood-evicts-nothing
test('ten million distinct keys exhaust no memory, reset no key and give no key a second limit', async () => {
  const script = join(__dirname, 'flood.mjs')
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', script])
  const result = JSON.parse(stdout)
  expect(result).toMatchObject({ size: 100_000, spent: 'refused', nearlySpent: ['allowed-last', 'refused'] })
  // The texts of nine million keys of 13 bytes alone are more than 117 MB.
  expect(result.grownMegabytes).toBeLessThan(30)
})
