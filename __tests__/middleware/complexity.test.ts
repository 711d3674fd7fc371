/** The cost of GraphQL operations: `complexityOf`. */
import { buildSchema, type GraphQLEnumType, type GraphQLScalarType, type GraphQLSchema, parse } from 'graphql'
import { type ComplexityOptions, complexityOf } from '../../ts/middleware/graphql.js'

const SCHEMA = buildSchema(`
  type Query {
    me: User, users(first: Int): [User!]!, connection(first: Int): Connection, fail: String
    latest(first: Int = 1000): [User!]!, constructor: User
  }
  type Mutation { rename: User }
  type Subscription { ticks: Int }
  type Connection { edges: [Edge!]!, total: Int }
  type Edge { node: User }
  type User { id: ID, name: String, friends(first: Int, last: Int): [User!]! }
`)

const cost = (text: string, options?: ComplexityOptions, schema: GraphQLSchema | undefined = SCHEMA) => {
  return complexityOf({ document: parse(text), schema }, options)
}

test.each([
  ['{ me { id name } }', 3],
  ['{ me { id again: id } }', 3],
  ['{ users { id } }', 1 + 10],
  ['{ users(first: 3) { id friends(last: 2) { id name } } }', 1 + 3 * (1 + 1 + 2 * 2)],
  // Many resolvers read 0 as no size.
  ['{ users(first: 0) { id } }', 1 + 10],
  // The default in the schema.
  ['{ latest { id } }', 1 + 1_000],
  ['{ latest(first: 2) { id } }', 1 + 2],
  // A list has the size of its parent's argument, once.
  ['{ connection(first: 50) { total edges { node { id } } } }', 1 + 50 * (1 + 1 + 1 + 1)],
  ['{ connection { edges { node { id } } } }', 1 + 1 + 10 * (1 + 1)],
  ['{ __schema { types { name } } }', 1],
  ['{ me { ...a ... on User { name } } } fragment a on User { id friends { id } }', 1 + (1 + 1 + 10) + 1],
  ['query($x: Boolean = true) { me @skip(if: $x) { id } users @include(if: false) { id } }', 1],
  ['query A { me { id } } query B { users { id } }', 2],
  ['mutation { rename { id } }', 2],
])('%s costs %d', (text, expected) => {
  expect(cost(text)).toBe(expected)
})

test('options: costs of fields, sizes of lists and the names of arguments', () => {
  expect(cost('{ me { name } users(first: 2) { name } }', { fields: { name: 5, 'Query.users': 0 } })).toBe(6 + 10)
  expect(cost('{ users { id } }', { listSize: 100 })).toBe(101)
  expect(cost('{ users(first: 7) { id } }', { sizeArguments: ['take'] })).toBe(11)
})

test('without a schema only arguments tell sizes', () => {
  expect(complexityOf({ document: parse('{ users { id } me(first: 4) { id } }') })).toBe(2 + 5)
})

test('variables and the name of the operation are those of the request', () => {
  const document = parse('query A($n: Int) { users(first: $n) { id } } query B { me { id } }')
  expect(complexityOf({ document, schema: SCHEMA, operationName: 'A', variables: { n: 30 } })).toBe(31)
  expect(complexityOf({ document, schema: SCHEMA, operationName: 'A', variables: { n: null } })).toBe(11)
  expect(complexityOf({ document, schema: SCHEMA, operationName: 'B' })).toBe(2)
  expect(complexityOf({ document, schema: SCHEMA, operationName: 'absent' })).toBe(1)
})

test('names of properties of all objects are names as all others, and null is no default', () => {
  expect(cost('{ constructor { id } }')).toBe(2)
  const named = parse('query ($constructor: Int = 1000) { users(first: $constructor) { id } }')
  expect(complexityOf({ document: named, schema: SCHEMA, variables: {} })).toBe(1_001)
  const nullable = parse('query ($n: Int = 2) { users(first: $n) { id } }')
  expect(complexityOf({ document: nullable, schema: SCHEMA })).toBe(3)
  expect(complexityOf({ document: nullable, schema: SCHEMA, variables: { n: null } })).toBe(11)
})

