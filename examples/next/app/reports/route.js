// A route handler with a limit of its own: 3 reports per hour and client.
import { withRateLimit } from 'tollgate/fetch'
import { clientOf, reports } from '../../limits.js'

export const GET = withRateLimit(() => Response.json({ report: 'sales' }), { limiter: reports, key: clientOf })
