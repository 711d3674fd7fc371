/** The playground guides its reader: results come first, advice is shown, and the focus is never lost. */
import type { Page } from 'playwright-core'
import { hashOf, policyOf, trafficOf } from '../../examples/playground/model/state.js'
import { SHAPES } from '../../examples/playground/model/traffic.js'
import { gcra } from '../../ts/index.js'
import { callsOf, nativeCounts } from '../playground/addon.js'
import { Site, settled, shownCounts, type Visit } from './site.js'

let site: Site

beforeAll(async () => {
  site = await Site.start()
})

afterAll(() => site.stop())

async function visit(options: Visit, use: (page: Page) => Promise<void>): Promise<void> {
  const { page, complaints } = await site.open(options)
  await use(page)
  await page.context().close()
  expect(complaints).toEqual([])
}

function focused(page: Page): Promise<string | undefined> {
  return page.evaluate(() => {
    const { id, innerText } = document.activeElement as HTMLElement
    return id === '' ? innerText : id
  })
}

describe('the results', () => {
  test.each([
    ['a laptop', { width: 1_280, height: 720 }],
    ['a phone', { width: 360, height: 740 }],
  ])('are on the first screen of %s', (_, size) =>
    visit(size, async (page) => {
      for (const part of ['.comparison', '.compared figure']) {
        const { y, height } = (await page.locator(part).first().boundingBox()) ?? { y: -1, height: 0 }
        expect(y).toBeGreaterThan(0)
        expect(height).toBeGreaterThan(100)
        expect(y + height).toBeLessThan(size.height)
      }
    }),
  )

  test('warn if more got through than was typed', () =>
    visit({}, async (page) => {
      const verdict = page.locator('[data-verdict="0"]')
      expect(await verdict.textContent()).toBe(
        'fixedWindow: You asked for 20 in 10 s; 39 got through, almost twice as many.',
      )
      const colour = (selector: string) =>
        page
          .locator(selector)
          .first()
          .evaluate((element) => getComputedStyle(element).color)
      expect(await colour('[data-verdict="0"]')).not.toBe(await colour('.comparison tbody td'))
      expect(await page.locator('[data-verdict="1"]').count()).toBe(0)
      expect(await page.locator('.compared [role=img]').getAttribute('aria-label')).toBe(
        'Admitted in the last 10 s: fixedWindow at most 39, slidingWindow at most 20, and gcra at most 24; typed: 20',
      )
    }))

  test('say which policies decided every call alike', () => {
    const policies = [policyOf('gcra'), policyOf('slidingLog'), policyOf('leakyBucket')]
    return visit({ hash: hashOf({ traffic: trafficOf('bursts'), policies }) }, async (page) => {
      expect(await page.locator('[data-equal]').allTextContents()).toEqual([
        'gcra and leakyBucket decided every call alike.',
      ])
    })
  })

  test('count the calls of each client', () => {
    const traffic = trafficOf('clients')
    return visit({ hash: hashOf({ traffic, policies: [policyOf('gcra')] }) }, async (page) => {
      const calls = callsOf(SHAPES.clients.make(traffic.values))
      for (const key of ['client-1', 'client-2', 'client-3']) {
        const own = calls.filter((call) => call.key === key)
        const { admitted } = nativeCounts(gcra({ limit: 20, period: '10s' }), own)
        const cells = await page.locator(`[data-key="${key}"] td`).allTextContents()
        expect(cells).toEqual([String(own.length), String(admitted)])
      }
    })
  })

  test('dim instead of disappearing while an input is invalid', () =>
    visit({}, async (page) => {
      const plots = page.locator('[data-policy="0"] canvas').first()
      const opacity = () => plots.evaluate((element) => getComputedStyle(element).opacity)
      expect(await opacity()).toBe('1')
      await page.locator('#policy-0-limit').fill('0')
      await settled(page)
      expect(Number(await opacity())).toBeLessThan(0.6)
      expect(await plots.isVisible()).toBe(true)
      await page.locator('#policy-0-limit').fill('20')
      await page.locator('#traffic-calls').fill('many')
      await settled(page)
      expect(await page.locator('.overview.stale').count()).toBe(1)
      expect(await page.getByText('Calls on each side must be a whole number').textContent()).toContain(
        'You typed "many".',
      )
    }))

  test('point to simulate for lines of a log', () =>
    visit({ hash: 'traffic=pasted' }, async (page) => {
      await page
        .getByRole('textbox', { name: 'Times' })
        .fill('192.0.2.1 - - [05/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 1')
      await page.getByText('npx tollgate-cli simulate access.log --suggest 1%').waitFor()
    }))
})