describe('sizes of all types', () => {
  const MOST = Number.MAX_SAFE_INTEGER
  const typed = buildSchema(`
    scalar BigInt
    enum Size { FEW, ALL }
    input Page { count: Int }
    type Item { id: ID }
    type Query {
      int(first: Int): [Item], float(limit: Float): [Item], id(limit: ID = 30): [Item], text(limit: String): [Item],
      big(first: BigInt): [Item], size(limit: Size = ALL): [Item], page(limit: Page = { count: 5 }): [Item], list(limit: [Int]): [Item],
      negative(limit: Int = -1): [Item], truth(last: Boolean): [Item]
    }
  `)
  const big = typed.getType('BigInt') as GraphQLScalarType
  big.parseValue = (value) => BigInt(value as string)
  big.parseLiteral = (node) => BigInt((node as { readonly value: string }).value)
  // The value that its resolvers get.
  Object.assign((typed.getType('Size') as GraphQLEnumType).getValue('FEW') as object, { value: 3 })

  test.each([
    ['{ float(limit: 1e6) { id } }', 1e6],
    ['{ float(limit: 2.5) { id } }', 3],
    ['{ float(limit: 0.0) { id } }', 10],
    ['{ float(limit: 1e999) { id } }', MOST],
    ['{ id(limit: "1000") { id } }', 1_000],
    ['{ id(limit: 1000) { id } }', 1_000],
    ['{ id { id } }', 30],
    ['{ text(limit: " 1e3 ") { id } }', 1_000],
    ['{ text(limit: "all") { id } }', MOST],
    ['{ text(limit: "") { id } }', MOST],
    ['{ text(limit: "100 or so") { id } }', MOST],
    ['{ big(first: 9007199254740993) { id } }', MOST],
    ['{ big(first: 12) { id } }', 12],
    ['{ big(first: "12") { id } }', 12],
    ['{ int(first: null) { id } }', 10],
    ['{ int(first: -5) { id } }', MOST],
    ['{ text(limit: "-5") { id } }', MOST],
    ['{ size(limit: ALL) { id } }', MOST],
    ['{ page(limit: { count: 3 }) { id } }', MOST],
    ['{ list(limit: [1, 2]) { id } }', MOST],
    ['{ list(limit: 2) { id } }', MOST],
    ['{ truth(last: true) { id } }', MOST],
    // Defaults are those of the schema's author.
    ['{ negative { id } }', 10],
    ['{ size { id } }', 10],
    ['{ page { id } }', 10],
    ['{ size(limit: FEW) { id } }', 3],
    ['query ($n: Float = 1e4) { float(limit: $n) { id } }', 1e4],
    ['query ($n: ID = "70") { id(limit: $n) { id } }', 70],
    // Without a value the argument has its own default.
    ['query ($n: ID) { id(limit: $n) { id } }', 30],
    ['query ($n: ID = null) { id(limit: $n) { id } }', 10],
  ])('%s has %d items', (text, items) => {
    expect(cost(text, undefined, typed)).toBe(Math.min(MOST, 1 + items))
  })

  test.each([
    ['float', 'Float', 'limit', 1e6, 1e6],
    ['float', 'Float', 'limit', '1e6', 1e6],
    ['id', 'ID', 'limit', '1000', 1_000],
    ['id', 'ID', 'limit', 1_000, 1_000],
    ['big', 'BigInt', 'first', '25', 25],
    ['big', 'BigInt', 'first', 25, 25],
    ['text', 'String', 'limit', 'all', MOST],
    ['int', 'Int', 'first', -1, MOST],
    ['int', 'Int', 'first', null, 10],
    ['int', 'Int', 'first', { count: 1 }, MOST],
    ['list', '[Int]', 'limit', [5], MOST],
    ['page', 'Page', 'limit', { count: 5 }, MOST],
  ])('%s with a variable of type %s as %s: %j has %d items', (field, type, argument, n, items) => {
    const document = parse(`query ($n: ${type}) { ${field}(${argument}: $n) { id } }`)
    expect(complexityOf({ document, schema: typed, variables: { n } })).toBe(Math.min(MOST, 1 + items))
  })

  test('without a schema the values are those of the request', () => {
    const of = (text: string, variables?: { readonly [name: string]: unknown }) => {
      return complexityOf({ document: parse(text), variables })
    }
    expect(of('{ users(limit: 1e6) { id } }')).toBe(1_000_001)
    expect(of('{ users(limit: "20") { id } }')).toBe(21)
    expect(of('{ users(limit: ALL) { id } }')).toBe(MOST)
    expect(of('query ($n: Float = 1e3) { users(limit: $n) { id } }')).toBe(1_001)
    expect(of('query ($n: BigInt) { users(limit: $n) { id } }', { n: 20n })).toBe(21)
    expect(of('query ($n: BigInt) { users(limit: $n) { id } }')).toBe(2)
    expect(of('query ($n: [Int]) { users(limit: $n) { id } }', { n: [1] })).toBe(MOST)
  })
})

