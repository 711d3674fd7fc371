/**
 * Measures each part in its own process, so that no part finds the memory that another has left.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { minded } from '../node/children.mjs'
import { read } from './record.mjs'

const BENCH = fileURLToPath(new URL('../node/main.mjs', import.meta.url))

/** A pause between two parts, so that the load of the first does not affect the second. */
const REST_MS = 2_000

/**
 * @param {readonly string[]} names
 * @param {readonly string[]} options For `npm run bench`.
 * @param {(record: import('./record.mjs').Record_) => void} done Called after each part.
 */
export async function measure(names, options, done) {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-report-'))
  try {
    for (const name of names) {
      const file = join(folder, `${name}.json`)
      const child = minded(spawn(process.execPath, [BENCH, name, ...options, '--json', file], { stdio: 'inherit' }))
      const [code, signal] = await once(child, 'exit')
      if (code !== 0) throw new Error(`${name}: exit ${code ?? signal}`)
      done(read(file))
      await new Promise((resolve) => setTimeout(resolve, REST_MS))
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
