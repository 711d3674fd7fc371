// Calls the tools of servers as one user, until no call fits any more. Prints a line for each outcome.
import { connect } from './mcp.mjs'

const { version, urls } = JSON.parse(process.argv[2])

const callers = urls.map(async (url, index) => {
  const client = await connect(version, url, `ann/client-${index}`)
  let calls = 0
  const worker = async () => {
    for (;;) {
      const call = calls++
      const how = call % 7 === 3 ? 'fail' : call % 5 === 4 ? 'wait' : 'answer'
      const controller = new AbortController()
      const request = { name: 'count', arguments: { text: 'x'.repeat(1 + (call % 40)), how } }
      // The tool reports progress when it runs.
      const options = { signal: controller.signal, ...(how === 'wait' && { onprogress: () => controller.abort() }) }
      const answer = client.callTool(request, options).catch(() => ({}))
      const refusal = (await answer)._meta?.['tollgate/refusal']
      if (refusal !== undefined) console.log(JSON.stringify(refusal))
      if (refusal?.policy === 'letters') return
      if (refusal !== undefined) await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  await Promise.all([worker(), worker(), worker(), worker()])
  await client.close()
})
await Promise.all(callers)
