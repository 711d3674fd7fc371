/** The site of the documentation: its links, its search, and its look in a real browser. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { dirname, extname, join } from 'node:path'
import type { AxeResults } from 'axe-core'
import type { Browser, Page } from 'playwright-core'
import { startBrowser } from './browser.js'

const ROOT = dirname(dirname(__dirname))
const SITE = join(ROOT, 'target', 'site')
const LINKINATOR = join(ROOT, 'docs', 'site', 'node_modules', 'linkinator', 'build', 'src', 'cli.js')

/** The size of the texts of a screenshot. */
const PNG_TEXT = 14

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.svg': 'image/svg+xml',
}

const axe = readFileSync(createRequire(__filename).resolve('axe-core/axe.min.js'), 'utf8')

let server: Server
let browser: Browser
let url: string

beforeAll(async () => {
  execFileSync(process.execPath, ['docs/site/build.mjs'], { cwd: ROOT, stdio: 'pipe' })
  server = createServer(({ url: path = '/' }, response) => {
    const { pathname } = new URL(path, 'http://localhost')
    const file = join(SITE, pathname.endsWith('/') ? `${pathname}index.html` : pathname)
    const isFound = existsSync(file) && extname(file) !== ''
    response.writeHead(isFound ? 200 : 404, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' })
    response.end(isFound ? readFileSync(file) : undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  browser = await startBrowser()
}, 900_000)

afterAll(async () => {
  await browser?.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

/** Opens a page of the site. It must log no problem. */
async function withPage(path: string, look: object, use: (page: Page) => Promise<void>): Promise<void> {
  const context = await browser.newContext({ viewport: { width: 1_280, height: 720 }, ...look })
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('pageerror', ({ message }) => complaints.push(message))
  page.on('requestfailed', (request) => {
    // A navigation aborts the prefetching of other pages.
    if (request.failure()?.errorText !== 'net::ERR_ABORTED') {
      complaints.push(`failed: ${request.url()}`)
    }
  })
  page.on('response', (response) => {
    if (response.status() >= 400) {
      complaints.push(`${response.status()} ${response.url()}`)
    }
  })
  await page.goto(url + path, { waitUntil: 'networkidle' })
  await use(page)
  await context.close()
  expect(complaints).toEqual([])
}

function brokenLinks(): string {
  const words = [LINKINATOR, 'target/site', '--recurse', '--skip', '^https?://(?!localhost)', '--verbosity', 'error']
  const { stdout, stderr } = spawnSync(process.execPath, words, { cwd: ROOT, encoding: 'utf8' })
  return stdout + stderr
}

test('every link leads to a page, and a broken one is found', () => {
  const [, count] = /Successfully scanned (\d+) links/.exec(brokenLinks()) ?? []
  expect(Number(count)).toBeGreaterThan(300)
  const broken = join(SITE, 'shutdown.html')
  const text = readFileSync(broken, 'utf8')
  writeFileSync(broken, text.replace('</main>', '<a href="/absent.html">absent</a></main>'))
  try {
    expect(brokenLinks()).toContain('absent.html')
  } finally {
    writeFileSync(broken, text)
  }
})

test('the search finds a page by a word of its text', async () => {
  await withPage('/start.html', {}, async (page) => {
    const search = page.getByRole('searchbox')
    // On a busy machine the page's script may not listen yet.
    for (let isOpen = false; !isOpen; ) {
      await page.keyboard.press('Control+k')
      isOpen = await search.waitFor({ timeout: 1_000 }).then(
        () => true,
        () => false,
      )
    }
    await search.fill('theoretical arrival time')
    await page.getByRole('option').first().click()
    await page.waitForURL(/algorithms\.html/)
  })
})

test('the reference and the playground are in the navigation', async () => {
  await withPage('/', {}, async (page) => {
    await page.getByRole('link', { name: 'API', exact: true }).first().click()
    await page.getByText('tollgate/express').first().waitFor()
    await page.goto(`${url}/`)
    await page.getByRole('link', { name: 'Playground' }).first().click()
    await page.locator('main[aria-busy=false]').waitFor()
    const links = page.getByRole('link', { name: /^More about|^About the algorithms/ })
    const addresses = await links.evaluateAll((all) => all.map((one) => (one as HTMLAnchorElement).href))
    expect(addresses).toHaveLength(1 + (await page.locator('[data-policy]').count()))
    for (const address of addresses) {
      await page.goto(address)
      const { hash } = new URL(address)
      expect(await page.locator(hash === '' ? 'h1' : `h2${hash}`).count()).toBe(1)
    }
  })
})

describe.each([
  ['light', { colorScheme: 'light' }],
  ['dark', { colorScheme: 'dark' }],
  ['phone', { viewport: { width: 360, height: 740 } }],
])('seen: %s', (name, look) => {
  test.each([
    '/',
    '/start.html',
    '/getting-started.html',
    '/choosing.html',
    '/algorithms.html',
    '/middleware.html',
    '/middleware/nest.html',
    '/testing-your-service.html',
  ])(
    '%s fits its viewport, and has no accessibility violation',
    async (path) => {
      await withPage(path, look, async (page) => {
        const file = `site-${name}-${path.replace(/\W/g, '') || 'index'}.png`
        await page.screenshot({ path: join(ROOT, 'target', 'playground', file) })
        expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0)
        await page.evaluate(axe)
        const { violations } = await page.evaluate(() => {
          const { axe } = globalThis as unknown as { axe: { run(options: object): Promise<AxeResults> } }
          // The theme's search button shows its key besides its name.
          return axe.run({ rules: { 'label-content-name-mismatch': { enabled: false } } })
        })
        expect(violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`)).toEqual([])
      })
    },
    240_000,
  )
})

test.each([
  '/start.html',
  '/architecture.html',
  '/algorithms.html',
  '/choosing.html',
  '/local-decisions.html',
  '/performance.html',
  '/performance-figures.html',
])('the plots of %s have legible texts on a phone', async (path) => {
  await withPage(path, { viewport: { width: 360, height: 740 } }, async (page) => {
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0)
    const plots = await page
      .locator('.vp-doc img')
      .evaluateAll((images) =>
        (images as HTMLImageElement[]).map(({ src, width, naturalWidth }) => ({ src, scale: width / naturalWidth })),
      )
    expect(plots.length).toBeGreaterThan(0)
    for (const { src, scale } of plots) {
      const texts = src.endsWith('.png') ? `font-size:${PNG_TEXT}px` : await (await fetch(src)).text()
      const sizes = [...texts.matchAll(/font(?:-size)?:(\d+)px/g)].map(([, size]) => scale * Number(size))
      expect(Math.min(...sizes)).toBeGreaterThanOrEqual(10)
    }
  })
})
