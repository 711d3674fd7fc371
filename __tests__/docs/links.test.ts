/** Every link of a page to a file or a heading has a target. */
import { existsSync } from 'node:fs'
import { join, posix } from 'node:path'
import { type Link, pageOf, pages, placeOf, ROOT } from './pages.js'

const anchorsOf = new Map(pages.map(({ path, anchors }) => [path, anchors]))

/** Why a link is broken, if it is. Links to other sites are not followed. */
function deadBecause({ page, target }: Link): string | undefined {
  if (/^[a-z]+:/.test(target)) {
    return target.startsWith('https://') ? undefined : 'not https'
  }
  const [file = '', anchor] = decodeURI(target).split('#')
  const path = file === '' ? page : posix.normalize(posix.join(posix.dirname(page), file))
  if (path.startsWith('..') || !existsSync(join(ROOT, path))) {
    return `no such file: ${path}`
  }
  return anchor === undefined || anchorsOf.get(path)?.has(anchor) ? undefined : `no such heading: #${anchor}`
}

function dead(links: readonly Link[]): string[] {
  return links.flatMap((link) => {
    const reason = deadBecause(link)
    return reason === undefined ? [] : [`${placeOf(link)} ${link.target}: ${reason}`]
  })
}

test('every link has a target', () => {
  expect(dead(pages.flatMap((page) => page.links))).toEqual([])
})

test('broken links are found', () => {
  const text =
    '# A `b`, c\n\n[1](#what-it-costs) [2](#d) [3](absent.md)\n![4](plots/gcra.svg) [5](algorithms.md#absent) [6](http://x.org)\n'
  expect(dead(pageOf('docs/metrics.md', text).links.filter(({ target }) => target !== '#what-it-costs'))).toEqual([
    'docs/metrics.md:3 #d: no such heading: #d',
    'docs/metrics.md:3 absent.md: no such file: docs/absent.md',
    'docs/metrics.md:3 algorithms.md#absent: no such heading: #absent',
    'docs/metrics.md:3 http://x.org: not https',
  ])
  expect([...pageOf('docs/metrics.md', text).anchors]).toEqual(['a-b-c'])
})

test('every page of docs/ has a link from another page, and can be reached from the README', () => {
  const seen = new Set(['README.md'])
  for (const path of seen) {
    const links = pages.find((page) => page.path === path)?.links ?? []
    for (const { target } of links.filter(({ target }) => !/^[a-z]+:/.test(target))) {
      const file = target.split('#')[0] ?? ''
      const linked = file === '' ? path : posix.normalize(posix.join(posix.dirname(path), file))
      if (anchorsOf.has(linked)) {
        seen.add(linked)
      }
    }
  }
  const docs = pages.map(({ path }) => path).filter((path) => path.startsWith('docs/'))
  expect(docs.filter((path) => !seen.has(path))).toEqual([])
})
