/** The playground, built, served and open in a browser. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { startBrowser } from './browser.js'

const ROOT = dirname(dirname(__dirname))

/** Options for opening a page. */
export interface Visit {
  readonly hash?: string
  readonly width?: number
  readonly height?: number
  readonly colours?: 'light' | 'dark'
}

/** An open page, and the problems that it logged. */
export interface OpenPage {
  readonly page: Page
  /**
   * Console errors and warnings, script errors, and requests that failed or went to other sites.
   */
  readonly complaints: string[]
}

/** The server and the browser. */
export class Site {
  private constructor(
    readonly address: string,
    /** The folder of the build. */
    readonly folder: string,
    readonly server: ChildProcess,
    readonly browser: Browser,
  ) {}

  /**
   * Builds the playground and serves it as `npm run playground` does. Each test file has a build of its
   * own: a page never loads a script that another file's build is writing.
   */
  static async start(): Promise<Site> {
    const folder = join(ROOT, 'target', 'playground', `site-${process.pid}`)
    execFileSync(process.execPath, ['examples/playground/build.mjs', folder], { cwd: ROOT })
    const server = spawn(process.execPath, ['examples/playground/serve.mjs', '0', folder], { cwd: ROOT, stdio: 'pipe' })
    const [line] = await once(server.stdout, 'data')
    return new Site(String(line).trim(), folder, server, await startBrowser())
  }

  async open({ hash = '', width = 1_280, height = 900, colours = 'light' }: Visit = {}): Promise<OpenPage> {
    const context = await this.browser.newContext({ viewport: { width, height }, colorScheme: colours })
    const page = await context.newPage()
    const complaints: string[] = []
    page.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`))
    page.on('pageerror', ({ message }) => complaints.push(message))
    page.on('requestfailed', (request) => complaints.push(`failed: ${request.url()}`))
    page.on('request', (request) => {
      if (!request.url().startsWith(this.address)) {
        complaints.push(`elsewhere: ${request.url()}`)
      }
    })
    await page.goto(this.address + (hash && `#${hash}`))
    await settled(page)
    return { page, complaints }
  }

  async stop(): Promise<void> {
    await this.browser.close()
    this.server.kill()
    await once(this.server, 'exit')
  }
}

/** Waits until the page shows the engine's results for everything that was typed. */
export async function settled(page: Page): Promise<void> {
  // The page stays busy for a moment after the event that changes it.
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve))))
  await page.locator('main[aria-busy=false]').waitFor()
}

/** The numbers that the page shows for a policy. */
export async function shownCounts(page: Page, policy = 0) {
  const row = page.locator(`[data-result="${policy}"]`)
  const number = async (name: string) => {
    const text = await row.locator(`[data-count=${name}]`).textContent()
    return Number(text?.replaceAll(',', ''))
  }
  return { admitted: await number('admitted'), refused: await number('refused') }
}

/** The folder for screenshots, which git ignores. */
export function picturePath(name: string): string {
  return join(ROOT, 'target', 'playground', `${name}.png`)
}
