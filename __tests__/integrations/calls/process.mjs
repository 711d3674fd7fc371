// A process that shares the limits of an account with others. Prints a line for each attempt that was charged.
import { SDKS, setProvider } from './sdks.mjs'

const { sdk, url, redis, limits, name, isVictim } = JSON.parse(process.argv[2])
setProvider(url)
const print = (line) => console.log(JSON.stringify(line))
const onCharge = ({ cost, units = {}, settlement, error }) =>
  print({ charged: { ...cost, ...units }, settled: settlement?.settled, error: error?.message })
const { stream, client, limiter } = await SDKS[sdk]({ redis, limits, maxWait: '2s', onCharge })

/** Whether the account has no units left for a call. On a busy machine a call may wait too long before. */
async function isFull() {
  const meters = Object.keys(limits)
  const cost = { ...Object.fromEntries(meters.map((meter) => [meter, 0])), [meters.at(-1)]: 600 }
  return !(await limiter.peek('gpt-5', { cost })).allowed
}

/** Reads a stream, and aborts it after a number of its parts. */
async function run(script, abortAfter = Number.POSITIVE_INFINITY) {
  const controller = new AbortController()
  let parts = 0
  await stream(script, controller.signal, () => {
    parts++
    if (parts === 2 && isVictim) print({ begun: true })
    if (parts === abortAfter) controller.abort()
  })
}

if (isVictim) {
  const endless = { output: 1_000_000, everyMs: 5 }
  await run(endless, 2)
  // It is killed while these stream.
  await Promise.all([1, 2, 3].map(() => run(endless)))
} else {
  let calls = 0
  const worker = async () => {
    for (;;) {
      const call = calls++
      const refuse =
        call % 7 === 3
          ? { status: 429, times: 1, headers: { 'retry-after-ms': '20' } }
          : { status: 500, times: call % 11 === 5 ? 1 : 0 }
      const script = { output: 1 + (call % 80), everyMs: 1, name: `${name}-${call}`, refuse }
      try {
        await run(script, call % 13 === 4 ? 2 : undefined)
      } catch (error) {
        const isLate = error.cause?.code === 'WAIT_TOO_LONG'
        if (isLate && (await isFull())) return
        // Retries are not without bounds.
        if (!isLate && error.status !== 500 && error.status !== 429 && error.name !== 'AbortError') throw error
      }
    }
  }
  await Promise.all([worker(), worker(), worker(), worker()])
  await client.close()
  await limiter.close()
}
