/** The server is healthy, but rejects the login: a password that is wrong or changes. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisServer } from '../../../__tests__/servers/redis-server.js'
import type { Fault } from '../fault.js'
import { type LoadScene, type Scene, underLoad } from '../scene.js'

const USERNAME = 'limiter'

const PASSWORDS = { first: 'secret-of-the-first-day', second: 'secret-of-the-second-day' } as const

const SERVER = { config: [`user ${USERNAME} on ~* &* +@all >${PASSWORDS.first}`] }

/** Codes of calls without a server, and of calls sent just before it went away. */
const AWAY = ['STORE_UNAVAILABLE', 'STORE_TIMEOUT'] as const

/** Gives the user another password, and closes the connections made with the previous one. */
async function rotate(server: RedisServer, password: string): Promise<void> {
  await server.command('ACL', 'SETUSER', USERNAME, 'resetpass', `>${password}`)
  await server.command('CLIENT', 'KILL', 'USER', USERNAME)
}

/** Checks that the store reports why it is down, without its password. */
export async function saysWhy({ load, store, note, expect }: LoadScene, why: RegExp): Promise<void> {
  const { state, reason = '' } = store.status()
  const told = await load.probe()
  note(`it says: ${reason}`)
  expect(state === 'down', `the store is known to be down, not ${state}`)
  expect(why.test(reason), `the reason is told: ${why}`)
  expect(why.test(told), `so it is to callers: ${told}`)
  expect(!/secret/.test(`${reason} ${told}`), 'no secret is told')
}

const wrongPassword: Fault = {
  name: 'wrong-password',
  title: 'the password is wrong from the start, until the server accepts it',
  isLong: true,
  run: (pace) =>
    underLoad(
      pace,
      {
        server: SERVER,
        store: () => ({ username: USERNAME, password: PASSWORDS.second }),
        isDownAtFirst: true,
        promised: { errors: ['STORE_UNAVAILABLE'] },
      },
      async (scene) => {
        await sleep(pace.faultMs)
        await saysWhy(scene, /authentication failed/i)
        scene.expect(scene.load.admitted === 0, 'nothing is decided')
        await scene.server.command('ACL', 'SETUSER', USERNAME, `>${PASSWORDS.second}`)
        scene.healthy()
      },
    ),
}

const rotated: Fault = {
  name: 'password-rotated',
  title: 'the password changes and connections are cut, repeatedly; `credentials` returns the new one',
  isLong: true,
  run: (pace) => {
    let password: string = PASSWORDS.first
    let asked = 0
    const credentials = async () => {
      asked++
      await sleep(10)
      return { username: USERNAME, password }
    }
    const setting = {
      server: SERVER,
      store: () => ({ credentials }),
      promised: { errors: ['STORE_UNAVAILABLE'] as const, mustSee: [] },
    }
    return underLoad(pace, setting, async (scene) => {
      const end = performance.now() + pace.faultMs
      let times = 0
      for (; performance.now() < end; times++) {
        const next = `${PASSWORDS.second}-${times}`
        await rotate(scene.server, next)
        // A vault may return the new password a moment later.
        await sleep(50)
        password = next
        await sleep(450)
      }
      scene.healthy()
      scene.note(`${times} times; credentials asked ${asked} times`)
      scene.expect(asked > times, 'credentials are asked for each connection')
    })
  },
}

const changed: Fault = {
  name: 'password-changed',
  title: 'the password changes and connections are cut, without `credentials`, until the old password is back',
  isLong: true,
  run: (pace) =>
    underLoad(
      pace,
      {
        server: SERVER,
        store: () => ({ username: USERNAME, password: PASSWORDS.first }),
        promised: { errors: AWAY, mustSee: ['STORE_UNAVAILABLE'] },
      },
      async (scene) => {
        await rotate(scene.server, PASSWORDS.second)
        await sleep(pace.faultMs)
        await saysWhy(scene, /authentication failed/i)
        await rotate(scene.server, PASSWORDS.first)
        scene.healthy()
      },
    ),
}

const stays: Fault = {
  name: 'password-stays',
  title: 'the password changes, and connections made with the old one stay open',
  isLong: true,
  run: (pace) =>
    underLoad(
      pace,
      {
        server: SERVER,
        store: () => ({ username: USERNAME, password: PASSWORDS.first }),
        promised: { errors: [] },
      },
      async (scene: Scene) => {
        await scene.server.command('ACL', 'SETUSER', USERNAME, 'resetpass', `>${PASSWORDS.second}`)
        scene.healthy()
        await sleep(pace.faultMs)
      },
    ),
}

export const ACCESS_FAULTS: readonly Fault[] = [wrongPassword, rotated, changed, stays]
