/** Nest's named limiters, and the scope of a count. */
import { createHash } from 'node:crypto'
import { Controller, type ExecutionContext, Get, Injectable, type Type } from '@nestjs/common'
import { fixedWindow, RateLimiter } from '../../ts/index.js'
import { RateLimit, RateLimitModule } from '../../ts/middleware/nest.js'
import { decorate, limiterOf, withApp } from './nest-apps.js'

const key = () => 'ann'
const invalid = (message: RegExp) =>
  expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringMatching(message) })

/** A controller with a route for each decorator. */
function controllerOf(rules: Readonly<Record<string, ClassDecorator & MethodDecorator>>, name = 'Routes'): Type {
  const Routes = { [name]: class {} }[name] as Type
  Controller()(Routes)
  for (const [route, rule] of Object.entries(rules)) {
    // Named, because the name is that of the handler.
    const handler = { [route]: () => 'ok' }
    Object.defineProperty(Routes.prototype, route, { value: handler[route], writable: true, configurable: true })
    decorate(Routes as Type<Record<string, unknown>>, route, Get(route), rule)
  }
  return Routes
}

const none: ClassDecorator & MethodDecorator = () => {}

/** Runs a test with a function that requests routes, one after the other. */
async function withRoutes(
  options: object,
  controllers: readonly Type[],
  test: (statuses: (...routes: readonly string[]) => Promise<number[]>, url: string) => Promise<unknown>,
): Promise<void> {
  const limits = RateLimitModule.forRoot(options as never)
  await withApp({ imports: [limits], controllers: [...controllers] }, async (url) => {
    const statuses = async (...routes: readonly string[]) => {
      const found: number[] = []
      for (const route of routes) {
        found.push((await fetch(`${url}/${route}`)).status)
      }
      return found
    }
    await test(statuses, url)
  })
}

const started = (options: object, ...controllers: readonly Type[]) => withRoutes(options, controllers, async () => {})

