/** A store that is given as `undefined`, as from a missing variable of the environment: each process then counts alone. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

const ROOT_FOLDER = join(__dirname, '..', '..', 'dist')
const ROOT = JSON.stringify(join(ROOT_FOLDER, 'index.js'))

/** The warnings that a program prints. */
async function warned(program: string): Promise<string[]> {
  const head = `const { gcra, MemoryStore, RateLimiter, RedisStore } = require(${ROOT}); const policy = gcra({ limit: 1, period: '1s' });`
  const { stderr } = await promisify(execFile)(process.execPath, ['-e', `${head} ${program}`])
  return stderr.split('\n').filter((line) => /Warning/.test(line))
}

test('one warning for a process, if other options tell that Redis is meant', async () => {
  const program = `
    for (const prefix of ['a', 'b']) new RateLimiter(policy, { store: process.env.MISSING, prefix })
    new RateLimiter(policy, { store: undefined, onStoreFailure: 'allow' })`
  expect(await warned(program)).toEqual([
    expect.stringMatching(
      /\[TOLLGATE_UNDEFINED_STORE\] TollgateWarning: store is undefined, so each process counts alone and admits the whole limit: give a RedisStore or its URL, or new MemoryStore\(\) if that is meant$/,
    ),
  ])
  expect(await warned(`new RateLimiter(policy, { store: undefined, onStoreFailure: 'allow' })`)).toHaveLength(1)
})

test('the store of express-rate-limit warns, too', async () => {
  const program = (options: string) =>
    `const { TollgateStore } = require(${JSON.stringify(join(ROOT_FOLDER, 'middleware', 'express-rate-limit.js'))}); ` +
    `new TollgateStore(${options})`
  const warning = expect.stringContaining('[TOLLGATE_UNDEFINED_STORE]')
  expect(await warned(program(`{ store: process.env.MISSING, prefix: 'a' }`))).toEqual([warning])
  expect(await warned(program(`{ prefix: 'a' }`))).toEqual([])
  expect(await warned(program('{ store: undefined }'))).toEqual([])
})

test('no warning where the embedded store is meant', async () => {
  const program = `
    new RateLimiter(policy)
    new RateLimiter(policy, { store: undefined })
    new RateLimiter(policy, { prefix: 'a' })
    new RateLimiter(policy, { prefix: 'a', onStoreFailure: 'allow' })
    new RateLimiter(policy, { store: new MemoryStore(), prefix: 'a' })`
  expect(await warned(program)).toEqual([])
})

test('a limiter tells the kind of its store', async () => {
  const program = `
    const store = new RedisStore('redis://127.0.0.1:9')
    const limiters = [new RateLimiter(policy), new RateLimiter(policy, { store, prefix: 'a' })]
    console.error('Warning', ...limiters.map(({ storeKind }) => storeKind))`
  expect(await warned(program)).toEqual(['Warning embedded redis'])
})
