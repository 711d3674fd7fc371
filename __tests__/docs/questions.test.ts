/** The ways of docs/questions.md from the README to an answer have at most two links, and these links exist. */
import { posix } from 'node:path'
import { type Page, pageOf, pages } from './pages.js'

const byPath = new Map(pages.map((page) => [page.path, page]))

/** The places that a page links, as paths from the root. Links of a page to itself are in its outline. */
function linked(page: Page | undefined): string[] {
  const { path = '', links = [], anchors = [] } = page ?? {}
  const targets = links.map(({ target }) => {
    const [file = '', anchor] = target.split('#')
    return posix.join(posix.dirname(path), file || posix.basename(path)) + (anchor === undefined ? '' : `#${anchor}`)
  })
  return [...targets, ...[...anchors].map((anchor) => `${path}#${anchor}`)]
}

/** The links of a way that do not exist. */
function missing(way: readonly string[]): string[] {
  const files = way.map((place) => place.split('#')[0] ?? '')
  return way.filter((place, index) => {
    const from = byPath.get(index === 0 ? 'README.md' : (files[index - 1] ?? ''))
    const anchor = place.split('#')[1]
    const exists = anchor === undefined || byPath.get(files[index] ?? '')?.anchors.has(anchor)
    const targets = linked(from)
    return !exists || !(index === 0 ? targets.map((target) => target.split('#')[0]) : targets).includes(place)
  })
}

const rows = (byPath.get('docs/questions.md')?.text ?? '')
  .split('\n')
  .filter((line) => line.startsWith('| ') && !line.startsWith('| question'))
  .map((line) => line.split(' | '))

test('each question has a thread, and a way of at most two links', () => {
  expect(rows.length).toBeGreaterThanOrEqual(10)
  expect(rows.length).toBeLessThanOrEqual(12)
  const bad = rows.filter(([, thread = '', way = '']) => {
    const threads = thread.match(/\(https:\/\/github\.com\/[\w-]+\/[\w-]+\/issues\/\d+\)/g)
    return threads?.length !== 1 || ![1, 2].includes(way.split('](').length - 1)
  })
  expect(bad).toEqual([])
})

test('each link of a way is on the page before it, and its heading exists', () => {
  const ways = rows.map(([, , way = '']) => linked(pageOf('docs/questions.md', way)))
  expect(ways.flatMap(missing)).toEqual([])
})

test('a link that does not exist is found', () => {
  expect(missing(['docs/absent.md'])).toEqual(['docs/absent.md'])
  expect(missing(['docs/redis.md', 'docs/redis.md#absent'])).toEqual(['docs/redis.md#absent'])
  expect(missing(['docs/redis.md', 'docs/choosing.md#which-limit'])).toEqual(['docs/choosing.md#which-limit'])
})
