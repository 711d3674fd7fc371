/** The HTML report in a browser without a network. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import axe from 'axe-core'
import type { Browser, Page } from 'playwright-core'
import { tollgate } from '../cli/command.js'
import { startBrowser } from './browser.js'
import { picturePath } from './site.js'

const ATTACK = '<img src=x onerror="document.title=1">\'"&</script><script>document.title=2</script>'

let folder: string
let file: string
let browser: Browser

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-page-'))
  file = join(folder, 'report.html')
  const at = (minute: number, ip: string) =>
    JSON.stringify({ time: Date.UTC(2026, 0, 31, 10, minute, minute % 60), ip })
  const steady = Array.from({ length: 300 }, (_, count) => at(count % 60, `10.0.0.${count % 7}`))
  const flood = Array.from({ length: 200 }, () => at(30, ATTACK))
  writeFileSync(join(folder, 'access.log'), `${[...steady, ...flood, 'broken <b>line'].join('\n')}\n`)
  const words = ['access.log', '-p', 'gcra limit=20 period=1m', '-p', 'gcra limit=500 period=1s', '--suggest', '1%']
  const result = await tollgate(['simulate', ...words, '--format', 'html', '-o', file], { cwd: folder })
  expect(result).toEqual({ code: 0, signal: null, stdout: '', stderr: '' })
  browser = await startBrowser()
})

afterAll(async () => {
  await browser?.close()
  rmSync(folder, { recursive: true, force: true })
})

interface OpenReport {
  readonly page: Page
  /** The URLs that the page requested, besides its own. */
  readonly requested: string[]
  /** Console messages and errors. */
  readonly messages: string[]
}

async function opened(colorScheme: 'light' | 'dark' = 'light', width = 1_000): Promise<OpenReport> {
  const context = await browser.newContext({ colorScheme, offline: true, viewport: { width, height: 900 } })
  const page = await context.newPage()
  const requested: string[] = []
  const messages: string[] = []
  page.on('request', (request) => requested.push(request.url()))
  page.on('console', (message) => messages.push(message.text()))
  page.on('pageerror', (error) => messages.push(String(error)))
  await page.goto(pathToFileURL(file).href)
  return { page, requested: requested.filter((url) => url !== pathToFileURL(file).href), messages }
}

/** The number of a screenshot's pixels that have a colour. */
async function pixelsOf(screenshot: Buffer, colour: string): Promise<number> {
  const page = await browser.newPage()
  try {
    return await page.evaluate(
      async ([url, name]) => {
        const image = new Image()
        image.src = url
        await image.decode()
        const canvas = document.createElement('canvas')
        canvas.width = image.width
        canvas.height = image.height
        const context = canvas.getContext('2d') as CanvasRenderingContext2D
        context.fillStyle = name
        context.fillRect(0, 0, 1, 1)
        const [red, green, blue] = context.getImageData(0, 0, 1, 1).data
        context.drawImage(image, 0, 0)
        const { data } = context.getImageData(0, 0, image.width, image.height)
        let count = 0
        for (let at = 0; at < data.length; at += 4) {
          count += data[at] === red && data[at + 1] === green && data[at + 2] === blue ? 1 : 0
        }
        return count
      },
      [`data:image/png;base64,${screenshot.toString('base64')}`, colour] as const,
    )
  } finally {
    await page.close()
  }
}

const colourOf = (page: Page, name: string) =>
  page.evaluate((property) => getComputedStyle(document.documentElement).getPropertyValue(property).trim(), name)

test.each(['light', 'dark'] as const)('shows the plots, in %s colours', async (scheme) => {
  const { page, requested, messages } = await opened(scheme)
  const [admitted, refused] = [await colourOf(page, '--admitted'), await colourOf(page, '--refused')]
  const plots = page.locator('[data-plot]')
  // The second policy refuses nothing and has one plot less.
  expect(await plots.evaluateAll((all) => all.map((plot) => plot.getAttribute('data-plot')))).toEqual([
    'requests',
    'refused',
    'requests',
  ])
  const shot = async (index: number) => plots.nth(index).screenshot()
  expect(await pixelsOf(await shot(0), admitted)).toBeGreaterThan(100)
  expect(await pixelsOf(await shot(0), refused)).toBeGreaterThan(100)
  expect(await pixelsOf(await shot(1), refused)).toBeGreaterThan(100)
  expect(await pixelsOf(await shot(1), admitted)).toBe(0)
  expect(await pixelsOf(await shot(2), admitted)).toBeGreaterThan(100)
  expect({ requested, messages }).toEqual({ requested: [], messages: [] })
  await page.context().close()
})

