/** The playground in a real browser: its numbers equal the engine's, and it is accessible. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { AxeResults } from 'axe-core'
import type { Page } from 'playwright-core'
import { ALGORITHM_NAMES } from '../../examples/playground/model/algorithms.js'
import { hashOf, policyOf, trafficOf } from '../../examples/playground/model/state.js'
import { SHAPE_NAMES, SHAPES } from '../../examples/playground/model/traffic.js'
import { fixedWindow, gcra } from '../../ts/index.js'
import { callsOf, nativeCounts, nativePolicy } from '../playground/addon.js'
import { type OpenPage, picturePath, Site, settled, shownCounts, type Visit } from './site.js'

const axe = readFileSync(createRequire(__filename).resolve('axe-core/axe.min.js'), 'utf8')

let site: Site
let opened: OpenPage[] = []

beforeAll(async () => {
  site = await Site.start()
})

afterEach(async () => {
  const complaints = opened.flatMap((one) => one.complaints)
  await Promise.all(opened.map(({ page }) => page.context().close()))
  opened = []
  expect(complaints).toEqual([])
})

afterAll(() => site.stop())

/** Opens the page. At the end of the test the page must have logged no problem. */
async function open(visit?: Visit): Promise<Page> {
  const one = await site.open(visit)
  opened.push(one)
  return one.page
}

test('the engine of the playground is built without its Redis code', () => {
  const built = createRequire(__filename)
  const hasModule = (name: string) => {
    const { deflated } = built(`../../generated/wasm/${name}.js`) as { deflated: string }
    return worker.includes(deflated.slice(50_000, 51_000))
  }
  const worker = readFileSync(join(site.folder, 'worker.js'), 'latin1')
  expect([hasModule('inlined'), hasModule('redis-inlined')]).toEqual([true, false])
})

describe('the numbers', () => {
  test("change to the engine's when a policy is changed", async () => {
    const times = [0, 0.1, 0.2, 0.3, 0.4, 1.05, 1.1, 1.15, 3, 3.001, 3.002, 3.5]
    const calls = times.map((seconds) => ({ atMs: Date.UTC(2026, 0, 5) + seconds * 1_000 }))
    const page = await open({ hash: `traffic=pasted+times=${times.join('%0A')}&policy=fixedWindow+limit=3+window=1s` })
    expect(await shownCounts(page)).toEqual(nativeCounts(fixedWindow({ limit: 3, window: '1s' }), calls))

    await page.getByLabel('Algorithm of policy 1').selectOption('gcra')
    await page.getByLabel('Limit', { exact: true }).fill('2')
    await page.getByRole('textbox', { name: 'Period' }).fill('1s')
    await settled(page)
    const expected = nativeCounts(gcra({ limit: 2, period: '1s' }), calls)
    expect(expected.refused).toBeGreaterThan(0)
    expect(await shownCounts(page)).toEqual(expected)

    await page.getByLabel('Burst', { exact: true }).fill('1')
    await settled(page)
    const changed = nativeCounts(gcra({ limit: 2, period: '1s', burst: 1 }), calls)
    expect(changed).not.toEqual(expected)
    expect(await shownCounts(page)).toEqual(changed)
  })

  test.each(SHAPE_NAMES)("equal the engine's for every algorithm: %s", async (shape) => {
    const page = await open()
    const calls = callsOf(SHAPES[shape].make(trafficOf(shape).values))
    for (const algorithm of ALGORITHM_NAMES) {
      const state = { traffic: trafficOf(shape), policies: [policyOf(algorithm)] }
      await page.evaluate((hash) => location.replace(`#${hash}`), hashOf(state))
      await settled(page)
      const shown = { algorithm, ...(await shownCounts(page)) }
      expect(shown).toEqual({ algorithm, ...nativeCounts(nativePolicy(algorithm), calls) })
    }
  })

  test('belong to the newest request, even if an older one takes long', async () => {
    const page = await open({ hash: 'traffic=steady+rate=1500+length=60s&policy=slidingLog+limit=90000&policy=gcra' })
    const rate = page.getByRole('textbox', { name: 'Calls per second' })
    await rate.fill('1600')
    await page.locator('main[aria-busy=true]').waitFor()
    await page.waitForTimeout(100)
    await rate.fill('10')
    await settled(page)
    const traffic = SHAPES.steady.make(trafficOf('steady', { rate: '10' }).values)
    expect(await shownCounts(page, 1)).toEqual(nativeCounts(gcra({ limit: 20, period: '10s' }), callsOf(traffic)))
  })

  test('are announced to screen readers', async () => {
    const page = await open()
    const status = page.locator('[role=status][aria-live=polite]')
    await expect(status.filter({ hasText: 'fixedWindow: 60 admitted, 61 refused.' }).waitFor()).resolves.toBeUndefined()
  })
})

