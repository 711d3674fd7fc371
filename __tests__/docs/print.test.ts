/** The pages' examples: each that prints does what its comments say. */
import { RedisServer } from '../servers/redis-server.js'
import { blocks, placeOf } from './pages.js'
import { run, saidBy } from './run.js'

let server: RedisServer

beforeAll(async () => {
  server = await RedisServer.start()
})

beforeEach(() => server.command('FLUSHALL'))

afterAll(() => server.stop())

const examples = blocks.filter((block) => saidBy(block).length > 0).map((block) => ({ place: placeOf(block), block }))

test('there are examples of all operations', () => {
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

test.each(examples)('$place prints what it says', async ({ block }) => {
  const { printed } = await run(block, { redisUrl: server.url })
  expect(printed).toEqual(saidBy(block))
})
