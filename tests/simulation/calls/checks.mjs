/** The invariants of a run: see tests/simulation/README.md. */
import { SHARE } from './scenario.mjs'

/** The longest time by which a decision's `resetAfterMs` is rounded up. */
const ROUNDING_MS = 1

/** Every call settles by its deadline; after the recovery each is decided by the store. */
export function checkSettled(world, processes) {
  for (const process of processes) {
    for (const call of process.calls) {
      checkCall(world, process, call)
    }
  }
}

function checkCall(world, process, call) {
  const { kind, submittedMs, settledMs, limitMs, error, result, isHealthy } = call
  const name = `process ${process.index}: ${kind}, at ${submittedMs} ms`
  if (settledMs === undefined) {
    world.violate(`${name}, never settled`)
    return
  }
  const end = world.afterPauses(submittedMs, limitMs)
  if (settledMs > end) {
    world.violate(`${name}, settled at ${settledMs} ms, not by ${end}`)
  }
  const { code } = error ?? {}
  const isFailure = ['STORE_UNAVAILABLE', 'STORE_TIMEOUT', 'STORE_ERROR', 'ABORTED', 'PERMIT_LOST', 'CLOSED'].includes(
    code,
  )
  if (error !== undefined && !isFailure) {
    world.violate(`${name}, failed: ${error.stack}`)
  }
  if (isHealthy && !process.isKilled) {
    const { source } = result?.decision ?? result ?? {}
    // Requests on a key wait for each other, so an answer may come after the life of a short permit.
    const isExpected = code === 'ABORTED' || (code === 'PERMIT_LOST' && process.options.client === 'request')
    if ((error !== undefined && !isExpected) || source === 'fallback' || source === 'none') {
      world.violate(`${name}, was not decided by the store after the recovery: ${code ?? source}`)
    }
  }
}

/** The attempts of each call with a key of its own, by its id. */
function attemptsById(world) {
  const byId = new Map()
  for (const attempt of world.attempts) {
    for (const key of attempt.keys) {
      const [, id] = /^counted:call:.*{(c\d+-\d+)}/.exec(key) ?? []
      if (id !== undefined) {
        const own = byId.get(id) ?? []
        own.push({ ...attempt, ran: attempt.changed?.includes(key) ?? false })
        byId.set(id, own)
      }
    }
  }
  return byId
}

/**
 * The store charges a call once at most: what its outcome says. It decides the call if its answer
 * arrives in time, and otherwise it does not.
 */
export async function checkCounted(world, processes, oracle) {
  const attempts = attemptsById(world)
  for (const process of processes) {
    for (const call of process.calls) {
      if (call.id !== undefined) {
        checkDecider(world, process, call, attempts.get(call.id) ?? [])
        await checkCharge(world, process, call, attempts.get(call.id) ?? [], oracle)
      }
    }
    checkOrder(world, process, attempts)
  }
}

/** The events of a call before what followed it. */
function ownAttempts(call, attempts) {
  return call.followed ? attempts.filter(({ sent }) => sent < call.settled) : attempts
}

function checkDecider(world, process, call, attempts) {
  const own = ownAttempts(call, attempts)
  const name = `process ${process.index}: ${call.kind}, at ${call.submittedMs} ms`
  const { source } = call.result?.decision ?? call.result ?? {}
  // A reply of a server that refuses to write has the error of each call.
  const answer = own.find(({ error, refusal, ran, delivered }) => {
    return error === undefined && (refusal === undefined || ran) && delivered !== undefined
  })
  const wasAnswered = answer !== undefined && answer.delivered < (call.settled ?? Number.POSITIVE_INFINITY)
  if (source === 'store' && !wasAnswered) {
    world.violate(`${name}, has a decision of the store without an answer`)
  }
  if (wasAnswered && source !== 'store') {
    world.violate(`${name}, has ${source ?? call.error?.code}, and the store had answered at ${answer.deliveredMs} ms`)
  }
  const runs = own.filter(({ ran }) => ran).length
  if (runs > 1) {
    world.violate(`${name}, was run ${runs} times`)
  }
}

async function checkCharge(world, process, call, attempts, oracle) {
  const { id, units, result, error, charged, follower } = call
  const name = `process ${process.index}: ${call.kind}, at ${call.submittedMs} ms`
  const { source, allowed } = result?.decision ?? result ?? {}
  let [least, most] = [0, units]
  if (source === 'store') {
    const taken = allowed ? (result.granted ?? units) : 0
    ;[least, most] = [taken, taken]
  } else if (error !== undefined && error.charged === false) {
    most = 0
  }
  if (follower !== undefined && follower.error !== undefined && follower.error.charged !== false) {
    call.addUnknown()
  }
  // Lost keys may be those of the charge or of what followed it.
  const hasLost = world.servers.losses > 0
  least = hasLost ? 0 : Math.max(0, least + charged[0])
  most += hasLost ? Math.max(0, charged[1]) : charged[1]
  if (attempts.some(({ executed }) => executed !== undefined) || least > 0) {
    const used = await oracle.chargedTo(call)
    if (used < least || used > most) {
      world.violate(`${name}: the store charged ${used} units, not ${least} to ${most}: ${id}`)
    }
  }
}