describe('the page', () => {
  test('keeps its state in its address, which can be followed and shared', async () => {
    const page = await open()
    await page.getByLabel('Steady').check()
    await page.getByRole('button', { name: 'Remove policy 2: slidingWindow' }).click()
    await page.getByLabel('Algorithm of policy 2').selectOption('tokenBucket')
    await page.locator('#policy-1-debt').fill('3')
    await page.waitForFunction(() => location.hash.includes('debt=3'))
    await settled(page)
    const other = await open({ hash: new URL(page.url()).hash.slice(1) })
    expect(await other.locator('#policy-1-debt').inputValue()).toBe('3')
    expect(await other.getByLabel('Steady').isChecked()).toBe(true)
    expect(await shownCounts(other, 1)).toEqual(await shownCounts(page, 1))

    await page.getByRole('link', { name: 'One greedy client' }).click()
    await settled(page)
    expect(await page.getByLabel('Several clients').isChecked()).toBe(true)
  })

  test("shows the engine's error messages at the field in question", async () => {
    const page = await open()
    const limit = page.locator('#policy-0-limit')
    await limit.fill('0')
    await settled(page)
    expect(await limit.getAttribute('aria-invalid')).toBe('true')
    const id = await limit.getAttribute('aria-describedby')
    expect(await page.locator(`[id="${id}"]`).textContent()).toBe(
      'Limit must be a whole number from 1 to 2^53 - 1. You typed 0.',
    )
    expect(await accessibilityOf(page)).toEqual([])
    await limit.fill('20')
    await settled(page)
    expect(await limit.getAttribute('aria-invalid')).toBeNull()
    expect(await shownCounts(page)).toEqual({ admitted: 60, refused: 61 })
  })

  test('can be used with the keyboard alone', async () => {
    const page = await open()
    await page.getByLabel('Window’s edge').focus()
    await page.keyboard.press('ArrowRight')
    await settled(page)
    expect(await page.getByRole('radio', { name: 'Bursts' }).isChecked()).toBe(true)
    for (let steps = 0; steps < 40 && !(await focusIs(page, 'policy-0-limit')); steps++) {
      await page.keyboard.press('Tab')
    }
    await page.keyboard.press('Control+A')
    await page.keyboard.type('7')
    await settled(page)
    const traffic = SHAPES.bursts.make(trafficOf('bursts').values)
    const expected = nativeCounts(fixedWindow({ limit: 7, window: '10s' }), callsOf(traffic))
    expect(await shownCounts(page)).toEqual(expected)
    await page.getByRole('button', { name: 'Remove policy 3: gcra' }).press('Enter')
    await page.getByRole('button', { name: 'Add a policy' }).press('Enter')
    await settled(page)
    expect(await page.locator('[data-policy]').count()).toBe(3)
  })

  test('copies the code of a policy', async () => {
    const page = await open({ hash: 'traffic=edge&policy=gcra+limit=7+period=1m' })
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByRole('button', { name: 'Copy' }).click()
    await page.getByText('Copied').waitFor()
    const copied = await page.evaluate(() => navigator.clipboard.readText())
    expect(copied).toContain("gcra({ limit: 7, period: '1m' })")
    expect(await page.locator('code').textContent()).toBe(copied)
  })
})

describe.each([
  ['light', {}],
  ['first-screen', { height: 720 }],
  ['dark', { colours: 'dark', hash: 'traffic=clients&policy=slidingLog-limits&policy=gcra' }],
  ['phone', { width: 360 }],
  // The picture in docs/choosing.md: to renew it, run `cp target/playground/choosing.png
  // docs/plots/playground.png`.
  ['choosing', { width: 420 }],
] as const)('seen: %s', (name, visit: Visit) => {
  test('renders, fits its viewport and has no accessibility violation', async () => {
    const page = await open(visit)
    const { y, height } = (await page.locator('.overview').boundingBox()) ?? { y: 0, height: 0 }
    const part = name === 'choosing' ? { clip: { x: 0, y: y - 8, width: 420, height: height + 16 } } : {}
    const isWhole = name !== 'choosing' && name !== 'first-screen'
    if (isWhole) {
      await page.getByText('As a table').first().click()
    }
    await page.screenshot({ path: picturePath(name), fullPage: isWhole || name === 'choosing', ...part })
    // Each plot has the colours of its lines and texts, so it is not blank.
    const colours = await page.locator('canvas').evaluateAll((canvases) =>
      (canvases as HTMLCanvasElement[]).map((canvas) => {
        const pen = canvas.getContext('2d') as CanvasRenderingContext2D
        return new Set(new Uint32Array(pen.getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size
      }),
    )
    expect(colours.length).toBe(1 + 3 * (await page.locator('[data-policy]').count()))
    expect(Math.min(...colours)).toBeGreaterThan(8)
    expect(await pictureColours(page, readFileSync(picturePath(name)))).toBeGreaterThan(50)
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBe(0)
    expect(await accessibilityOf(page)).toEqual([])
  })
})

/** The violations that axe reports, with their elements. */
async function accessibilityOf(page: Page): Promise<string[]> {
  await page.evaluate(axe)
  const { violations, passes } = await page.evaluate(() => {
    return (globalThis as unknown as { axe: { run(): Promise<AxeResults> } }).axe.run()
  })
  expect(passes).not.toEqual([])
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
}

/** The number of colours in a picture. */
async function pictureColours(page: Page, png: Buffer): Promise<number> {
  return page.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))
    const image = await createImageBitmap(new Blob([bytes], { type: 'image/png' }))
    const canvas = new OffscreenCanvas(image.width, image.height)
    const pen = canvas.getContext('2d') as OffscreenCanvasRenderingContext2D
    pen.drawImage(image, 0, 0)
    return new Set(new Uint32Array(pen.getImageData(0, 0, image.width, image.height).data.buffer)).size
  }, png.toString('base64'))
}

function focusIs(page: Page, id: string): Promise<boolean> {
  return page.evaluate((wanted) => document.activeElement?.id === wanted, id)
}
