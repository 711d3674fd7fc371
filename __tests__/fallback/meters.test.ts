/** Costs by meter while the store fails. */
import { fixedWindow, gcra } from '../../ts/index.js'
import { rejectionOf } from '../failure.js'
import { failing, fallbackLimiter, knownDown } from './help.js'

const POLICIES = {
  calls: gcra({ limit: 40, period: '1h' }),
  tokens: fixedWindow({ limit: 400, window: '1h', meter: 'tokens' }),
}

const NOTHING = { tokens: 0, calls: 0 }

describe.each([failing(), knownDown()])('$name', (away) => {
  test.each([
    ['allow', true],
    ['refuse', false],
  ] as const)('%s', async (mode, allowed) => {
    const limiter = fallbackLimiter(away.store(), POLICIES, mode)
    const decision = await limiter.take('a', { cost: { tokens: 1_000 } })
    expect(decision).toMatchObject({ allowed, source: 'none' })
    expect(await limiter.refund(decision)).toEqual({ calls: 0, tokens: 0 })
    expect(await limiter.penalize('a', { tokens: 5 })).toEqual({ calls: 0, tokens: 0 })
    const reservation = await limiter.reserve('a', { tokens: 50 })
    expect(reservation.allowed).toBe(allowed)
    if (reservation.allowed) {
      expect(await reservation.extend({ tokens: 5 })).toMatchObject({ extended: true, units: { calls: 1, tokens: 55 } })
      expect(await reservation.commit({ tokens: 70 })).toEqual({
        settled: true,
        refunded: { calls: 0, tokens: 0 },
        charged: { calls: 0, tokens: 0 },
        owed: { calls: 0, tokens: 0 },
        shortfall: { calls: 0, tokens: 0 },
        late: false,
      })
    }
  })

  test('an embedded share charges its part of each meter', async () => {
    const limiter = fallbackLimiter(away.store(), POLICIES, { embedded: { share: 0.25 } })
    const decision = await limiter.take('a', { cost: { tokens: 60 } })
    expect(decision).toMatchObject({
      allowed: true,
      source: 'fallback',
      policies: { calls: { remaining: 9 }, tokens: { remaining: 40 } },
    })
    expect(await limiter.take('a', { cost: { tokens: 60 } })).toMatchObject({ status: 'refused', source: 'fallback' })
    // The store may admit it later: 200 is below its limit, and above that of the share.
    expect(await limiter.take('a', { cost: { tokens: 200 } })).toMatchObject({ status: 'refused', source: 'none' })
    expect(await limiter.take('a', { cost: { tokens: 401 } })).toMatchObject({ status: 'impossible' })
    expect(await limiter.refund(decision, { tokens: 20 })).toEqual({ calls: 0, tokens: 20 })
    const reservation = await limiter.reserve('a', { tokens: 50 })
    expect(reservation.allowed && (await reservation.commit({ tokens: 10 }))).toMatchObject({
      settled: true,
      refunded: { calls: 0, tokens: 40 },
    })
    expect(await limiter.take('a', { cost: NOTHING })).toMatchObject({
      policies: { calls: { remaining: 8 }, tokens: { remaining: 50 } },
    })
  })

  test('wrong costs are errors of the caller', async () => {
    const limiter = fallbackLimiter(away.store(), POLICIES, 'allow')
    expect(await rejectionOf(limiter.take('a', { cost: { tokens: -1 } }))).toMatchObject({ code: 'INVALID_COST' })
  })
})
