// Limits all requests to the app, before their routes. In Next.js 15 and earlier this file is
// middleware.js, and needs `export const config = { runtime: 'nodejs' }`.
import { NextResponse } from 'next/server'
import { withRateLimit } from 'tollgate/fetch'
import { clientOf, everything } from './limits.js'

export const proxy = withRateLimit(() => NextResponse.next(), { limiter: everything, key: clientOf, headers: false })
