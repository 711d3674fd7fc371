/** The simulation of all stores. `quick.test.ts` is a short one, and `npm run test:deep -- twins` a long one. */
import { simulate } from './simulation.js'

const { TOLLGATE_SIMULATED = 100_000, TOLLGATE_SEED = 42, TOLLGATE_SCENE = 0 } = process.env

jest.setTimeout(3_600_000)

test('embedded stores and Redis stores return equal results under one clock that also expires keys', async () => {
  const { operations, scenarios, seconds, seen } = await simulate({
    operations: Number(TOLLGATE_SIMULATED),
    seed: Number(TOLLGATE_SEED),
    first: Number(TOLLGATE_SCENE),
    hasWasm: true,
  })
  console.info(`${operations} operations on four stores, in ${scenarios} scenarios: ${seconds.toFixed(1)} s`)
  const results = [
    'take allowed',
    'take allowed-last',
    'take refused',
    'take blocked',
    'take impossible',
    'wait allowed',
  ]
  const others = [
    'takeMany',
    'takeUpTo allowed',
    'peek refused',
    'penalize',
    'refund',
    'reserve',
    'extend',
    'commit',
    'reset',
  ]
  const changes = ['block', 'unblock', 'override', 'clearOverride', 'update', 'wait and leave']
  const permits = ['acquire allowed', 'acquire allowed-last', 'acquire refused', 'acquire blocked', 'release']
  expect([...seen.keys()]).toEqual(expect.arrayContaining([...results, ...others, ...changes, ...permits]))
})
