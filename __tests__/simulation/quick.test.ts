/**
 * A short simulation; `twins.test.ts` has the long one. `npm test` leaves WebAssembly's stores out.
 */
import { simulate } from './simulation.js'

const { TOLLGATE_TEST_WASM, TOLLGATE_SIMULATED = 15_000, TOLLGATE_SEED = 1, TOLLGATE_SCENE = 0 } = process.env

jest.setTimeout(3_600_000)

test('all stores return equal results under one clock that also expires keys', async () => {
  const { operations, scenarios, seconds } = await simulate({
    operations: Number(TOLLGATE_SIMULATED),
    seed: Number(TOLLGATE_SEED),
    first: Number(TOLLGATE_SCENE),
    hasWasm: TOLLGATE_TEST_WASM !== 'off',
  })
  console.info(`${operations} operations in ${scenarios} scenarios: ${seconds.toFixed(1)} s`)
})
