/**
 * A network that takes time, in a process of its own: a proxy that delays what goes up to a server and what comes
 * down. Run by `fork`, with the server's port: it tells its own port, and is then told its delays.
 */
import { connect, createServer } from 'node:net'

const target = Number(process.argv[2])
const delays = { up: 0, down: 0 }

/** Passes bytes on, in order, each some milliseconds after it came. */
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
    // Together, in one write: what is due at once is on the wire at once.
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
