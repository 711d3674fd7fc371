/** Takes from one key all the time, and follows the numbers in a file. Reports to its parent until this disconnects. */
const { readFile } = require('node:fs/promises')
const { gcra, RateLimiter, RedisStore, watchPolicies } = require('../../dist/index.js')

const [url, file, everyMs] = process.argv.slice(2)
const store = new RedisStore({ url, commandTimeout: 30_000 })
const limiter = new RateLimiter(gcra({ limit: 50, period: '1s', burst: 5 }), { store, prefix: 'watching' })
const watch = watchPolicies(limiter, async () => JSON.parse(await readFile(file, 'utf8')), {
  every: `${everyMs}ms`,
  // A file that is being written is not valid JSON.
  onError: () => {},
})
let isRunning = true
process.once('disconnect', () => {
  isRunning = false
})

async function main() {
  while (isRunning) {
    const decisions = await Promise.all(Array.from({ length: 20 }, () => limiter.take('key')))
    const admitted = decisions.filter(({ allowed }) => allowed).length
    if (isRunning) {
      process.send({ admitted, capacity: decisions.at(-1).capacity })
    }
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  watch.stop()
  await limiter.close()
  await store.close()
}

void main()
