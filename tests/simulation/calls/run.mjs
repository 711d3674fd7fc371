/** One run: plays the scenario of a seed in virtual time, and checks what came of it. */
import limiter from '../../../dist/limiter.js'
import wasm from '../../../dist/wasm/engine.js'
import { fixedWindow, RateLimiter, RedisStore } from '../../../dist/wasm/index.mjs'
import { checkCounted, checkLaw, checkSettled, checkSlots } from './checks.mjs'
import { Oracle } from './oracle.mjs'
import { Random } from './random.mjs'
import { RepeatedCalls } from './repeated-calls.mjs'
import { scenarioOf } from './scenario.mjs'
import { SimulatedProcess } from './simulated-process.mjs'
import { World } from './world.mjs'

const { BoundedMap } = limiter['backends/local/bounded-map']
const { engine } = wasm['wasm/engine/engine']

/** The time without faults in which the connections recover, and that in which all calls are decided. */
const [RECOVERY_MS, HEALTHY_MS] = [1_000, 400]

/** The time after the last fault began in which faults end by themselves. */
const LAST_FAULT_MS = 800

/** The time after the last call in which all settle, leases end and permits expire. */
const REST_MS = 5_000

/** The mean time between calls with an id. */
const REPEATED_PAUSE_MS = 40

/** After a server lost keys, permits of then may be held for their life and this time. */
const PERMIT_MARGIN_MS = 1_000

/** The random numbers that the package draws. */
let drawn = new Random(0)

Math.random = () => drawn.next()
Object.defineProperty(crypto, 'getRandomValues', {
  value: (array) => {
    for (let index = 0; index < array.length; index++) {
      array[index] = drawn.whole(0, 2 ** 32)
    }
    return array
  },
})

let world
Date.now = () => world.dateNow()

const { set } = BoundedMap.prototype
BoundedMap.prototype.set = function setAndMeasure(id, entry) {
  set.call(this, id, entry)
  world.mostCached = Math.max(world.mostCached, this.size)
}

/**
 * Plays the scenario of a seed. The same seed gives the same run.
 *
 * @returns {Promise<{ calls: number, leased: number, cached: number, digest: string, violations: readonly string[] }>}
 */
export async function run(seed, prints = false) {
  return runScenario(scenarioOf(seed), seed, prints)
}

/** Plays a scenario. The seed decides the rest, such as the calls and the delays. */
export async function runScenario(scenario, seed, prints = false) {
  const random = new Random(~seed)
  world = beginWorld(scenario, random, prints)
  await drawSecrets()
  drawn = random.fork()
  const { time, servers } = world
  const oracle = new Oracle(world, scenario)
  const processes = scenario.processes.map((_, index) => {
    return new SimulatedProcess(world, scenario, index, random.fork(), oracle)
  })
  for (const process of processes) {
    process.start()
  }
  const repeatedCalls = new RepeatedCalls(world, random.fork(), processes)
  repeatedCalls.start(REPEATED_PAUSE_MS)
  for (const fault of scenario.faults) {
    time.schedule(fault.atMs * 1_000, () => world.inject(fault, processes))
  }
  const replicate = () => {
    servers.replicate()
    time.schedule(scenario.replicationMs * 1_000, replicate)
  }
  if (scenario.faults.some(({ kind }) => kind === 'failover')) {
    replicate()
  }
  const advance = (millis) => time.advanceTo(time.micros + millis * 1_000)
  await advance(scenario.faultyMs + LAST_FAULT_MS)
  world.heal()
  for (const process of processes) {
    process.network.followMaster()
    process.calm()
  }
  world.trace('healed')
  await advance(RECOVERY_MS)
  world.isHealthy = true
  await advance(HEALTHY_MS)
  for (const process of processes) {
    process.stop()
  }
  await advance(REST_MS)
  checkRest(world, scenario, processes)
  await checkClosed(world, processes, advance)
  checkSettled(world, processes)
  await checkCounted(world, processes, oracle)
  await repeatedCalls.check(oracle)
  checkLaw(world, scenario, processes)
  checkSlots(world, scenario)
  await checkPermitsEnd(world, oracle)
  const calls = processes.reduce((sum, process) => sum + process.calls.length, 0)
  const { violations, digest, leasedCount, cachedCount } = world
  return { calls, leased: leasedCount, cached: cachedCount, digest, violations }
}

function beginWorld(scenario, random, prints) {
  const begun = new World(scenario, random, prints)
  begun.time.replaceTimers()
  // That of the package would go on from the time of an earlier run.
  engine.elapsedMs = begun.time.now
  const { permits, faults } = scenario
  const held = new Map()
  return Object.assign(begun, {
    uses: [],
    slots: [],
    isHealthy: false,
    leasedCount: 0,
    cachedCount: 0,
    mostCached: 0,
    hasSteppedClock: faults.some(({ kind }) => kind === 'stepClock'),
    /** Changes the units that a holder has, and checks that all together are within the limit. */
    hold(key, source, process, change) {
      const name = source === 'store' ? key : `${source} of process ${process}: ${key}`
      const units = (held.get(name) ?? 0) + change
      held.set(name, units)
      const sinceLossMs = (begun.time.micros - begun.servers.lostAt) / 1_000
      const isKnown = source !== 'store' || sinceLossMs > permits.ttl + PERMIT_MARGIN_MS
      if (source !== 'none' && isKnown && change > 0 && units > permits.limit) {
        begun.violate(`${units} units of permits of ${name} are held, not ${permits.limit}`)
      }
    },
  })
}

let hasDrawn = false

/** Lets the engines draw the secrets of their hash functions, which they keep: the same for each seed. */
async function drawSecrets() {
  if (!hasDrawn) {
    hasDrawn = true
    const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '1s' }), {
      store: RedisStore.from(() => Promise.reject(new Error('nothing answers'))),
      prefix: 'first',
      onStoreFailure: { embedded: { share: 1 } },
    })
    await world.time.advanceTo(0)
    const answer = limiter.take('k')
    await world.time.advanceTo(0)
    await answer
  }
}

/** Nothing is pending when all calls have settled, and no table is too large. */
function checkRest(world, { law }, processes) {
  if (world.mostCached > law.maxKeys) {
    world.violate(`${world.mostCached} refusals were cached, not ${law.maxKeys}`)
  }
  for (const { index, store, isKilled } of processes) {
    const { pending, leases } = store
    if (pending > 0) {
      world.violate(`process ${index}: ${pending} calls are pending after the end`)
    }
    for (const { held } of leases) {
      if (held.units > 0 && !isKilled) {
        world.violate(`process ${index}: ${held.units} leased units are held after the end`)
      }
    }
  }
}

async function checkClosed(world, processes, advance) {
  let open = 0
  for (const { limiters } of processes) {
    for (const limiter of Object.values(limiters)) {
      open++
      limiter.close().then(
        () => open--,
        (error) => world.violate(`a limiter could not be closed: ${error.stack}`),
      )
    }
  }
  await advance(REST_MS)
  if (open > 0) {
    world.violate(`${open} limiters did not close`)
  }
  const { timerCount } = world.time
  if (timerCount > 0) {
    world.violate(`${timerCount} timers are set after the end`)
  }
}

/** All permits were released, or have expired. */
async function checkPermitsEnd(world, oracle) {
  for (const key of ['a', 'b']) {
    const units = await oracle.heldUnits(key)
    if (units > 0) {
      world.violate(`${units} units of permits of ${key} are held after the end`)
    }
  }
}
