/** Workers on workerd, and the servers that they call. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { basename, join } from 'node:path'
import { build } from 'esbuild'
import { Miniflare } from 'miniflare'

const ROOT = join(__dirname, '..', '..', '..')

/** Bundles a Worker as wrangler does: one program, and compiled modules beside it. */
export async function workerOf(contents: string, bindings: Record<string, string>): Promise<Miniflare> {
  const compiled = new Map<string, Buffer>()
  const { outputFiles } = await build({
    stdin: { contents, resolveDir: __dirname },
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    conditions: ['workerd', 'worker', 'browser'],
    plugins: [
      {
        name: 'package',
        setup({ onResolve, resolve }) {
          // It is no package of this folder.
          onResolve({ filter: /^tollgate\// }, ({ path, kind }) => resolve(path, { kind, resolveDir: ROOT }))
          onResolve({ filter: /\.wasm$/ }, ({ path, resolveDir }) => {
            const name = `./${basename(path)}`
            compiled.set(name, readFileSync(join(resolveDir, path)))
            return { path: name, external: true }
          })
        },
      },
    ],
  })
  const modules = [
    { type: 'ESModule' as const, path: 'worker.mjs', contents: outputFiles[0]?.text ?? '' },
    ...[...compiled].map(([path, contents]) => ({ type: 'CompiledWasm' as const, path, contents })),
  ]
  const worker = new Miniflare({ modules, bindings, compatibilityDate: '2026-04-01', port: 0 })
  await worker.ready
  return worker
}

/** A server whose requests the test answers. */
export class HeldServer {
  readonly #server: Server
  readonly #requests: { readonly path: string; readonly answer: () => void }[] = []
  #onRequest = () => {}
  isHeld = true

  private constructor(answer: (request: IncomingMessage, response: ServerResponse) => void) {
    this.#server = createServer((request, response) => {
      const held = { path: request.url ?? '', answer: () => answer(request, response) }
      if (this.isHeld) {
        this.#requests.push(held)
        this.#onRequest()
      } else {
        held.answer()
      }
    })
  }

  static async start(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<HeldServer> {
    const held = new HeldServer(answer)
    held.#server.listen(0, '127.0.0.1')
    await once(held.#server, 'listening')
    return held
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** The next request, which `answer` ends. */
  async next(): Promise<{ readonly path: string; answer(): void }> {
    while (this.#requests.length === 0) {
      await new Promise<void>((resolve) => {
        this.#onRequest = resolve
      })
    }
    return this.#requests.shift() as { path: string; answer: () => void }
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
