/** A store by a client tells of other policies under its prefix, whoever noted them. */
import { setTimeout as sleep } from 'node:timers/promises'
import * as native from '../../../ts/index.js'
import { gcra, type PoliciesWarning, RateLimiter } from '../../../ts/wasm/index.js'
import { until } from '../../servers/until.js'
import { aServer, WAYS } from './stores.js'

const opened = aServer()

test.each(Object.entries(WAYS))('%s', async (name, open) => {
  const prefix = `noted-${name.replaceAll(/\W/g, '')}`
  const way = await open(opened.server.port)
  await using store = new native.RedisStore(opened.server.url)
  const [here, there]: [PoliciesWarning[], native.StoreWarning[]] = [[], []]
  way.store.on('warning', (warning) => here.push(warning))
  store.on('warning', (warning) => there.push(warning))
  const one = new native.RateLimiter(native.gcra({ limit: 100, period: '1h' }), { store, prefix })
  const other = new RateLimiter(gcra({ limit: 50, period: '1h' }), { store: way.store, prefix })
  await Promise.all([one, other].map((limiter) => limiter.take('key')))
  await sleep(1_050)
  await one.take('key')
  await until('it is noted', async () => (await opened.server.command('EXISTS', `${prefix}:~policies`)) === 1)
  await other.take('key')
  await until('the warning is there', async () => here.length > 0)
  expect(here).toMatchObject([{ code: 'POLICIES_DIFFER', prefix, sharesStates: true }])
  expect(here[0]).toMatchObject({
    ours: 'default: gcra burst=50 limit=50 period=1h',
    theirs: 'default: gcra burst=100 limit=100 period=1h',
  })
  expect(there).toEqual([])
  expect(() => way.store.on('down' as 'warning', () => {})).toThrow(/^event must be warning, got "down"$/)
  expect(() => way.store.on('warning', 7 as never)).toThrow(/^listener must be a function, got 7$/)
  await way.store.close()
  await way.close()
})
