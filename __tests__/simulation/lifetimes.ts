import type { Decision } from '../../ts/index.js'
import type { Environment } from './environment.js'
import type { SimulatedLimiter } from './limiter.js'

/**
 * Returns the names of all keys, and the milliseconds after which each expires. A key that owes units (the text with
 * its metadata ends with Z) has no such time: it expires when idle time has paid them, and a peek under longer windows pays them later.
 */
const LIFETIMES = `
  local reply, texts = {}, {
    string = function(name) return { redis.call('GET', name) } end,
    list = function(name) return redis.call('LRANGE', name, '-1', '-1') end,
    zset = function(name) return redis.call('ZREVRANGE', name, '0', '0') end,
    hash = function(name) return redis.call('HVALS', name) end,
  }
  for _, name in ipairs(redis.call('KEYS', '*')) do
    local owes = false
    for _, text in ipairs(texts[redis.call('TYPE', name).ok](name)) do
      owes = owes or string.sub(text, -1) == 'Z'
    end
    reply[#reply + 1] = name
    reply[#reply + 1] = owes and 2 ^ 50 or redis.call('PTTL', name)
  end
  return reply`

/**
 * Checks that every key in Redis lives at least until its units no longer count, by the reset time
 * of the embedded store. Redis would drop a key that expires earlier, and admit its units again.
 */
export async function checkLifetimes(environment: Environment, limiters: readonly SimulatedLimiter[]): Promise<void> {
  const reply = await environment.server.command<(string | number)[]>('EVAL', LIFETIMES, 0)
  const lifetimes: (readonly [name: string, ttlMs: number])[] = []
  for (let index = 0; index < reply.length; index += 2) {
    lifetimes.push([String(reply[index]), Number(reply[index + 1])])
  }
  const endless = lifetimes.find(([, ttlMs]) => ttlMs < 0)
  if (endless !== undefined) {
    throw new Error(`the key ${endless[0]} has no TTL: ${endless[1]}`)
  }
  const remotes = environment.stores.filter(({ isRemote }) => isRemote).map((_, index) => ['n', 'w'][index] as string)
  for (const simulated of limiters) {
    for (const key of simulated.case.keys) {
      for (const tier of simulated.tiers) {
        const decision = (await simulated.limiters[0]?.peek(key, { cost: 0, ...tier })) as Decision
        for (const [policy, per] of simulated.policies) {
          const neededMs = neededOf(decision, policy, algorithmOf(simulated, policy))
          for (const remote of neededMs > 0 ? remotes : []) {
            check(lifetimes, `${remote}${simulated.prefix}:${policy}:`, partOf(key, per), neededMs)
          }
        }
      }
    }
  }
}

/** The time for which a policy's key counts units. A calendar window that is not used ends, too. */
function neededOf({ policies }: Decision, policy: string, algorithm: unknown): number {
  const limits = Object.entries(policies).filter(([name]) => name === policy || name.startsWith(`${policy}.`))
  const needed = limits.map(([, limit]) => {
    const { used, resetAfterMs } = limit as { readonly used: number; readonly resetAfterMs: number }
    return used === 0 && algorithm === 'calendarWindow' ? 0 : resetAfterMs
  })
  return Math.max(...needed)
}

/** The algorithm of a limiter's policy, which is its only one or one of several by name. */
function algorithmOf({ case: { versions } }: SimulatedLimiter, name: string): unknown {
  const [policies] = versions as readonly { readonly [name: string]: unknown }[]
  const named = policies?.[name] as { readonly algorithm?: unknown } | undefined
  return policies?.['algorithm'] ?? named?.algorithm
}

/** The end of the name of a policy's key. */
function partOf(key: unknown, per: string | undefined): string {
  if (per === 'global') {
    return ''
  }
  return per === undefined ? `{${key as string}}` : `{${(key as Record<string, string>)[per] as string}}`
}

function check(
  lifetimes: readonly (readonly [name: string, ttlMs: number])[],
  begins: string,
  ends: string,
  neededMs: number,
): void {
  const found = lifetimes.find(([name]) => name.startsWith(begins) && name.endsWith(ends))
  if (found === undefined) {
    throw new Error(`the key ${begins}…${ends} is gone, and counts for ${neededMs} ms more`)
  }
  if (found[1] < neededMs) {
    throw new Error(`the key ${found[0]} expires in ${found[1]} ms, and counts for ${neededMs} ms`)
  }
}