/**
 * Calls on a key take effect in call order, unless a call was in flight when the refusal of an earlier
 * one arrived, or the earlier one had failed when it was run.
 */
function checkOrder(world, process, attempts) {
  const byOrder = new Map()
  for (const call of process.calls) {
    if (call.order !== undefined) {
      const own = (attempts.get(call.id) ?? []).sort((one, other) => one.executed - other.executed)
      const run = own.find(({ ran }) => ran)
      if (run !== undefined) {
        const list = byOrder.get(call.order) ?? []
        list.push({
          call,
          run,
          refusals: own.filter(({ error, executed }) => error !== undefined && executed < run.executed),
        })
        byOrder.set(call.order, list)
      }
    }
  }
  for (const list of byOrder.values()) {
    for (const [index, later] of list.entries()) {
      for (const earlier of list.slice(0, index)) {
        const isOvertaken = earlier.refusals.some(({ delivered }) => later.run.sent < (delivered ?? 0))
        const hadFailed = earlier.run.executed > earlier.call.settled
        const keepsOrder = process.options.client === 'ordered'
        if (earlier.run.executed > later.run.executed && !hadFailed && !(isOvertaken && keepsOrder)) {
          world.violate(`process ${process.index}: ${later.call.kind} took effect before ${earlier.call.kind}`)
        }
      }
    }
  }
}

/** The units used in any span are at most those of the law: of the store, and of each share. */
export function checkLaw(world, { law }, processes) {
  const { tokens } = law
  checkLawOf(world, tokens === undefined ? 'default' : 'calls', law, processes, world.uses)
  if (tokens !== undefined) {
    const uses = world.uses.map((use) => ({ ...use, units: use.tokens }))
    checkLawOf(world, 'tokens', tokens, processes, uses)
  }
}

function checkLawOf(world, policy, law, processes, allUses) {
  const factor = 1 + world.servers.losses
  for (const key of ['hot', 'warm']) {
    const uses = allUses.filter((use) => use.key === key)
    const ofStore = uses.filter(({ source }) => source === 'store' || source === 'lease')
    checkSpans(world, `${policy}: the store's ${key}`, law, 1, factor, ofStore)
    if (law.policy.algorithm === 'fixedWindow' && world.servers.losses === 0) {
      checkWindows(world, key, policy, law, ofStore)
    }
    if (!world.hasSteppedClock) {
      for (const { index } of processes) {
        const own = uses.filter(({ source, process }) => source === 'fallback' && process === index)
        checkSpans(world, `${policy}: the share of process ${index} of ${key}`, law, SHARE, 1, own)
      }
    }
  }
}

/** A bucket of the law admits all units. */
function checkSpans(world, name, { burst, perMs, limit, window }, share, factor, uses) {
  const sorted = [...uses].sort((one, other) => one.atMs - other.atMs)
  if (window === undefined) {
    let [level, last] = [0, 0]
    for (const { atMs, units } of sorted) {
      level = Math.max(0, level - (atMs - last) * perMs * share) + units
      last = atMs
      if (level > burst * share * factor + 0.01) {
        world.violate(`${name}: ${level} units at ${atMs} ms, not ${burst * share * factor}`)
        return
      }
    }
    return
  }
  // A window that a call opens admits its limit, and less than twice that in any span of its length.
  let [sum, first] = [0, 0]
  for (const { atMs, units } of sorted) {
    sum += units
    while (sorted[first].atMs <= atMs - window + ROUNDING_MS) {
      sum -= sorted[first++].units
    }
    if (sum > 2 * Math.floor(limit * share) * factor) {
      world.violate(`${name}: ${sum} units in a window up to ${atMs} ms, not ${limit * share * factor}`)
      return
    }
  }
}

/** Each window of the server admits at most its limit. */
function checkWindows(world, key, policy, { limit, window }, uses) {
  const ends = uses
    .filter(({ source, units }) => source === 'store' && units > 0)
    .map(({ decision }) => decision.at + decision.policies[policy].resetAfterMs)
    .sort((one, other) => one - other)
  const separate = ends.filter((end, index) => index === 0 || end - ends[index - 1] > 2 * ROUNDING_MS)
  for (const end of separate) {
    const inside = uses.filter(({ atMs }) => atMs >= end - window && atMs < end - ROUNDING_MS)
    const units = inside.reduce((sum, use) => sum + use.units, 0)
    if (units > limit) {
      world.violate(`${policy}: ${units} units of ${key} in the window that ends at ${end} ms, not ${limit}`)
    }
  }
}

/** Slots of waits are as far apart as the rate says. */
export function checkSlots(world, { slots: { limit, burst } }) {
  const law = { burst, perMs: limit / 1_000 }
  const uses = world.slots.map((atMs) => ({ atMs, units: 1 }))
  checkSpans(world, 'slots', law, 1, 1 + world.servers.losses, uses)
}
