/** The program of `npm run simulate:leases`, with few calls. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

interface Load {
  readonly results: readonly {
    readonly processes: number
    readonly excess: number
    readonly hottest: { readonly leasedPercent: number; readonly admittedPercent: number }
  }[]
}

test('many processes use leases, and none exceeds the law', () => {
  const program = join(__dirname, '..', '..', 'tests', 'benches', 'leases', 'main.mjs')
  const words = [program, '--calls', '4000', '--seconds', '1', '--json']
  const loads: readonly Load[] = JSON.parse(execFileSync(process.execPath, words, { encoding: 'utf8' }))
  expect(loads).toHaveLength(3)
  // At half of its limit, one process decides most calls on the hottest key itself.
  expect(loads[0]?.results[0]?.hottest.leasedPercent).toBeGreaterThan(50)
  for (const { results } of loads) {
    expect(results.map(({ processes }) => processes)).toEqual([1, 3, 10, 30, 100, 300, 1_000])
    expect(results.map(({ excess }) => excess)).toEqual(results.map(() => 0))
    expect(results[0]?.hottest.leasedPercent).toBeGreaterThan(0)
    expect(results[0]?.hottest.admittedPercent).toBeGreaterThan(90)
  }
})
