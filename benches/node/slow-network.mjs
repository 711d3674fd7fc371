/**
 * A slow network in its own process: a proxy that delays both directions. Run it with `fork` and
 * the server's port. It sends its own port, and then receives its delays.
 */
import { connect, createServer } from 'node:net'

const target = Number(process.argv[2])
const delays = { up: 0, down: 0 }

/** Forwards bytes in order, each after a delay in milliseconds. */
function forward(from, to, way) {
  const queue = []
  let timer
  from.on('data', (bytes) => {
    queue.push({ due: performance.now() + delays[way], bytes })
    if (queue.length === 1) pass()
  })
  from.on('close', () => to.destroy())
  from.on('error', () => to.destroy())

  function pass() {
    clearTimeout(timer)
    const now = performance.now()
    const ready = queue.findIndex(({ due }) => due > now)
    // One write for all bytes that are due at the same time.
    const due = queue.splice(0, ready < 0 ? queue.length : ready)
    if (due.length > 0 && !to.destroyed) to.write(Buffer.concat(due.map(({ bytes }) => bytes)))
    if (queue.length > 0) timer = setTimeout(pass, queue[0].due - now)
  }
}

const server = createServer({ noDelay: true }, (client) => {
  const upstream = connect({ port: target, host: '127.0.0.1', noDelay: true })
  forward(client, upstream, 'up')
  forward(upstream, client, 'down')
})
server.listen(0, '127.0.0.1', () => process.send({ port: server.address().port }))

process.on('message', (wanted) => {
  Object.assign(delays, wanted)
  process.send('set')
})
process.on('disconnect', () => process.exit())