describe('limiters', () => {
  test('a route names its limiter, whose options replace those of the module', async () => {
    const [limiter, login, search] = [limiterOf(10), limiterOf(6), limiterOf(3)]
    const limiters = { login: { limiter: login, statusCode: 420 }, search: { limiter: search, key: () => 'bob' } }
    const routes = controllerOf({
      plain: none,
      login: RateLimit('login'),
      dear: RateLimit('login', { cost: 5, statusCode: 430 }),
      search: RateLimit('search'),
      cheap: RateLimit({ cost: 2 }),
      free: RateLimit(false),
    })
    await withRoutes({ limiter, key, limiters, message: 'no' }, [routes], async (statuses, url) => {
      expect(await statuses('plain', 'cheap', 'free', 'login', 'dear', 'dear', 'login')).toEqual([
        200, 200, 200, 200, 200, 430, 420,
      ])
      expect(await statuses('search', 'search', 'search', 'search')).toEqual([200, 200, 200, 429])
      expect(await (await fetch(`${url}/search`)).json()).toEqual({ statusCode: 429, message: 'no' })
    })
    expect((await limiter.peek('ann')).remaining).toBe(7)
    expect((await login.peek('ann')).remaining).toBe(0)
    expect((await search.peek('bob')).remaining).toBe(0)
  })

  test("a handler's decorator replaces that of its controller", async () => {
    const routes = controllerOf({ one: none, two: RateLimit({ cost: 2 }), three: RateLimit('b') })
    RateLimit('a')(routes)
    const [limiter, a, b] = [limiterOf(), limiterOf(), limiterOf()]
    await withRoutes(
      { limiter, key, limiters: { a: { limiter: a }, b: { limiter: b } } },
      [routes],
      async (statuses) => {
        expect(await statuses('one', 'two', 'three')).toEqual([200, 200, 200])
      },
    )
    const counts = [limiter, a, b].map(async (one) => (await one.peek('ann')).remaining)
    expect(await Promise.all(counts)).toEqual([98, 99, 99])
  })

  test('without a common limiter only decorated routes are limited', async () => {
    const limits = RateLimitModule.forRootAsync({
      useFactory: () => ({ key, limiters: { login: { limiter: limiterOf(1) } } }),
    })
    const routes = controllerOf({ plain: none, login: RateLimit('login'), own: RateLimit({ limiter: limiterOf(1) }) })
    await withApp({ imports: [limits], controllers: [routes] }, async (url) => {
      const of = async (route: string) => {
        const { status, headers } = await fetch(`${url}/${route}`)
        return [status, headers.has('RateLimit')]
      }
      expect([await of('plain'), await of('plain')]).toEqual(Array(2).fill([200, false]))
      expect([await of('login'), await of('login')]).toEqual([
        [200, true],
        [429, true],
      ])
      expect([await of('own'), await of('own')]).toEqual([
        [200, true],
        [429, true],
      ])
    })
  })

  test('an unknown name is an error when the app starts, of a handler, a class or a provider', async () => {
    const limiters = { login: { limiter: limiterOf() }, search: { limiter: limiterOf() } }
    const misspelled = controllerOf({ get: RateLimit('logni') }, 'UsersController')
    const rule = /RateLimit\("logni"\) of UsersController.get .*limiters has "login", "search"; did you mean "login"\?/
    await expect(started({ limiters }, misspelled)).rejects.toThrow(invalid(rule))
    const whole = controllerOf({}, 'Admin')
    RateLimit('constructor')(whole)
    await expect(started({ limiters }, whole)).rejects.toThrow(invalid(/RateLimit\("constructor"\) of Admin names/))
    const without = invalid(/RateLimitModule has no limiters/)
    await expect(started({ limiter: limiterOf() }, misspelled)).rejects.toThrow(without)
    class Resolver {
      users() {}
    }
    Injectable()(Resolver)
    decorate(Resolver, 'users', RateLimit('other'))
    const limits = RateLimitModule.forRoot({ limiters })
    const app = withApp({ imports: [limits], providers: [Resolver] }, async () => {})
    await expect(app).rejects.toThrow(invalid(/RateLimit\("other"\) of Resolver.users names/))
  })

  test.each<[string, object, RegExp]>([
    ['no object', { limiters: [] }, /limiters must be an object of named limiters, got an array: write { login/],
    ['a text', { limiters: 'login' }, /limiters must be an object of named limiters, got "login"/],
    ['none', { limiters: {} }, /limiters must be an object of named limiters/],
    ['a limiter itself', { limiters: { a: limiterOf() } }, /limiters.a must be an object of options with a limiter/],
    ['no limiter', { limiters: { a: { limiter: 5 } } }, /limiters.a: limiter must be a RateLimiter, got 5/],
    ['an invalid option', { limiters: { a: { limiter: limiterOf(), cost: 0 } } }, /limiters.a: cost must be/],
    ['neither', {}, /limiter must be a RateLimiter, got undefined/],
  ])('an invalid option fails when the app is created: %s', async (_name, options, rule) => {
    await expect(started(options)).rejects.toThrow(invalid(rule))
  })

  test('the decorator refuses options of the module and surplus arguments', () => {
    const limiter = limiterOf()
    expect(() => RateLimit({ limiters: {} } as never)).toThrow(invalid(/limiters cannot be given.*of RateLimitModule/))
    expect(() => RateLimit('a', { limiter } as never)).toThrow(invalid(/limiter cannot be given.*limiter "a"/))
    const named = RateLimit as unknown as (...values: unknown[]) => unknown
    expect(() => named('a', {}, 3)).toThrow(invalid(/takes the name of a limiter and an object of options, got 3/))
  })
})

describe('scope', () => {
  test("'handler' counts each handler of each controller separately", async () => {
    const limiter = limiterOf(2)
    const users = controllerOf({ login: none, list: none, shared: RateLimit({ scope: 'limiter' }) }, 'Users')
    const admins = controllerOf({ admin: none }, 'Admins')
    await withRoutes({ limiter, key, scope: 'handler' }, [users, admins], async (statuses) => {
      expect(await statuses('login', 'login', 'login', 'list', 'admin', 'shared')).toEqual([
        200, 200, 429, 200, 200, 200,
      ])
    })
    const keys = ['Users.login:ann', 'Users.list:ann', 'Admins.admin:ann', 'ann']
    const counts = await Promise.all(keys.map(async (one) => (await limiter.peek(one)).remaining))
    expect(counts).toEqual([0, 1, 1, 1])
  })

  test('a decorator and a named limiter set it, also for the default key', async () => {
    const [limiter, login] = [limiterOf(5), limiterOf(5)]
    const routes = controllerOf({ one: RateLimit({ scope: 'handler' }), two: RateLimit('login'), three: none })
    const options = { limiter, limiters: { login: { limiter: login, scope: 'handler' } } }
    await withRoutes(options, [routes], async (statuses) => {
      expect(await statuses('one', 'two', 'three')).toEqual([200, 200, 200])
    })
    const remaining = [
      limiter.peek('Routes.one:127.0.0.1'),
      login.peek('Routes.two:127.0.0.1'),
      limiter.peek('127.0.0.1'),
    ]
    expect((await Promise.all(remaining)).map((one) => one.remaining)).toEqual([4, 4, 4])
  })

  test('a long key counts by the digest of the whole', async () => {
    const limiter = limiterOf(5)
    const long = 'x'.repeat(2_000)
    // Shorter than the longest key, but not with the name of the handler.
    const edge = 'y'.repeat(1_020)
    const digestOf = (text: string) => `long-key:sha256:${createHash('sha256').update(text).digest('hex')}`
    const routes = controllerOf({ get: none })
    let next = long
    await withRoutes({ limiter, key: () => next, scope: 'handler' }, [routes], async (statuses) => {
      expect(await statuses('get')).toEqual([200])
      next = edge
      expect(await statuses('get')).toEqual([200])
    })
    expect((await limiter.peek(digestOf(`Routes.get:${long}`))).remaining).toBe(4)
    expect((await limiter.peek(digestOf(`Routes.get:${edge}`))).remaining).toBe(4)
  })

  test('a replaced key is prefixed, and an invalid one stays a bad request', async () => {
    const limiter = limiterOf(5)
    const answers = [{ key: 'bob' }, { statusCode: 422 }]
    const options = { limiter, key: () => undefined, scope: 'handler', onInvalidInput: () => answers.shift() }
    await withRoutes(options, [controllerOf({ get: none })], async (statuses) => {
      expect(await statuses('get', 'get')).toEqual([200, 422])
    })
    expect((await limiter.peek('Routes.get:bob')).remaining).toBe(4)
  })

  test('keys with parts name the handler in a part instead', async () => {
    const limiter = new RateLimiter(fixedWindow({ limit: 1, window: '1h', per: 'user' }))
    const rule = /scope cannot be 'handler': the limiter's keys have several parts: .*context.getHandler\(\).name/
    const parts = (context: ExecutionContext) => ({ user: `${context.getHandler().name}:ann` })
    await expect(started({ limiter, key: parts, scope: 'handler' })).rejects.toThrow(invalid(rule))
    const routes = controllerOf({ one: none, two: none })
    await withRoutes({ limiter, key: parts }, [routes], async (statuses) => {
      expect(await statuses('one', 'two', 'one')).toEqual([200, 200, 429])
    })
  })

  test.each<[object, RegExp]>([
    [{ scope: 'route' }, /RateLimit: scope must be 'limiter' or 'handler', got "route"/],
    [{ requestOf: 'req' }, /RateLimit: requestOf must be a function, got "req"/],
    [{ responseOf: {} }, /RateLimit: responseOf must be a function, got an object/],
    [{ scopes: 'handler' }, /RateLimit has no option "scopes"; did you mean "scope"\?/],
  ])('%j is an error when the app is created', async (option, rule) => {
    await expect(started({ limiter: limiterOf(), ...option })).rejects.toThrow(invalid(rule))
  })
})
