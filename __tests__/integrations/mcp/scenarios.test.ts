/** The limits of servers and clients under versions of the SDK, over HTTP sockets. */
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { startProgram } from '../node.js'

interface Results {
  readonly [scenario: string]: unknown
}

const refused = (retryAfterMs: number | null, status: string, words: string, policy?: string) => ({
  content: [{ type: 'text', text: `The tool was not run: ${words}` }],
  isError: true,
  refusal: { status, retryAfterMs, ...(policy !== undefined && { policy }) },
})

describe.each([
  ['server', 'client', 'modern'],
  ['server-2.0', 'client-2.0', 'modern'],
  ['sdk', 'client', 'legacy'],
])('%s, called by %s', (server, client, era) => {
  let results: Results

  beforeAll(async () => {
    const program = startProgram(join(__dirname, 'scenarios.mjs'), server, client)
    results = JSON.parse(await text(program.stdout))
  })

  test.each<[string, unknown]>([
    [
      'refusal',
      {
        results: [
          { content: [{ type: 'text', text: 'found a' }] },
          { content: [{ type: 'text', text: 'found b' }] },
          refused(3_600_000, 'refused', 'its rate limit is reached. Call it again in 3600 s, not earlier.', 'default'),
        ],
        ran: ['a', 'b'],
        era,
      },
    ],
    [
      'principals',
      {
        used: [2, 1, 1],
        withoutToken: refused(
          null,
          'invalid',
          'the call has no valid key or cost. Do not call it again with the same arguments.',
        ),
      },
    ],
    ['parts', { outcomes: ['ran', 'ran', 'both', 'ran', 'ran', 'user', 'ran', 'ran'] }],
    ['meters', { outcomes: ['ran', 'refused', 'ran', 'impossible'], used: [2, 8] }],
    ['refunds', { used: 2, invalid: true }],
    ['schema', { first: { n: 1 }, status: 'refused' }],
    ['permits', { used: 1, second: 'refused', after: 0, third: true, ran: ['slow', 'a'] }],
    ['abort', { result: 'rejected', used: 1 }],
    ['bans', { refusals: ['ran', ['refused', 3_600_000], ['blocked', 86_400_000], ['blocked', 86_400_000], 'ran'] }],
    [
      'covered',
      {
        errors: ['INVALID_OPTION', 'INVALID_OPTION'],
        results: [
          ['refused', ['search']],
          ['refused', ['search']],
        ],
      },
    ],
    ['twoLimiters', { results: ['ran', 'ran', 'refused'], ran: ['search', 'typed'], used: 3 }],
    [
      'rounds',
      // The first round asks the user, and holds no permit meanwhile. Version 1 of the SDK has no rounds.
      server === 'sdk'
        ? undefined
        : {
            rounds: [
              [1, 0],
              [2, 0],
            ],
            content: [{ type: 'text', text: 'accept' }],
          },
    ],
    [
      'clientWaits',
      {
        before: ['1'],
        ran: ['1', '2', '3'],
        results: [
          [1, undefined],
          [2, undefined],
          [3, undefined],
        ],
      },
    ],
    ['clientRefuses', { ran: ['a'], code: 'WAIT_TOO_LONG', attempts: 0 }],
    ['clientObeys', { ran: ['a', 'a'], retryAfterMs: 3_600_000 }],
  ])('%s', (scenario, expected) => {
    expect(results[scenario]).toEqual(expected && JSON.parse(JSON.stringify(expected)))
  })
})
