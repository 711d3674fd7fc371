/** A limiter that bans, in every framework. */
import { fixedWindow, MemoryStore, RateLimiter } from '../../ts/index.js'
import { FakeClock } from '../clock.js'
import { FRAMEWORKS, type ServedApp } from './frameworks.js'

describe.each(FRAMEWORKS)('$name', (framework) => {
  let app: ServedApp
  const clock = new FakeClock()
  const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '1m' }), {
    store: new MemoryStore({ clock: clock.read }),
    ban: { after: 2, within: '10m', for: ['5m', '1h'] },
  })

  beforeAll(async () => {
    app = await framework.serve({
      options: {
        limiter,
        key: (...args: unknown[]) => framework.header(args, 'x-user') ?? '',
        headers: 'draft-8',
        onError: undefined,
      },
      route: async () => ({ status: 200, body: 'ok' }),
    })
  })

  afterAll(() => app.close())

  async function answer(user: string) {
    const response = await fetch(app.url, { headers: { 'x-user': user } })
    await response.text()
    return [response.status, response.headers.get('Retry-After'), response.headers.get('RateLimit')]
  }

  test('a banned client is told when the ban ends', async () => {
    expect(await answer('eve')).toEqual([200, null, '"default";r=0;t=60'])
    expect(await answer('eve')).toEqual([429, '60', '"default";r=0;t=60'])
    expect(await answer('eve')).toEqual([429, '300', '"default";r=0;t=300'])
    clock.advance(299_000)
    expect(await answer('eve')).toEqual([429, '1', '"default";r=0;t=1'])
    expect((await answer('ann'))[0]).toBe(200)
    clock.advance(1_000)
    expect((await answer('eve'))[0]).toBe(200)
    // The first refusal after an admitted call tells how long to wait, and is no strike.
    expect([(await answer('eve'))[1], (await answer('eve'))[1], (await answer('eve'))[1]]).toEqual(['60', '60', '3600'])
  })
})
