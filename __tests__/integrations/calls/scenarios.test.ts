/** The blocks of docs/model-sdks.md under the SDKs, with a provider on a socket. */
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { RedisServer } from '../../servers/redis-server.js'
import { INPUT_TOKENS } from '../ai-sdk/script.js'
import { Provider } from '../ai-sdk/server.js'
import { startProgram } from '../node.js'

/** What an attempt was charged: its cost, nothing, or the usage of the output with cached tokens of the input. */
type Charge = 'cost' | 'nothing' | { readonly output: number; readonly cached?: number }

interface Expected {
  readonly result?: unknown
  readonly status?: number
  /** The code of the cause of the error. */
  readonly cause?: string
  /** One for each attempt in order, so also the number of requests. */
  readonly charges: readonly Charge[]
}

interface Outcome {
  readonly result?: unknown
  readonly status?: number | null
  readonly cause?: string | null
  /** By the policies of the page. */
  readonly used: readonly number[]
  readonly charges: readonly [attempt: number, units: { readonly [meter: string]: number } | null][]
  readonly requests: number
  readonly early: number
  readonly bytes: number
}

/** The longest answer that the calls ask for. */
const MAX_OUTPUT = 500

const SCENARIOS: readonly (readonly [string, Expected])[] = [
  ['ask', { result: 'abc', charges: [{ output: 30, cached: 8 }] }],
  ['stream', { result: 'abc'.repeat(130), charges: [{ output: 130 }] }],
  ['moreThanCost', { result: 'abc'.repeat(700), charges: [{ output: 700 }] }],
  ['serverErrors', { result: 'abc', charges: ['cost', 'cost', { output: 1 }] }],
  ['overloaded', { result: 'abcabcabc', charges: ['cost', { output: 3 }] }],
  ['down', { status: 503, charges: ['cost', 'cost', 'cost'] }],
  ['invalid', { status: 400, charges: ['nothing'] }],
  ['broken', { charges: ['cost'] }],
  ['aborted', { charges: ['cost'] }],
  ['impossible', { cause: 'WAIT_TOO_LONG', charges: [] }],
  [
    'refused',
    {
      result: [429, 150, 'abc', 'abc', 'abc', 'abc'],
      charges: ['nothing', { output: 2 }, { output: 2 }, { output: 2 }, { output: 2 }],
    },
  ],
]

const AGENT: readonly [string, Expected] = [
  'agent',
  { result: ['human', 'ai', 'tool', 'ai'], charges: [{ output: 5 }, { output: 5 }] },
]

describe.each(['openai', 'responses', 'anthropic', 'langchain'])('%s', (sdk) => {
  let outcomes: { readonly [scenario: string]: Outcome }

  beforeAll(async () => {
    await using server = await RedisServer.start()
    const provider = await Provider.start()
    const program = startProgram(join(__dirname, 'scenarios.mjs'), sdk, provider.url, server.url)
    const out = await text(program.stdout)
    await provider.stop()
    outcomes = JSON.parse(out)
  })

  /** By the meters of the page. */
  const tokensOf = (input: number, cached: number, output: number) =>
    sdk === 'anthropic' ? [input - cached, output] : [input + output]

  const unitsOf = (charge: Charge, bytes: number): readonly number[] => {
    if (charge === 'cost') {
      return tokensOf(Math.ceil(bytes / 3), 0, MAX_OUTPUT)
    }
    return charge === 'nothing' ? tokensOf(0, 0, 0) : tokensOf(INPUT_TOKENS, charge.cached ?? 0, charge.output)
  }

  test.each(sdk === 'langchain' ? [...SCENARIOS, AGENT] : SCENARIOS)('%s', (scenario, { charges, ...result }) => {
    const { used, requests, early, bytes, ...outcome } = outcomes[scenario] as Outcome
    expect(outcome).toMatchObject(result)
    expect(outcome.result).toEqual(result.result)
    expect([requests, early, outcome.charges.length]).toEqual([charges.length, 0, charges.length])
    const units = charges.map((charge) => unitsOf(charge, bytes))
    const sum = tokensOf(0, 0, 0).map((_, meter) => units.reduce((total, own) => total + (own[meter] as number), 0))
    expect(used).toEqual([charges.length, ...sum, 0])
  })
})
