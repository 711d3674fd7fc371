/** Redis, or the way to it, fails for a while. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Cutter } from '../harness/cutter.mjs'
import { scene, underLoad } from '../harness/scene.mjs'
import { RedisServer, TcpProxy, until } from '../harness/servers.mjs'

/** Longer than a call may take. */
const OUTAGE_MS = 6_000

/** With these, Redis loses no write that it has acknowledged. */
const KEEPS_ALL = ['appendonly yes', 'appendfsync always']

/** @type {import('./all.mjs').Scenario} */
export const killed = {
  name: 'killed',
  title: 'Redis is killed',
  run: (contender) =>
    scene(contender, { config: KEEPS_ALL }, (here) =>
      underLoad(here, async () => {
        await here.server.kill()
        await sleep(OUTAGE_MS)
        await here.server.begin()
      }),
    ),
}

/** @type {import('./all.mjs').Scenario} */
export const frozen = {
  name: 'frozen',
  title: 'Redis freezes',
  run: (contender) =>
    scene(contender, {}, (here) =>
      underLoad(here, async () => {
        here.server.freeze()
        await sleep(OUTAGE_MS)
        here.server.thaw()
      }),
    ),
}

/** @type {import('./all.mjs').Scenario} */
export const restarted = {
  name: 'restarted',
  title: 'Redis restarts empty',
  run: (contender) =>
    scene(contender, {}, (here) =>
      underLoad(here, async () => {
        await here.server.kill('SIGTERM')
        await here.server.begin()
      }),
    ),
}

/** @type {import('./all.mjs').Scenario} */
export const failingOver = {
  name: 'failing-over',
  title: 'a replica takes over',
  run(contender) {
    return scene(contender, { between: { open: TcpProxy.start, isBehind: true } }, async (here) => {
      const { server, network } = here
      const replica = await RedisServer.start({
        config: [`replicaof 127.0.0.1 ${server.port}`, 'repl-diskless-sync-delay 0'],
      })
      try {
        await until('the replica follows', async () => (await replica.info('master_link_status')) === 'up')
        return await underLoad(here, async () => {
          await network.refuse()
          await server.kill()
          network.cut()
          await sleep(1_000)
          await replica.command('REPLICAOF', 'NO', 'ONE')
          network.lead(replica)
          await network.accept()
        })
      } finally {
        // It is used until the processes have ended.
        here.after(() => replica.stop())
      }
    })
  },
}

/** @type {import('./all.mjs').Scenario} */
export const cutInReply = {
  name: 'cut-in-reply',
  title: 'connections are cut in the middle of a reply',
  run(contender) {
    return scene(contender, { between: { open: Cutter.start } }, (here) =>
      underLoad(
        here,
        async () => {
          for (let cuts = 0; cuts < 10; cuts++) {
            await here.network.cutNextReply()
            await sleep(300)
          }
        },
        { open: 80 },
      ),
    )
  },
}
