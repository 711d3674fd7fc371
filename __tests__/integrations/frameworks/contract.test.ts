/** The contract of the HTTP adapters, with Nest 12 and Elysia: `contract.config.cjs` has its settings. */
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { startProgram } from '../node.js'

interface Results {
  readonly testResults: readonly {
    readonly message: string
    readonly assertionResults: readonly { readonly ancestorTitles: readonly string[]; readonly status: string }[]
  }[]
}

test('the contract holds for Nest 12 and Elysia', async () => {
  const jest = join(__dirname, '..', '..', 'node_modules', 'jest', 'bin', 'jest.js')
  const config = join(__dirname, 'contract.config.cjs')
  const words = ['--config', config, '--json', '--silent', 'middleware/contract', '-t', 'version 12|Elysia']
  const program = startProgram(jest, ...words)
  const [output, [code]] = await Promise.all([text(program.stdout), once(program, 'close')])
  const { testResults } = JSON.parse(output) as Results
  expect(testResults.map(({ message }) => message).join('')).toBe('')
  expect(code).toBe(0)
  const passed = testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status === 'passed')
  for (const name of ['Nest over Express, version 12', 'fetch in Elysia']) {
    expect(passed.filter(({ ancestorTitles }) => ancestorTitles.includes(name)).length).toBeGreaterThan(20)
  }
})
