/** Calls with an id, which are repeated, by any process, until the store has answered. */

/** The longest pause before a call is repeated. */
const MAX_PAUSE_MS = 60

/** The share of calls that are repeated once more after their answer. */
const REPEATED_AFTER_ANSWER = 0.5

export class RepeatedCalls {
  #world
  #random
  #processes
  #requests = []

  constructor(world, random, processes) {
    this.#world = world
    this.#random = random
    this.#processes = processes
  }

  /** Begins a request now and then, until the processes have stopped. */
  start(meanMs) {
    this.#world.time.schedule(2 * meanMs * this.#random.next() * 1_000, () => {
      if (this.#running().length > 0) {
        this.#begin()
        this.start(meanMs)
      }
    })
  }

  #running() {
    return this.#processes.filter(({ isStopped, isKilled }) => !isStopped && !isKilled)
  }

  #begin() {
    const random = this.#random
    const id = `r${this.#requests.length}`
    const request = {
      id,
      key: { call: id, order: `ro${random.whole(0, 3)}` },
      units: random.whole(1, 4),
      kind: random.choose(['take', 'take', 'reserve']),
      /** The first answer of the store, and the servers' losses at that time. */
      first: undefined,
      losses: 0,
      /** Whether the reservation may have been settled. */
      isSettled: false,
    }
    this.#requests.push(request)
    this.#call(request)
  }

  /** Makes the call in any process. */
  #call(request) {
    const running = this.#running()
    if (running.length === 0) {
      return
    }
    const process = this.#random.choose(running)
    const { kind, key, units, id } = request
    const { counted } = process.limiters
    const made = () => {
      return kind === 'take' ? counted.take(key, { cost: units, id }) : counted.reserve(key, units, { id, ttl: '1h' })
    }
    const call = process.track(`${kind} with the id ${id}`, 0, made, (result) => {
      if ((result.decision ?? result).source === 'store') {
        this.#onAnswer(request, process, result)
      } else {
        this.#callLater(request)
      }
    })
    call.whenFailed = () => this.#callLater(request)
  }

  #callLater(request) {
    this.#world.time.schedule(this.#random.whole(0, MAX_PAUSE_MS * 1_000), () => this.#call(request))
  }

  #onAnswer(request, process, result) {
    const world = this.#world
    const { losses } = world.servers
    const decision = result.decision ?? result
    if (!decision.allowed) {
      world.violate(`the call with the id ${request.id} was refused`)
    }
    if (request.first === undefined || losses > request.losses) {
      Object.assign(request, { first: result, losses })
      if (this.#random.chance(REPEATED_AFTER_ANSWER)) {
        this.#callLater(request)
      }
      return
    }
    const first = request.first.decision ?? request.first
    if (decision.repeated !== true || decision.at !== first.at || decision.used !== first.used) {
      world.violate(`the call with the id ${request.id} was not repeated, but decided at ${decision.at}`)
    }
    if (request.kind === 'reserve') {
      if (result.id !== request.first.id) {
        world.violate(`the reservation with the id ${request.id} is another one`)
      }
      request.isSettled = true
      process.track(
        `commit of ${request.id}`,
        0,
        () => result.commit(0),
        () => {},
      )
    }
  }

  /** Each call was charged once if the store told it, and at most once otherwise. */
  async check(oracle) {
    const { servers } = this.#world
    for (const { id, key, units, first, losses, isSettled } of this.#requests) {
      const used = await oracle.chargedTo({ id: key.call, order: key.order })
      const isTold = first !== undefined && losses === servers.losses && !isSettled
      if (used > units || (isTold && used < units)) {
        const told = isTold ? 'was told' : 'may have been told'
        this.#world.violate(`the call with the id ${id} ${told} that ${units} units were charged, and ${used} were`)
      }
    }
  }
}
