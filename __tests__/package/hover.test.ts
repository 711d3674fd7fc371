/**
 * The texts that an editor shows at the names that programs write most, by TypeScript's language service.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type * as TypeScript from 'typescript'
import { ROOT } from '../docs/pages.js'

// The oldest version that the package supports. It is installed with the packages of this folder only, so the types
// are those of the tests' own version.
const ts = createRequire(__filename)('typescript-5.4') as typeof TypeScript

const FILE = join(ROOT, '__tests__', 'package', 'editor.ts')

// The name after each mark is the one that the test hovers over.
const PROGRAM = `
import { /*class*/RateLimiter, gcra } from '../../dist/index.js'
const limiter = new RateLimiter(gcra({ limit: 1, period: '1s' }))
const decision = await limiter./*take*/take('ann')
decision./*allowed*/allowed
decision./*status*/status
decision./*retryAfterMs*/retryAfterMs
if (decision.allowed) decision./*statusOfAllowed*/status
else decision./*statusOfRefused*/status
await limiter./*wait*/wait('ann')
await limiter./*reserve*/reserve('ann')
`

const service = ts.createLanguageService({
  getCompilationSettings: () => ({
    module: ts.ModuleKind.Node16,
    moduleResolution: ts.ModuleResolutionKind.Node16,
    target: ts.ScriptTarget.ES2022,
    strict: true,
    types: [],
  }),
  getScriptFileNames: () => [FILE],
  getScriptVersion: () => '1',
  getScriptSnapshot: (path) => {
    const text = path === FILE ? PROGRAM : ts.sys.readFile(path)
    return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text)
  },
  getCurrentDirectory: () => dirname(FILE),
  getDefaultLibFileName: ts.getDefaultLibFilePath,
  fileExists: (path) => path === FILE || ts.sys.fileExists(path),
  readFile: (path) => (path === FILE ? PROGRAM : readFileSync(path, 'utf8')),
})

function hover(mark: string): { readonly type: string; readonly text: string } {
  const text = `/*${mark}*/`
  const info = service.getQuickInfoAtPosition(FILE, PROGRAM.indexOf(text) + text.length)
  if (info === undefined) throw new Error(`nothing is shown at ${mark}`)
  return {
    type: ts.displayPartsToString(info.displayParts),
    text: ts.displayPartsToString(info.documentation),
  }
}

test.each(['allowed', 'status', 'retryAfterMs', 'statusOfAllowed', 'statusOfRefused'])(
  'decision: %s has a text',
  (mark) => {
    expect(hover(mark).text).toMatch(/\w+ .*\./)
  },
)

test('RateLimiter names the type of its constructor', () => {
  expect(hover('class').type).toMatch(/^\(alias\) const RateLimiter: RateLimiterConstructor$/m)
  expect(hover('class').text).toMatch(/\w+ .*\./)
})

test.each(['wait', 'reserve'])('%s has two sentences, and a link that exists', (mark) => {
  const [sentences = '', link = ''] = hover(mark).text.split('\n\n')
  expect(sentences.replace(/\s+/g, ' ').match(/\.(?: |$)/g)).toHaveLength(2)
  const [, path = '', anchor = ''] = /See `(\S+)#(\w+)`/.exec(link) ?? []
  expect(readFileSync(join(ROOT, path), 'utf8')).toContain(`\n## ${anchor}\n`)
})
