// Calls five tools of a server, which do not end before it is killed.
import { connect } from './mcp.mjs'

const { version, url } = JSON.parse(process.argv[2])
const client = await connect(version, url, 'ann/hanging')
const request = { name: 'count', arguments: { text: 'hang', how: 'hang' } }
await Promise.allSettled([1, 2, 3, 4, 5].map(() => client.callTool(request)))
process.exit()