test('has the same content as the text report', async () => {
  const { page } = await opened()
  const text = await page.locator('body').innerText()
  const { stdout } = await tollgate(['simulate', 'access.log', '-p', 'gcra limit=20 period=1m'], { cwd: folder })
  const verdict = /would have refused .*/.exec(stdout)?.[0] as string
  expect(verdict).toMatch(/^would have refused \d+ of 500 requests/)
  expect(text).toContain(verdict)
  expect(text).toContain('1 line of 501 could not be read')
  expect(text).toContain('Suggested')
  await page.context().close()
})

test('opens with a summary, and the plot of the limits against the refused keys', async () => {
  const { page } = await opened()
  const sections = await page.locator('section h2').allTextContents()
  expect(sections[0]).toBe('Summary')
  expect(sections.at(-1)).toBe('In code')
  const summary = page.locator('.summary')
  const items = await summary.locator('li').allTextContents()
  expect(items[0]).toMatch(/^gcra limit=20 period=1m would have refused \d+ of 500 requests/)
  expect(items[1]).toBe('gcra limit=500 period=1s would have refused none of 500 requests')
  expect(items.slice(2)).toEqual([
    expect.stringMatching(/^to refuse at most 1 % of requests by gcra limit=20 period=1m: gcra limit=\d+ /),
    expect.stringMatching(/^to refuse at most 1 % of requests by gcra limit=500 period=1s: gcra limit=\d+ /),
    expect.stringMatching(/^Any limit from \d+ to 199 in every 1 s refuses 1 key, and none of the other 7$/),
    expect.stringMatching(/^Any limit from \d+ to 199 in every 1 min refuses 1 key, and none of the other 7$/),
  ])
  const plot = summary.locator('[data-peaks="60000"]')
  const rows = await plot.locator('tbody tr').evaluateAll((all) =>
    all.map((row) => ({
      limit: row.querySelector('th')?.textContent,
      refused: Number.parseFloat(row.querySelector('i')?.style.width ?? '') / 100,
      isGap: row.classList.contains('gap'),
    })),
  )
  expect(rows.find(({ limit }) => limit === '100')).toEqual({ limit: '100', refused: 1 / 8, isGap: true })
  expect(rows.at(-1)).toEqual({ limit: '200', refused: 0, isGap: false })
  const colour = await colourOf(page, '--refused')
  expect(await pixelsOf(await plot.screenshot(), colour)).toBeGreaterThan(100)
  expect(await page.locator('section').last().innerText()).toContain('new RateLimiter(gcra({ limit: ')
  await page.context().close()
})

test('text from the log is shown as text, whatever it contains', async () => {
  const { page } = await opened()
  expect(await page.title()).toBe('What policies would have refused')
  expect(await page.locator('img').count()).toBe(0)
  expect(await page.locator('.wide td').first().innerText()).toBe(ATTACK)
  expect(readFileSync(file, 'utf8')).not.toContain(ATTACK)
  await page.context().close()
})

test.each([
  ['light', 1_000],
  ['dark', 1_000],
  ['light', 360],
] as const)('has no flaw that axe finds: %s, %i pixels wide', async (scheme, width) => {
  const { page } = await opened(scheme, width)
  await page.screenshot({ path: picturePath(`report-${scheme}-${width}`), fullPage: true })
  await page.evaluate(axe.source)
  const found = await page.evaluate(async () => {
    const run = (globalThis as unknown as { axe: { run(): Promise<{ violations: { id: string }[] }> } }).axe.run()
    return (await run).violations.map(({ id }) => id)
  })
  expect(found).toEqual([])
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  expect(overflow).toBeLessThanOrEqual(0)
  await page.context().close()
})
