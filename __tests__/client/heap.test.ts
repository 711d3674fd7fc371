/** The order of waiting calls: a heap from which any item can be removed. */
import fc from 'fast-check'
import { Heap } from '../../ts/client/heap.js'
import { cases } from '../cases.js'

interface Item {
  readonly rank: number
  place: number
}

const add = fc.record({ kind: fc.constant('add' as const), rank: fc.double({ noNaN: true }) })
const take = fc.record({ kind: fc.constant('take' as const) })
const remove = fc.record({ kind: fc.constant('remove' as const), at: fc.nat() })

describe('heap', () => {
  test('the first item comes first, whatever was added, taken and removed', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(add, add, take, remove), { maxLength: 200 }), (operations) => {
        const ranks = new Set<number>()
        const heap = new Heap<'place', Item>('place', (one, other) => one.rank < other.rank)
        const sorted: Item[] = []
        for (const operation of operations) {
          if (operation.kind === 'add' && !ranks.has(operation.rank)) {
            ranks.add(operation.rank)
            const item = { rank: operation.rank, place: -1 }
            heap.add(item)
            sorted.push(item)
            sorted.sort((one, other) => one.rank - other.rank)
          } else if (operation.kind === 'take') {
            expect(heap.take()).toBe(sorted.shift())
          } else if (operation.kind === 'remove' && sorted.length > 0) {
            heap.remove(sorted.splice(operation.at % sorted.length, 1)[0] as Item)
          }
          expect(heap.peek()).toBe(sorted[0])
          expect(heap.size).toBe(sorted.length)
        }
      }),
      cases(300),
    )
  })

  test('no operation on 100,000 items compares more than some forty', () => {
    let compared = 0
    const isBefore = (one: Item, other: Item) => {
      compared++
      return one.rank < other.rank
    }
    const heap = new Heap<'place', Item>('place', isBefore)
    // Ranks in a scattered order, each once: 100,003 is a prime.
    const items = Array.from({ length: 100_000 }, (_, index) => ({ rank: (index * 7_919) % 100_003, place: -1 }))
    let most = 0
    const count = (run: () => void) => {
      compared = 0
      run()
      most = Math.max(most, compared)
    }
    for (const item of items) {
      count(() => heap.add(item))
    }
    for (const item of items) {
      count(() => heap.remove(item))
    }
    expect(heap.size).toBe(0)
    // A path has 17 steps, with two comparisons each on the way down.
    expect(most).toBeLessThanOrEqual(40)
  })
})
