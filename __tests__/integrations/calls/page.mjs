// The code of docs/model-sdks.md, with the built package, other limits, and the SDKs of this folder.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)
const tollgate = require('../../../dist/index.js')
const client = require('../../../dist/client/index.js')

const PAGE = new URL('../../../docs/model-sdks.md', import.meta.url)
const REDIS_IN_PAGES = 'redis://localhost:6379'
const AsyncFunction = (async () => {}).constructor

/**
 * Runs a block of the page, which imports `name`.
 *
 * @param options.limits - Limits by meter, in place of those of the page. They hold for a day, so that used units stay.
 * @returns Its exports, its limiter and its client.
 */
export async function runBlock(name, { redis, limits = {}, given = {}, maxWait, onCharge = () => {} }) {
  const blocks = [...readFileSync(PAGE, 'utf8').matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code)
  const [code, ...others] = blocks.filter((block) => block.includes(`from '${name}'`))
  if (code === undefined || others.length > 0) throw new Error(`the page has not one block with ${name}`)

  const made = {}
  class RateLimiter extends tollgate.RateLimiter {
    #store
    constructor(policies, { store: url, ...options }) {
      // The machine may be busy.
      const store = new tollgate.RedisStore({ url, commandTimeout: 30_000 })
      super(policies, { ...options, store })
      this.#store = store
      made.limiter = this
    }
    async close() {
      await super.close()
      await this.#store.close()
    }
  }
  class OutgoingClient extends client.OutgoingClient {
    constructor(options) {
      super({ ...options, retries: { minDelay: '10ms' }, maxWait })
      made.client = this
      this.on('charge', onCharge)
    }
  }
  const gcra = ({ limit, period: _, meter = 'calls', ...others }) =>
    tollgate.fixedWindow({ ...others, meter, limit: limits[meter] ?? limit, window: '1d' })
  const modules = { tollgate: { ...tollgate, RateLimiter, gcra }, 'tollgate/client': { OutgoingClient } }
  const load = async (from) => modules[from] ?? (await import(from))

  const exports = []
  const program = code
    .replaceAll(REDIS_IN_PAGES, redis)
    .replace(/^import (\w+) from ('.*')$/gm, 'const { default: $1 } = await load($2)')
    .replace(/^import (\{.*\}) from ('.*')$/gm, 'const $1 = await load($2)')
    .replace(/^export const (\w+)/gm, (_, exported) => {
      exports.push(exported)
      return `const ${exported}`
    })
  const run = new AsyncFunction('load', ...Object.keys(given), `${program}\nreturn { ${exports.join()} }`)
  const exported = await run(load, ...Object.values(given))
  return { ...made, ...exported }
}
