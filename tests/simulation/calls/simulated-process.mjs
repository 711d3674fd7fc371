/** A process with limiters on the simulated servers. */
import { fixedWindow, RateLimiter, RedisStore } from '../../../dist/wasm/index.mjs'
import { ProcessNetwork } from './network.mjs'
import { policiesOf } from './scenario.mjs'

/** More units than a run can take. */
export const PLENTY = 1_000_000

/** The policies of calls that are counted one by one: each call has a key of its own. */
export const COUNTED = {
  call: fixedWindow({ limit: PLENTY, window: '1h', per: 'call' }),
  order: fixedWindow({ limit: PLENTY, window: '1h', per: 'order' }),
}

/** How late a call may settle: flushes wait for up to 10 ms, and timers last whole milliseconds. */
const SLACK_MS = 13

/** The same where the engine is late: the batcher then waits for its reason for up to 40 ms. */
const LATE_SLACK_MS = 54

export class SimulatedProcess {
  network
  limiters
  store
  index
  options
  isKilled = false
  /** Calls, in their order. */
  calls = []
  #world
  #scenario
  #random
  #serial = 0
  #isCalm = false
  isStopped = false
  /** The releases of held permits, by which they end early. */
  #held = new Set()
  /** By key: the time until which a refusal may be cached. */
  #refusedUntil = new Map()
  #oracle

  constructor(world, scenario, index, random, oracle) {
    this.#world = world
    this.#scenario = scenario
    this.#random = random
    this.#oracle = oracle
    this.index = index
    this.options = scenario.processes[index]
    this.network = new ProcessNetwork(world, index)
    const { client, onStoreFailure, knowsHealth, isLate } = this.options
    const { orderedClient, requestClient } = this.network
    this.store = RedisStore.from(client === 'ordered' ? orderedClient : requestClient, {
      commandTimeout: scenario.timeoutMs,
    })
    if (knowsHealth) {
      this.#knowHealth()
    }
    if (isLate) {
      this.#delayDeadlines()
    }
    const { store } = this
    const { leaseMs, refusalsMs, maxKeys } = scenario.law
    const local = leaseMs === undefined && refusalsMs === undefined ? undefined : { maxKeys }
    if (leaseMs !== undefined) {
      local.lease = `${leaseMs}ms`
    }
    if (refusalsMs !== undefined) {
      local.refusals = `${refusalsMs}ms`
    }
    this.limiters = {
      counted: new RateLimiter(COUNTED, { store, prefix: 'counted', onStoreFailure }),
      law: new RateLimiter(policiesOf(scenario.law), { store, prefix: 'law', onStoreFailure, local }),
      permits: new RateLimiter(scenario.permits, { store, prefix: 'permits', onStoreFailure }),
      slots: new RateLimiter(scenario.slots, { store, prefix: 'slots', onStoreFailure }),
    }
  }

  /** Begins to call. */
  start() {
    const { pauseMs, lawPauseMs } = this.options
    this.#repeat(pauseMs, () => this.#callSome())
    this.#repeat(lawPauseMs, () => this.#callLaw())
  }

  /** Calls less often from now on. */
  calm() {
    this.#isCalm = true
  }

  /** Makes no more calls, and gives permits back. */
  stop() {
    this.isStopped = true
    for (const release of this.#held) {
      release()
    }
  }

  kill() {
    this.isKilled = true
    this.network.kill()
    this.stop()
  }

