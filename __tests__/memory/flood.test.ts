import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

test('ten million distinct keys exhaust no memory, reset nobody and give nobody a second limit', async () => {
  const script = join(__dirname, 'flood.mjs')
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', script])
  const told = JSON.parse(stdout)
  expect(told).toMatchObject({ size: 100_000, spent: 'refused', nearlySpent: ['allowed-last', 'refused'] })
  // Nine million keys of 13 bytes are more than 117 MB by their texts alone.
  expect(told.grownMegabytes).toBeLessThan(30)
}, 300_000)
