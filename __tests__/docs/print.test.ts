/** The printing examples of the pages print the output in their comments. */
import { RedisServer } from '../servers/redis-server.js'
import { blocks, placeOf } from './pages.js'
import { documentedOutput, run } from './run.js'

let server: RedisServer

beforeAll(async () => {
  server = await RedisServer.start()
})

beforeEach(() => server.command('FLUSHALL'))

afterAll(() => server.stop())

const examples = blocks
  .filter((block) => documentedOutput(block).length > 0)
  .map((block) => ({ place: placeOf(block), block }))

test('the examples cover all operations', () => {
  const all = examples.map(({ block }) => block.code).join('')
  const operations = [
    'take',
    'takeMany',
    'takeUpTo',
    'peek',
    'penalize',
    'refund',
    'reserve',
    'wait',
    'block',
    'unblock',
    'override',
    'clearOverride',
    'reset',
    'takeSync',
    'commit',
    'cancel',
  ]
  expect(operations.filter((name) => !all.includes(`.${name}(`))).toEqual([])
})

test.each(examples)('$place prints the documented output', async ({ block }) => {
  const { printed } = await run(block, { redisUrl: server.url })
  expect(printed).toEqual(documentedOutput(block))
})
