/** A real headless browser. */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { type Browser, chromium } from 'playwright-core'

/**
 * Starts the system's Chromium, and installs it first if it is missing and installation is
 * possible.
 */
export async function startBrowser(): Promise<Browser> {
  const script = join(__dirname, '..', '..', 'scripts', 'ensure-chromium.mjs')
  const output = execFileSync(process.execPath, [script, '--path'], { encoding: 'utf8' })
  return chromium.launch({ executablePath: output.trim().split('\n').at(-1) ?? '' })
}