describe('an experiment', () => {
  test('sends bursts by a button and by a click on the plot', () =>
    visit({ hash: 'traffic=steady&policy=gcra' }, async (page) => {
      const before = await shownCounts(page)
      await page.getByRole('button', { name: 'Send a burst' }).click()
      await settled(page)
      expect(await page.locator('#traffic-bursts').inputValue()).toBe('30@30s')
      const after = await shownCounts(page)
      expect(after.admitted + after.refused).toBe(before.admitted + before.refused + 30)

      const { width, height } = (await page.locator('.compared .u-over').boundingBox()) ?? { width: 0, height: 0 }
      await page.locator('.compared .u-over').click({ position: { x: width / 4, y: height / 2 } })
      await settled(page)
      const [, second = ''] = (await page.locator('#traffic-bursts').inputValue()).split(' ')
      expect(Math.abs(Number(/@(\d+)ms/.exec(second)?.[1] ?? 15_000) - 15_000)).toBeLessThan(300)
    }))

  test('steps numbers by buttons and arrow keys', () =>
    visit({ hash: 'traffic=steady&policy=gcra' }, async (page) => {
      const limit = page.locator('#policy-0-limit')
      await page.locator('[data-policy="0"]').getByRole('button', { name: 'Limit: more' }).click()
      expect(await limit.inputValue()).toBe('25')
      await limit.focus()
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('ArrowDown')
      expect(await limit.inputValue()).toBe('15')
      const period = page.locator('#policy-0-period')
      await period.press('ArrowUp')
      expect(await period.inputValue()).toBe('15s')
      expect(await focused(page)).toBe('policy-0-period')
    }))

  test('starts from three questions', () =>
    visit({}, async (page) => {
      await page.getByText('Which algorithm? Three questions').click()
      const question = page.getByRole('group', { name: 'Must the limit hold in every window' })
      await question.getByLabel('Yes').check()
      expect(await page.locator('.recommendation b').textContent()).toBe('slidingWindow')
      await page.getByRole('button', { name: 'Use it as policy 1' }).click()
      await settled(page)
      expect(await page.locator('#policy-0-algorithm').inputValue()).toBe('slidingWindow')
      expect(await focused(page)).toBe('policy-0-algorithm')
    }))
})

test('the focus is never lost', () =>
  visit({}, async (page) => {
    const algorithm = page.locator('#policy-1-algorithm')
    await algorithm.focus()
    await algorithm.selectOption('slidingLog-limits')
    await settled(page)
    expect(await focused(page)).toBe('policy-1-algorithm')

    await page.getByRole('button', { name: 'Add a limit' }).press('Enter')
    await settled(page)
    expect(await focused(page)).toBe('policy-1-limits-2-name')
    await page.getByRole('button', { name: 'Remove limit 3' }).press('Enter')
    await settled(page)
    expect(await focused(page)).toBe('policy-1-limits-1-name')

    await page.getByRole('button', { name: 'Remove policy 3: gcra' }).press('Enter')
    await settled(page)
    expect(await focused(page)).toBe('policy-1-algorithm')
    await page.locator('#add-policy').press('Enter')
    await settled(page)
    expect(await focused(page)).toBe('policy-2-algorithm')
    await page.locator('#add-policy').press('Enter')
    expect(await focused(page)).toBe('add-policy')
    expect(await page.locator('[data-policy]').count()).toBe(3)

    await page.getByRole('button', { name: 'Send a burst' }).press('Enter')
    await settled(page)
    expect(await focused(page)).toBe('Send a burst')
  }))
