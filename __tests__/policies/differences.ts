import { calendarWindow, fixedWindow, gcra, tiers } from '../../ts/index.js'
import type { Enforced } from '../../ts/policies/policy-set.js'

const window = (options: object) => fixedWindow({ limit: 5, window: '1h', ...options })
const daily = (options: object) => calendarWindow({ limit: 5, every: 'day', timeZone: 'UTC', ...options })

/** Policies that differ in more than numbers, after the texts of their differences. */
export const DIFFERENCES: readonly (readonly [difference: string, earlier: Enforced, later: Enforced])[] = [
  ['algorithm was "fixedWindow" and is now "gcra"', window({}), gcra({ limit: 5, period: '1h' })],
  ['per of policies.a was "ip" and is now "user"', { a: window({ per: 'ip' }) }, { a: window({ per: 'user' }) }],
  ['per was undefined and is now "ip"', window({}), window({ per: 'ip' })],
  ['meter was "calls" and is now "tokens"', window({}), window({ meter: 'tokens' })],
  [
    'meter of policies.a was "calls" and is now "tokens"',
    { a: window({}), b: window({ meter: 'tokens' }) },
    { a: window({ meter: 'tokens' }), b: window({}) },
  ],
  ['defaultCost was 1 and is now undefined', window({ meter: 'tokens', defaultCost: 1 }), window({ meter: 'tokens' })],
  ['the tiers were (none) and are now free, pro', window({}), tiers({ free: window({}), pro: window({}) })],
  [
    'the tiers were free and are now free, pro',
    tiers({ free: window({}) }),
    tiers({ free: window({}), pro: window({}) }),
  ],
  ['the names of policies were (none) and are now default', window({}), { default: window({}) }],
  ['the names of policies were a and are now a, b', { a: window({}) }, { a: window({}), b: window({}) }],
  ['every was "day" and is now "month"', daily({}), daily({ every: 'month' })],
  ['timeZone was "UTC" and is now "Europe/Berlin"', daily({}), daily({ timeZone: 'Europe/Berlin' })],
  ['countRefused was false and is now true', window({}), window({ countRefused: true })],
]
