/**
 * Sends requests to a server all the time through an `OutgoingClient`, and reports the statuses of
 * its answers to its parent until this disconnects.
 */
const { gcra, RateLimiter } = require('../../dist/index.js')
const { OutgoingClient } = require('../../dist/client/index.js')

const [store, url, name, rate] = process.argv.slice(2)
const limiter = new RateLimiter(gcra({ limit: Number(rate), period: '1s', burst: 1 }), { store, prefix: 'sending' })
const api = new OutgoingClient({ limiter, key: 'api', retries: 10 })
let isRunning = true
process.once('disconnect', () => {
  isRunning = false
})

async function send() {
  while (isRunning) {
    const response = await api.fetch(url, { headers: { 'x-process': name } })
    await response.arrayBuffer()
  }
}

async function main() {
  await limiter.ready()
  process.send('ready')
  await Promise.all(Array.from({ length: 20 }, send))
  await api.close()
  await limiter.close()
}

void main()
