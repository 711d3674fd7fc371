/** The middleware under the AI SDK 7 and 6, with a provider on a socket. */
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { startProgram } from '../node.js'
import { Provider } from './server.js'

interface Numbers {
  readonly [name: string]: unknown
}

/** The units of a call by meter, in the order of `used` of a scenario. */
function units([requests, tokens, inputTokens, outputTokens, cachedInputTokens]: readonly number[]): Numbers {
  return { requests, tokens, inputTokens, outputTokens, cachedInputTokens }
}

const NONE = units([0, 0, 0, 0, 0])
const FINISHED = ['finished', true]

describe.each([
  ['ai 7', 'ai'],
  ['ai 6', 'ai-6'],
])('%s', (_, version) => {
  let results: { readonly [scenario: string]: Numbers }

  beforeAll(async () => {
    const provider = await Provider.start()
    const program = startProgram(join(__dirname, 'scenarios.mjs'), version, provider.url)
    const out = await text(program.stdout)
    await provider.stop()
    results = JSON.parse(out)
  })

  const settled = { isReported: true, estimated: units([1, 100, 20, 80, 0]), settled: true, late: false }

  test.each<[string, Numbers]>([
    [
      'generateText',
      {
        text: 'abc',
        used: [1, 50, 20, 30, 8],
        metadata: {
          ...settled,
          refunded: units([0, 50, 0, 50, 0]),
          charged: units([0, 0, 0, 0, 8]),
          owed: NONE,
          shortfall: NONE,
        },
      },
    ],
    [
      'streamText',
      {
        length: 390,
        used: [1, 150, 20, 130, 0],
        metadata: { ...settled, refunded: NONE, charged: units([0, 50, 0, 50, 0]), owed: NONE, shortfall: NONE },
      },
    ],
    [
      'owed',
      {
        charged: units([0, 320, 0, 320, 0]),
        owed: units([0, 300, 0, 280, 0]),
        used: [1, 120, 20, 120, 0],
        status: 429,
        isApiCallError: true,
      },
    ],
    ['objects', { objects: [{ a: 5 }, { a: 5 }, { a: 5 }, { a: 5 }], used: [4, 108, 80, 28, 0] }],
    ['steps', { steps: [2, 2], charges: [FINISHED, FINISHED, FINISHED, FINISHED], used: [4, 124, 80, 44, 0] }],
    ['parallel', { sent: 4, used: [4, 400, 80, 320, 0] }],
    ['keys', { used: [1, 25, 20, 5, 0], code: 'INVALID_KEY' }],
    ['retryOfRefusal', { text: 'abc', delays: [41], used: [1, 25, 20, 5, 0] }],
    ['exhausted', { isRetryError: true, delays: 2, statuses: [429, 429, 429], cause: 'blocked' }],
    [
      'providerRefuses',
      { text: 'abc', blocks: [['blocked', 47]], used: [1, 25, 20, 5, 0], charges: [['failed', false], FINISHED] },
    ],
    [
      'broken',
      {
        errors: 1,
        used: [1, 29, 20, 9, 0],
        charges: [
          ['failed', false],
          ['failed', false],
        ],
      },
    ],
    ['aborted', { requests: 1, input: 20, isOutputCounted: true, charges: [['aborted', false]] }],
    ['cancelled', { open: [[1, 100, 20, 80, 0], []], used: [2, 200, 40, 160, 0], charges: [['aborted', false]] }],
    ['waits', { texts: ['abc', 'abc', 'abc'], timers: 0 }],
  ])('%s', (scenario, expected) => {
    expect(results[scenario]).toEqual(expected)
  })
})
