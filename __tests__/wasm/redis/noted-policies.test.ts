/** A store with a client warns of other policies under its prefix, registered by any store. */
import * as native from '../../../ts/index.js'
import { gcra, RateLimiter, type StoreEvents } from '../../../ts/wasm/index.js'
import { until } from '../../servers/until.js'
import { CLIENT_STORES, openedServer } from './stores.js'

const opened = openedServer()

test.each(Object.entries(CLIENT_STORES))('%s', async (name, open) => {
  const prefix = `noted-${name.replaceAll(/\W/g, '')}`
  const clientStore = await open(opened.server.port)
  await using store = new native.RedisStore(opened.server.url)
  const [here, there]: [StoreEvents['warning'][], native.StoreEvents['warning'][]] = [[], []]
  clientStore.store.on('warning', (warning) => here.push(warning))
  store.on('warning', (warning) => warning.code === 'POLICIES_DIFFER' && there.push(warning))
  const one = new native.RateLimiter(native.gcra({ limit: 100, period: '1h' }), { store, prefix })
  const other = new RateLimiter(gcra({ limit: 50, period: '1h' }), { store: clientStore.store, prefix })
  await one.take('key')
  await until(
    'the policies are registered',
    async () => (await opened.server.command('EXISTS', `${prefix}:~policies`)) === 1,
  )
  await other.take('key')
  await until('the warning is there', async () => here.length > 0)
  expect(here).toMatchObject([{ code: 'POLICIES_DIFFER', prefix, sharesStates: true }])
  expect(here[0]).toMatchObject({
    ours: 'default: gcra limit=50 period=1h',
    theirs: 'default: gcra limit=100 period=1h',
  })
  expect(there).toEqual([])
  expect(() => clientStore.store.on('down' as 'warning', () => {})).toThrow(/^event must be warning, got "down"$/)
  expect(() => clientStore.store.on('warning', 7 as never)).toThrow(/^listener must be a function, got 7$/)
  await clientStore.store.close()
  await clientStore.close()
})
