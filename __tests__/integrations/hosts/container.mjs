// An instance of a Lambda function: asks the runtime's API for events, and posts the results of the handler.
const [file, api] = process.argv.slice(2)
const { handler } = await import(file)
for (;;) {
  const next = await fetch(`${api}/next`)
  const event = await next.json()
  const id = next.headers.get('lambda-runtime-aws-request-id')
  const result = await handler(event).catch((error) => ({ error: String(error) }))
  await fetch(`${api}/${id}/response`, { method: 'POST', body: JSON.stringify(result) })
}
