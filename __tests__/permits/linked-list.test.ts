/** The calls that wait for a permit or a slot: their order, and the work of ending one of many. */
import { concurrency, gcra, MemoryStore, RateLimiter } from '../../ts/index.js'
import { type Linked, LinkedList } from '../../ts/platform/linked-list.js'
import { TestClock } from '../../ts/testing/index.js'
import { Random } from '../random.js'

/** An item that counts the accesses to neighbours, of all items. */
class Counted implements Linked<Counted> {
  static accesses = 0
  readonly #neighbours: Linked<Counted> = {}

  get previous(): Counted | undefined {
    Counted.accesses++
    return this.#neighbours.previous
  }

  set previous(item: Counted | undefined) {
    Counted.accesses++
    this.#neighbours.previous = item
  }

  get next(): Counted | undefined {
    Counted.accesses++
    return this.#neighbours.next
  }

  set next(item: Counted | undefined) {
    Counted.accesses++
    this.#neighbours.next = item
  }
}

function itemsOf<T extends Linked<T>>(list: LinkedList<T>): T[] {
  const items: T[] = []
  for (let item = list.first; item !== undefined; item = item.next) {
    items.push(item)
  }
  return items
}

test('the list has the order of an array, from both ends', () => {
  const random = new Random(1)
  const list = new LinkedList<Counted>()
  const array: Counted[] = []
  for (let step = 0; step < 2_000; step++) {
    if (array.length > 0 && random.next() < 0.4) {
      const [item] = array.splice(random.whole(0, array.length - 1), 1)
      list.remove(item as Counted)
    } else {
      const [index, item] = [random.whole(0, array.length), new Counted()]
      list.insertAfter(array[index - 1], item)
      array.splice(index, 0, item)
    }
    expect([list.size, list.last]).toEqual([array.length, array.at(-1)])
  }
  expect(itemsOf(list)).toEqual(array)
})

test('adding or removing an item touches only its neighbours', () => {
  const list = new LinkedList<Counted>()
  const items = Array.from({ length: 10_000 }, () => new Counted())
  const accessesOf = (run: () => void) => {
    const before = Counted.accesses
    run()
    return Counted.accesses - before
  }
  const adding = items.map((item) => accessesOf(() => list.insertAfter(list.last, item)))
  const removing = items.map((_, index) => {
    // In no order: 7,919 has no factor in common with 10,000.
    const item = items[(index * 7_919) % items.length] as Counted
    return accessesOf(() => list.remove(item))
  })
  expect([Math.max(...adding), Math.max(...removing), list.size]).toEqual([4, 6, 0])
})

/** Counts the calls of the methods of arrays that take time for each element, in arrays with many elements. */
function longSearches(): { readonly count: number; end(): void } {
  let count = 0
  const spies = (['indexOf', 'splice', 'findIndex', 'shift'] as const).map((method) => {
    const original = Array.prototype[method] as (...args: unknown[]) => unknown
    return jest.spyOn(Array.prototype, method).mockImplementation(function (this: unknown[], ...args: unknown[]) {
      count += this.length > 100 ? 1 : 0
      return Reflect.apply(original, this, args) as never
    })
  })
  return {
    get count() {
      return count
    },
    end() {
      for (const spy of spies) {
        spy.mockRestore()
      }
    },
  }
}

test.each([
  ['acquire', concurrency({ limit: 1 })],
  ['wait', gcra({ limit: 1, period: '1s' })],
] as const)('many calls of %s with one signal end without a search for each', async (method, policy) => {
  const clock = new TestClock()
  const limiter = new RateLimiter(policy, { store: new MemoryStore({ clock }) }) as unknown as {
    acquire(key: string, options?: object): Promise<unknown>
    wait(key: string, options?: object): Promise<unknown>
    close(): Promise<void>
  }
  await limiter[method]('a')
  const controller = new AbortController()
  const options = { maxWait: '1h', signal: controller.signal }
  const calls = Array.from({ length: 2_000 }, () => limiter[method]('a', options).catch(({ code }) => code))
  await new Promise(setImmediate)
  const searches = longSearches()
  controller.abort()
  searches.end()
  expect(new Set(await Promise.all(calls))).toEqual(new Set(['ABORTED']))
  expect(searches.count).toBe(0)
  await limiter.close()
})
