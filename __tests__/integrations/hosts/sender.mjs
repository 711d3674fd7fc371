// Sends events by the program of docs/client.md, and prints the blocks, the attempts and the results as lines.
const [file, events] = process.argv.slice(2)
const { deliver, limiter, webhooks } = await import(file)
const print = (line) => console.log(JSON.stringify(line))
webhooks.on('start', ({ key }) => print({ started: key }))
webhooks.on('block', ({ key, durationMs, applied }) =>
  print({ blocked: key, durationMs, isApplied: applied !== false }),
)
await Promise.all(JSON.parse(events).map(async (event) => print({ id: event.id, status: await deliver(event) })))
await webhooks.close()
await limiter.close()
process.exit()
