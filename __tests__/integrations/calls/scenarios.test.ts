/** The blocks of docs/model-sdks.md under the real SDKs, with a provider on a socket. */
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { RedisServer } from '../../servers/redis-server.js'
import { Provider } from '../ai-sdk/server.js'
import { startProgram } from '../node.js'

test.each(['openai', 'anthropic', 'langchain'])('%s', async (sdk) => {
  await using server = await RedisServer.start()
  const provider = await Provider.start()
  const program = startProgram(join(__dirname, 'scenarios.mjs'), sdk, provider.url, server.url)
  const out = await text(program.stdout)
  await provider.stop()
  console.log(JSON.stringify(JSON.parse(out), null, 0).replaceAll('},"', '},\n"'))
})