test('hostile documents: fragments that double, cycles, depth and huge sizes', () => {
  const doubling = Array.from({ length: 500 }, (_, n) => `fragment f${n} on User { ...f${n + 1} ...f${n + 1} }`)
  // Without a memory of fragments it would take longer than the universe has lasted.
  expect(cost(`{ me { ...f0 } } ${doubling.join(' ')} fragment f500 on User { id }`)).toBe(Number.MAX_SAFE_INTEGER)
  expect(cost('{ me { ...a } } fragment a on User { id ...b } fragment b on User { ...a name }')).toBe(3)
  expect(cost('{ me { ...absent id } }')).toBe(2)
  const deep = `${'{ friends(first: 1) '.repeat(1_000)}{ id }${' }'.repeat(1_000)}`
  expect(cost(`{ me ${deep} }`)).toBe(Number.MAX_SAFE_INTEGER)
  expect(cost(`{ users(first: 1${'0'.repeat(400)}) { id __typename } }`)).toBe(Number.MAX_SAFE_INTEGER)
  // Only the items count.
  expect(cost('{ users(first: 1000000) { __typename } }')).toBe(1_000_001)
  expect(cost('{ users(first: 1000000) { id @skip(if: true) } }')).toBe(1_000_001)
  expect(cost('{ users(first: 1000000) { ...a } } fragment a on User { __typename }')).toBe(1_000_001)
  expect(cost('{ me { __typename } }')).toBe(1)
})

describe('interfaces', () => {
  const typed = buildSchema(`
    interface Node { id: ID, report: String }
    interface Actor implements Node { id: ID, report: String, owner: Actor, friends(first: Int): [Actor!]!, page(first: Int): Page, photo: Photo }
    type User implements Actor & Node {
      id: ID, report: String, owner: Actor, friends(first: Int = 100): [Actor!]!, page(first: Int = 3): Page, photo(limit: Int = 7): Photo
    }
    type Bot implements Actor & Node { id: ID, report: String, owner: Bot, friends(first: Int): [Actor!]!, page(first: Int): Page, photo: Photo }
    interface Empty { id: ID, report: String }
    type Page { items: [Item!]! }
    type Photo { tags: [Item!]! }
    type Item { id: ID }
    union Found = User | Item
    type Query { node: Node, viewer: Actor, me: User, bot: Bot, found: Found, empty: Empty }
  `)
  const selections = [
    'viewer { report }',
    'viewer { ... on Actor { report } }',
    'viewer { ... on Node { report } }',
    'viewer { ... on User { report } }',
    'viewer { ...f } } fragment f on Actor { report',
    'node { report }',
    'me { report }',
    'found { ... on Actor { report } }',
    'found { ... on User { report } }',
  ]

  test.each(selections)('{ %s } has the cost of the type and of its interfaces', (selection) => {
    for (const field of ['User.report', 'Actor.report', 'Node.report']) {
      expect(cost(`{ ${selection} }`, { fields: { [field]: 500, 'Bot.report': 5 } }, typed)).toBe(501)
    }
  })

  test('the cost of a type replaces that of its interface, and this one that of the name', () => {
    const fields = { 'User.report': 0, 'Bot.report': 20, 'Actor.report': 7, report: 3 }
    expect(cost('{ me { report } }', { fields }, typed)).toBe(1)
    expect(cost('{ viewer { report } }', { fields }, typed)).toBe(21)
    expect(cost('{ bot { report } }', { fields: { ...fields, 'Actor.report': 30 } }, typed)).toBe(21)
    expect(cost('{ viewer { report } }', { fields: { ...fields, 'Actor.report': 30 } }, typed)).toBe(31)
    expect(cost('{ bot { report } }', { fields: { 'Actor.report': 2, report: 30 } }, typed)).toBe(3)
    expect(cost('{ viewer { report } }', { fields: { 'User.report': 0, 'Bot.report': 0 } }, typed)).toBe(1)
    expect(cost('{ empty { report } }', { fields: { 'Empty.report': 6 } }, typed)).toBe(7)
    expect(cost('{ empty { report } }', { fields: { report: 6 } }, typed)).toBe(7)
  })

  test.each([
    // The default of a type that implements it.
    ['viewer { friends { id } }', 1 + 1 + 100],
    ['me { friends { id } }', 1 + 1 + 100],
    ['bot { friends { id } }', 1 + 1 + 10],
    ['viewer { friends(first: 4) { id } }', 1 + 1 + 4],
    ['viewer { friends(first: null) { id } }', 1 + 1 + 10],
    // In another type the lists of the object have the usual size.
    ['viewer { page { items { id } } }', 1 + 1 + 10 * (1 + 1)],
    ['me { page { items { id } } }', 1 + 1 + 3 * (1 + 1)],
    ['viewer { page(first: 2) { items { id } } }', 1 + 1 + 2 * (1 + 1)],
    // An argument that only a type has.
    ['me { photo { tags { id } } }', 1 + 1 + 7 * (1 + 1)],
    ['viewer { photo { tags { id } } }', 1 + 1 + 10 * (1 + 1)],
  ])('{ %s } has the largest size of all types: %d', (selection, expected) => {
    expect(cost(`{ ${selection} }`, undefined, typed)).toBe(expected)
  })

  test('a field is looked up once in the types of an interface, whatever the length of the document', () => {
    const looked = jest.spyOn(typed, 'getPossibleTypes')
    cost(`{ viewer { ${Array.from({ length: 1_000 }, (_, n) => `a${n}: report`).join(' ')} } }`, undefined, typed)
    expect(looked).toHaveBeenCalledTimes(1)
    looked.mockRestore()
  })
})