  /** The store knows when the server has been silent for its timeout, as the native store does. */
  #knowHealth() {
    const { network } = this
    const { timeoutMs } = this.#scenario
    this.store.batcher.health = {
      get down() {
        return network.silentMs >= timeoutMs ? 'the server is silent' : undefined
      },
      whenKnown: async () => {},
    }
  }

  /** The transport's deadlines are too late, as those of a native store whose engine has no time. */
  #delayDeadlines() {
    const { native } = this.store.batcher
    const [submit, peek] = [native.submit.bind(native), native.peek.bind(native)]
    native.submit = (number, buffers, timeoutMs) => submit(number, buffers, timeoutMs + 500)
    native.peek = (...words) => peek(...words.slice(0, -1), words.at(-1) + 500)
  }

  #repeat(meanMs, run) {
    const pauseMs = 2 * meanMs * this.#random.next() * (this.#isCalm ? 4 : 1)
    this.#world.time.schedule(pauseMs * 1_000, () => {
      if (!this.isStopped) {
        run()
        this.#repeat(meanMs, run)
      }
    })
  }

  /** Some calls in one tick of the event loop. */
  #callSome() {
    const random = this.#random
    for (let count = random.whole(1, 4); count > 0; count--) {
      const kind = random.whole(0, 10)
      if (kind < 6) {
        this.#callCounted()
      } else if (kind < 9) {
        this.#acquire()
      } else {
        this.#wait()
      }
    }
  }

  /**
   * Records a call.
   *
   * @param {string} kind
   * @param {number} waitMs The time for which the call may wait besides the store's timeout.
   * @param {() => Promise<unknown>} make
   * @param {(result: any) => void} onResult Called in the tick in which the call resolves.
   */
  track(kind, waitMs, make, onResult) {
    const world = this.#world
    const { timeoutMs } = this.#scenario
    const call = {
      kind,
      process: this.index,
      submittedMs: world.time.now(),
      submitted: world.nextEvent(),
      limitMs: timeoutMs + waitMs + (this.options.isLate ? LATE_SLACK_MS : SLACK_MS),
      settledMs: undefined,
      /** The number of the event at which it settled. */
      settled: undefined,
      isHealthy: world.isHealthy && !this.isKilled,
      error: undefined,
      result: undefined,
    }
    this.calls.push(call)
    const settle = () => {
      call.settledMs = world.time.now()
      call.settled = world.nextEvent()
    }
    const made = make()
    made.then(
      (result) => {
        settle()
        call.result = result
        world.trace(`process ${this.index}: ${kind}: ${textOf(result)}`)
        onResult(result, call)
      },
      (error) => {
        settle()
        call.error = error
        world.trace(`process ${this.index}: ${kind}: ${error.code ?? error.stack} ${error.charged}`)
        call.whenFailed?.()
      },
    )
    return call
  }

  /** A call with a key of its own, and what follows it. */
  #callCounted() {
    const random = this.#random
    const { counted } = this.limiters
    const id = `c${this.index}-${++this.#serial}`
    const order = `o${this.index}-${random.whole(0, 3)}`
    const key = { call: id, order }
    const units = random.whole(1, 4)
    const kind = random.choose(['take', 'take', 'takeUpTo', 'reserve', 'takeMany', 'refund'])
    const call = this.track(
      `${kind} ${id} ${order}`,
      0,
      () => {
        switch (kind) {
          case 'takeUpTo':
            return counted.takeUpTo(key, units)
          case 'reserve':
            return counted.reserve(key, units)
          case 'takeMany':
            return counted.takeMany([key], units).then(([decision]) => decision)
          default:
            return counted.take(key, units)
        }
      },
      (result) => this.#afterCounted(kind, id, result, call),
    )
    // The units that the store may have charged for the call: at least and at most.
    Object.assign(call, { id, order, units, charged: [0, 0] })
    return call
  }

  #afterCounted(kind, id, result, call) {
    const { counted } = this.limiters
    const random = this.#random
    const decision = result.decision ?? result
    if (decision.source !== 'store' || !result.allowed) {
      return
    }
    if (kind === 'refund') {
      this.#follow(
        `refund ${id}`,
        call,
        () => counted.refund(result),
        (units) => [-units, -units],
        [-call.units, 0],
      )
    } else if (kind === 'reserve' && random.chance(0.5)) {
      const actual = random.whole(0, 5)
      const change = actual - call.units
      const range = [Math.min(0, change), Math.max(0, change)]
      const changeOf = ({ settled, refunded, charged }) => (settled ? [charged - refunded, charged - refunded] : [0, 0])
      this.#follow(`commit ${id}`, call, () => result.commit(actual), changeOf, range)
    } else if (kind === 'reserve') {
      const units = random.whole(1, 4)
      const changeOf = ({ extended }) => (extended ? [units, units] : [0, 0])
      this.#follow(`extend ${id}`, call, () => result.extend(units), changeOf, [0, units])
    }
  }

  /**
   * Makes a call that changes the units of an earlier one.
   *
   * @param changeOf The change of the charged units, at least and at most, for a result.
   * @param unknown The change if the result is unknown.
   */
  #follow(kind, first, make, changeOf, unknown) {
    const add = ([least, most]) => {
      first.charged[0] += least
      first.charged[1] += most
    }
    first.followed = true
    const call = this.track(kind, 0, make, (result) => add(changeOf(result)))
    first.follower = call
    first.addUnknown = () => add(unknown)
  }

  /** Calls on keys whose law is checked. */
  #callLaw() {
    const random = this.#random
    const { law } = this.limiters
    for (let count = random.whole(1, this.options.burst); count > 0; count--) {
      const key = random.chance(0.8) ? 'hot' : 'warm'
      const units = random.chance(0.9) ? 1 : random.whole(1, 4)
      const { cost, ...moved } = this.#scenario.law.tokens === undefined ? { cost: units, units } : this.#costOf(units)
      this.track(
        `law ${key} ${JSON.stringify(cost)}`,
        0,
        () => law.take(key, cost),
        (decision) => this.#onLaw(key, cost, moved, decision),
      )
    }
  }

  /** A cost under two meters. Some calls cost nothing under one of them. */
  #costOf(most) {
    const random = this.#random
    const [units, tokens] = random.choose([
      [most, random.whole(1, 5)],
      [most, random.whole(1, 5)],
      [0, most],
      [most, 0],
    ])
    return { cost: { cost: { calls: units, tokens } }, units, tokens }
  }

  /** `moved` are the units of the call, by policy. */
  #onLaw(key, cost, moved, decision) {
    const world = this.#world
    const { refusalsMs, leaseMs } = this.#scenario.law
    const { source } = decision
    const now = world.time.now()
    if (this.isKilled) {
      return
    }
    if (decision.allowed) {
      // The store and a share decide by their own clocks; a share's has whole milliseconds. A lease is used
      // now.
      const atMs = source === 'lease' ? world.servers.epochUs / 1_000 : decision.at
      world.uses.push({ key, ...moved, atMs, source, process: this.index, decision })
    } else if (source === 'store') {
      this.#refusedUntil.set(key, now + (refusalsMs ?? 0))
    } else if (source === 'cache') {
      world.cachedCount++
      // After the tick, in which the refused call itself may settle later. With leases a call may be
      // admitted although the store refused it.
      world.time.schedule(0, () => {
        const until = this.#refusedUntil.get(key)
        if (leaseMs === undefined && !(now <= until)) {
          world.violate(`process ${this.index} refused ${key} from its cache at ${now} ms, until ${until}`)
        }
      })
      if (leaseMs === undefined && world.servers.losses === 0 && this.#random.chance(0.3)) {
        this.#oracle.checkRefused(key, cost)
      }
    } else if (source === 'lease') {
      world.violate(`process ${this.index}: a lease refused a call`)
    }
    if (source === 'lease') {
      world.leasedCount++
    }
  }

  /** Acquires a permit, holds it for a while, and releases it. */
  #acquire() {
    const random = this.#random
    const world = this.#world
    const { permits } = this.limiters
    const key = random.choose(['a', 'b'])
    const cost = random.chance(0.8) ? 1 : 2
    const maxWait = random.choose([0, 50, 400])
    const controller = random.chance(0.2) ? new AbortController() : undefined
    if (controller !== undefined) {
      world.time.schedule(random.whole(1, 200_000), () => controller.abort())
    }
    const holdMicros = random.whole(1, 400_000)
    this.track(
      `acquire ${key} ${cost}`,
      maxWait,
      () => permits.acquire(key, { cost, maxWait, signal: controller?.signal }),
      (permit) => {
        if (!permit.allowed) {
          return
        }
        const { source } = permit.decision
        let isHeld = true
        if (this.isKilled) {
          return
        }
        world.hold(key, source, this.index, cost)
        const end = (why) => {
          if (isHeld) {
            isHeld = false
            world.hold(key, source, this.index, -cost)
            world.trace(`process ${this.index}: the permit of ${key} ends: ${why}`)
          }
        }
        permit.signal.addEventListener('abort', () => end('lost'))
        const release = () => {
          this.#held.delete(release)
          if (isHeld) {
            end(this.isKilled ? 'killed' : 'released')
            permit.release().catch(() => {})
          }
        }
        this.#held.add(release)
        world.time.schedule(holdMicros, release)
      },
    )
  }

  /** Waits for a slot. */
  #wait() {
    const random = this.#random
    const world = this.#world
    const maxWait = random.choose([0, 100, 500])
    const controller = random.chance(0.2) ? new AbortController() : undefined
    if (controller !== undefined) {
      world.time.schedule(random.whole(1, 200_000), () => controller.abort())
    }
    this.track(
      'wait',
      maxWait,
      () => this.limiters.slots.wait('s', { maxWait, onTooLong: 'resolve', signal: controller?.signal }),
      (decision) => {
        if (!decision.allowed || decision.source !== 'store' || this.isKilled) {
          return
        }
        const slotMs = decision.at + decision.waitedMs
        world.slots.push(slotMs)
        // The clocks differ by at most 0.05 % of the wait.
        if (world.servers.epochUs / 1_000 < slotMs - 0.3) {
          world.violate(`process ${this.index}: a wait ended before its slot`)
        }
      },
    )
  }
}

function textOf(result) {
  if (typeof result !== 'object') {
    return String(result)
  }
  const { allowed, decision, status, source, remaining, settled, extended } = result
  return JSON.stringify({
    allowed,
    settled,
    extended,
    ...(decision ?? { status, source, remaining }),
    policies: undefined,
  })
}
