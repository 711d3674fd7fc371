/** Apps of this folder, built by their framework's own build in a folder of their own, and served on Node.js 24. */
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { freePort } from '../../servers/ports.js'
import { until } from '../../servers/until.js'
import { startProgramIn } from '../node.js'

const ROOT = join(__dirname, '..', '..', '..')

/** The installed packages, which are found from the folders of {@link Site}. */
const PACKAGES = join(__dirname, '..', 'node_modules')

/** Not the variables of Jest, with which some builds are those of tests. */
const { NODE_ENV: _, JEST_WORKER_ID: __, ...ENVIRONMENT } = process.env

export interface Served {
  readonly url: string
  /** Kills the process, without its own end. */
  kill(): void
  /** Resolves when the process has ended. */
  readonly ended: Promise<unknown>
}

/** An app in a folder of its own, where tollgate is installed as it is published. */
export class Site {
  readonly #folder: string
  readonly #served: Served[] = []

  /** @param app - The folder of the app. */
  constructor(app: string) {
    this.#folder = join(__dirname, '..', 'build', `${app}-${process.pid}`)
    rmSync(this.#folder, { recursive: true, force: true })
    cpSync(join(__dirname, app), this.#folder, { recursive: true })
    // React Router installs isbot if it is not listed.
    const dependencies = { isbot: '*', tollgate: '*' }
    writeFileSync(join(this.#folder, 'package.json'), JSON.stringify({ type: 'module', private: true, dependencies }))
    const installed = join(this.#folder, 'node_modules', 'tollgate')
    mkdirSync(installed, { recursive: true })
    for (const part of ['package.json', 'dist', 'generated']) {
      cpSync(join(ROOT, part), join(installed, part), { recursive: true })
    }
  }

  /** Runs a build to its end. */
  async build(program: string, ...args: readonly string[]): Promise<void> {
    const env = { ...ENVIRONMENT, NODE_ENV: 'production', ASTRO_TELEMETRY_DISABLED: '1', CI: '1' }
    const build = startProgramIn({ cwd: this.#folder, env }, join(PACKAGES, program), ...args)
    const [output, [code]] = await Promise.all([text(build.stdout), once(build, 'close')])
    if (code !== 0) {
      throw new Error(`${program} ended with ${code}: ${output}`)
    }
  }

  /**
   * Starts a server of the app, and waits until it answers.
   *
   * @param program - A file of the app, or of a package.
   */
  async serve(env: NodeJS.ProcessEnv, program: string, ...args: readonly string[]): Promise<Served> {
    const port = await freePort()
    const own = join(this.#folder, program)
    const variables = { ...ENVIRONMENT, NODE_ENV: 'production', HOST: '127.0.0.1', PORT: String(port), ...env }
    const server = startProgramIn(
      { cwd: this.#folder, env: variables },
      existsSync(own) ? own : join(PACKAGES, program),
      ...args,
    )
    server.stdout.resume()
    const ended = once(server, 'close')
    const served = { url: `http://127.0.0.1:${port}`, kill: () => void server.kill('SIGKILL'), ended }
    this.#served.push(served)
    await Promise.race([
      until(`${program} answers`, async () => (await fetch(`${served.url}/robots.txt`)).ok),
      ended.then(([code]) => {
        throw new Error(`${program} ended with ${code} before it answered`)
      }),
    ])
    return served
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      this.#served.map(({ kill, ended }) => {
        kill()
        return ended
      }),
    )
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