test('lists of lists: an argument is the size of the outer list', () => {
  const nested = buildSchema(`
    type Item { id: ID, tags: [[String]] }
    type Page { rows: [[Item]] }
    type Query { matrix(limit: Int): [[Item!]!]!, cube(limit: Int = 3): [[[Item]]], page(first: Int): Page }
  `)
  const of = (text: string, options?: ComplexityOptions) => cost(text, options, nested)
  expect(of('{ matrix { id } }')).toBe(1 + 10 * 10)
  expect(of('{ matrix { id } }', { listSize: 4 })).toBe(1 + 4 * 4)
  expect(of('{ matrix(limit: 5) { id } }')).toBe(1 + 5 * 10)
  expect(of('{ matrix { __typename } }')).toBe(1 + 10 * 10)
  expect(of('{ cube { id } }')).toBe(1 + 3 * 10 * 10)
  expect(of('{ page(first: 6) { rows { id } } }')).toBe(1 + 6 * (1 + 10))
  expect(of('{ page { rows { id } } }')).toBe(1 + 1 + 10 * 10)
  expect(of('{ cube(limit: 2147483647) { id } }', { listSize: 1e9 })).toBe(Number.MAX_SAFE_INTEGER)
  // A list of values is one field.
  expect(of('{ matrix(limit: 1) { tags } }')).toBe(1 + 10)
})

test.each([
  [{ listSize: 0 }, 'complexityOf: listSize must be'],
  [{ fields: { 'User.name': -1 } }, 'complexityOf: fields["User.name"] must be'],
  [{ listSize: null }, 'complexityOf: listSize must be'],
  [{ fields: null }, 'complexityOf: fields must be an object of costs by name, got null'],
  [{ fields: 'name' }, 'complexityOf: fields must be an object of costs by name, got "name"'],
  [{ fields: [['name', 5]] }, 'complexityOf: fields must be an object of costs by name, got an array'],
  [
    { fields: new Map([['name', 5]]) },
    'complexityOf: fields must be an object of costs by name, got a Map: write Object.fromEntries(map)',
  ],
  [{ fields: new Set(['name']) }, 'complexityOf: fields must be an object of costs by name, got a Set'],
  [
    { fields: Promise.resolve({ name: 5 }) },
    'complexityOf: fields must be an object of costs by name, got a Promise: await it',
  ],
  [{ sizeArguments: 'first' }, 'complexityOf: sizeArguments must be an array of names'],
  [{ sizeArguments: [5] }, 'complexityOf: sizeArguments must be an array of names'],
  [{ sizeArguments: new Set(['first']) }, 'complexityOf: sizeArguments must be an array of names, got a Set'],
  [{ maxDepth: 5 }, 'maxDepth'],
])('%p is an error', (options, message) => {
  expect(() => cost('{ me { id } }', options as never)).toThrow(message)
})
