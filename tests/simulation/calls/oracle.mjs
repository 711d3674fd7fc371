/** A client of the master without a network: reads the state of keys between two events. */
import { RateLimiter, RedisStore } from '../../../dist/wasm/index.mjs'
import { policiesOf } from './scenario.mjs'
import { COUNTED } from './simulated-process.mjs'

export class Oracle {
  #world
  #counted
  #law
  #permits
  #store

  constructor(world, scenario) {
    this.#world = world
    const run = async (command) => {
      const { servers } = world
      const { reply, error } = servers.execute(servers.master, command)
      if (error !== undefined) {
        throw new Error(error)
      }
      return reply
    }
    this.#store = RedisStore.from(run)
    const open = (policy, prefix) => new RateLimiter(policy, { store: this.#store, prefix })
    this.#counted = open(COUNTED, 'counted')
    this.#law = open(policiesOf(scenario.law), 'law')
    this.#permits = open(scenario.permits, 'permits')
  }

  /** Checks that the server would refuse a call now that was refused without it. */
  checkRefused(key, cost) {
    const world = this.#world
    if (!world.servers.isReady(world.servers.master)) {
      return
    }
    this.#law.peek(key, cost).then(
      ({ allowed }) => {
        if (allowed) {
          world.violate(`${JSON.stringify(cost)} of ${key} were refused from a cache, and the server has them`)
        }
      },
      () => {},
    )
  }

  /** The units that were charged for a call with a key of its own. */
  async chargedTo({ id, order }) {
    const { policies } = await this.#counted.peek({ call: id, order })
    return policies.call.used
  }

  /** The units of permits that are held in the server. */
  async heldUnits(key) {
    return (await this.#permits.peek(key)).used
  }

  close() {
    return this.#store.close()
  }
}
