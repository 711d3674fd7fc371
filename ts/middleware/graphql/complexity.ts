import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLArgument,
  type GraphQLNamedType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  getVariableValues,
  isInterfaceType,
  isListType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionNode,
  type SelectionSetNode,
  type ValueNode,
  valueFromAST,
} from 'graphql'
import { checkCount, invalid, optionsOf, wholeNumber } from '../../input/options.js'

/** An operation whose cost is computed, such as a call of `useRateLimit` or `rateLimitPlugin`. */
export interface GraphqlOperation {
  /** The parsed request. */
  readonly document: DocumentNode
  /** The values of its variables. */
  readonly variables?: { readonly [name: string]: unknown } | null | undefined
  /** The operation to run, if the document has several. */
  readonly operationName?: string | null | undefined
  /** Tells which fields are lists, and the types of fields. */
  readonly schema?: GraphQLSchema | undefined
}

/** The options of {@link complexityOf}. */
export interface ComplexityOptions {
  /** Costs other than 1: whole numbers from 0, by the name of the field or, with a schema, by `'Type.field'`. */
  readonly fields?: { readonly [name: string]: number }
  /** The number of items of a list without a size in the request: a whole number from 1. Default: 10. */
  readonly listSize?: number
  /** The arguments that give the size of a list. Default: `['first', 'last', 'limit']`. */
  readonly sizeArguments?: readonly string[]
}

const MAX_COST = Number.MAX_SAFE_INTEGER

const ONE_ERROR = { maxErrors: 1 }

/** Deeper selections cost {@link MAX_COST}: they would exhaust the stack. */
const MAX_DEPTH = 200

/**
 * Computes the cost of an operation: the number of fields in the largest answer.
 *
 * Each field costs 1. The selections of a list cost their sum once for each item. The number of items, at least 1, is
 * that of an argument `first`, `last` or `limit`. With a schema, the default of such an argument counts, and a list
 * without one has `listSize` items, unless its parent is an object with one, as a connection is to its `edges`. 0 and
 * null are no size. An argument with another value that is no number, or is below 0, makes the cost 2^53 - 1. Sizes
 * within input objects are not seen. All fragments and aliases count. Fields of introspection, and those that `@skip`
 * or `@include` exclude, cost nothing.
 *
 * The time is linear in the length of the document, also with nested fragments.
 *
 * @returns A whole number from 1 to 2^53 - 1.
 * @throws {TollgateError} `INVALID_OPTION`
 *
 * @example
 * useRateLimit({ limiter, key, cost: complexityOf })
 */
export function complexityOf(operation: GraphqlOperation, options: ComplexityOptions = {}): number {
  checkCount(arguments.length, 2, 'complexityOf takes an operation and an object of options')
  const names = ['fields', 'listSize', 'sizeArguments'] as const
  const given = optionsOf('INVALID_OPTION', 'complexityOf', options, names)
  const { fields = {}, listSize = 10, sizeArguments = ['first', 'last', 'limit'] } = given
  if (!Array.isArray(sizeArguments)) {
    throw invalid('INVALID_OPTION', 'complexityOf: sizeArguments', 'must be an array of names', sizeArguments)
  }
  for (const [name, cost] of Object.entries(fields as object)) {
    wholeNumber('INVALID_OPTION', `complexityOf: fields[${JSON.stringify(name)}]`, cost, 0)
  }
  return new Complexity(operation, {
    // A field may have the name of a property of all objects.
    fields: new Map(Object.entries(fields as Readonly<Record<string, number>>)),
    listSize: wholeNumber('INVALID_OPTION', 'complexityOf: listSize', listSize),
    sizeArguments,
  }).cost
}

/** The type of the parent of a selection. */
interface Parent {
  readonly type: GraphQLNamedType | undefined
  /** Whether an argument of the parent gives the number of items, as of a connection. */
  readonly isSized: boolean
}

interface CheckedComplexityOptions {
  readonly fields: ReadonlyMap<string, number>
  readonly listSize: number
  readonly sizeArguments: readonly string[]
}

class Complexity {
  readonly cost: number
  readonly #options: CheckedComplexityOptions
  readonly #schema: GraphQLSchema | undefined
  readonly #fragments = new Map<string, FragmentDefinitionNode>()
  /** The costs of fragments. A fragment costs 0 while it is computed, so that a cycle ends. */
  readonly #fragmentCosts = new Map<string, number>()
  /** The values of the variables, with their defaults. It has no prototype. */
  #variables: { readonly [name: string]: unknown } = Object.create(null)
  #depth = 0

  constructor({ document, variables, operationName, schema }: GraphqlOperation, options: CheckedComplexityOptions) {
    this.#options = options
    this.#schema = schema
    let operation: OperationDefinitionNode | undefined
    for (const definition of document.definitions) {
      if (definition.kind === Kind.FRAGMENT_DEFINITION) {
        this.#fragments.set(definition.name.value, definition)
      } else if (definition.kind === Kind.OPERATION_DEFINITION) {
        const isRun = operationName ? definition.name?.value === operationName : true
        operation ??= isRun ? definition : undefined
      }
    }
    if (operation !== undefined) {
      this.#variables = this.#variablesOf(operation, variables ?? {})
    }
    const type = operation && (schema?.getRootType(operation.operation) ?? undefined)
    const cost = operation === undefined ? 0 : this.#ofSelections(operation.selectionSet, { type, isSized: false })
    this.cost = Math.max(1, cost)
  }

  #ofSelections({ selections }: SelectionSetNode, parent: Parent): number {
    if (this.#depth > MAX_DEPTH) {
      return MAX_COST
    }
    this.#depth++
    let sum = 0
    for (const selection of selections) {
      sum = Math.min(MAX_COST, sum + (this.#isExcluded(selection) ? 0 : this.#ofSelection(selection, parent)))
    }
    this.#depth--
    return sum
  }

  #ofSelection(selection: SelectionNode, parent: Parent): number {
    switch (selection.kind) {
      case Kind.FIELD:
        return this.#ofField(selection, parent)
      case Kind.INLINE_FRAGMENT: {
        const name = selection.typeCondition?.name.value
        const type = name === undefined ? parent.type : this.#schema?.getType(name)
        return this.#ofSelections(selection.selectionSet, { ...parent, type })
      }
      case Kind.FRAGMENT_SPREAD:
        return this.#ofFragment(selection.name.value, parent)
    }
  }

  #ofFragment(name: string, { isSized }: Parent): number {
    const fragment = this.#fragments.get(name)
    const memoKey = `${isSized} ${name}`
    const known = this.#fragmentCosts.get(memoKey)
    if (fragment === undefined || known !== undefined) {
      return known ?? 0
    }
    this.#fragmentCosts.set(memoKey, 0)
    const type = this.#schema?.getType(fragment.typeCondition.name.value)
    const cost = this.#ofSelections(fragment.selectionSet, { type, isSized })
    this.#fragmentCosts.set(memoKey, cost)
    return cost
  }

  #ofField(field: FieldNode, { type: parentType, isSized }: Parent): number {
    const name = field.name.value
    if (name.startsWith('__')) {
      return 0
    }
    const { fields, listSize } = this.#options
    const definition =
      isObjectType(parentType) || isInterfaceType(parentType) ? parentType.getFields()[name] : undefined
    const type = definition?.type
    const size = this.#sizeOf(field, definition?.args ?? [])
    const items = size ?? (isList(type) && !isSized ? listSize : 1)
    const own = fields.get(`${parentType?.name}.${name}`) ?? fields.get(name) ?? 1
    if (field.selectionSet === undefined) {
      return own
    }
    const child = { type: type && getNamedType(type), isSized: size !== undefined && !isList(type) }
    const selected = this.#ofSelections(field.selectionSet, child)
    // An item exists even if only its `__typename` is selected, or nothing.
    return Math.min(MAX_COST, own + items * (items > 1 ? Math.max(1, selected) : selected))
  }

  /** The size of a list, by an argument or its default in the schema. 0 counts as no size, as for many resolvers. */
  #sizeOf({ arguments: given = [] }: FieldNode, declared: readonly GraphQLArgument[]): number | undefined {
    const sizes = this.#options.sizeArguments
      .map((argument) => {
        const node = given.find(({ name }) => name.value === argument)?.value
        return this.#sizeIn(
          node,
          declared.find(({ name }) => name === argument),
        )
      })
      .filter((size) => size > 0)
    return sizes.length === 0 ? undefined : Math.min(MAX_COST, Math.ceil(Math.max(...sizes)))
  }

  /**
   * The size in an argument. An argument that is no number counts as the largest size, because a resolver may read it
   * as a size, or as all items. A default in the schema is its author's choice.
   */
  #sizeIn(node: ValueNode | undefined, definition: GraphQLArgument | undefined): number {
    const value = node && this.#coerced(node, definition)
    if (value === undefined) {
      return numberIn(definition?.defaultValue) ?? 0
    }
    const size = value === null ? 0 : (numberIn(value) ?? MAX_COST)
    return size < 0 ? MAX_COST : size
  }

  /** The value of an argument for its resolver; `undefined` if it is not given. */
  #coerced(node: ValueNode, definition: GraphQLArgument | undefined): unknown {
    // The value of a variable is coerced already.
    const value =
      node.kind === Kind.VARIABLE || definition === undefined
        ? undefined
        : valueFromAST(node, definition.type, this.#variables)
    return value === undefined ? this.#valueOf(node) : value
  }

  /** The values of an operation's variables: coerced by the schema, unless it rejects them. */
  #variablesOf({ variableDefinitions = [] }: OperationDefinitionNode, variables: { readonly [name: string]: unknown }) {
    const coerced = this.#schema && getVariableValues(this.#schema, variableDefinitions, variables, ONE_ERROR).coerced
    const values: { [name: string]: unknown } = Object.create(null)
    for (const { variable, defaultValue } of variableDefinitions) {
      const name = variable.name.value
      // The default replaces an absent variable, and not null.
      const raw = Object.hasOwn(variables, name) ? variables[name] : defaultValue && this.#valueOf(defaultValue)
      values[name] = coerced === undefined ? raw : coerced[name]
    }
    return values
  }

  #isExcluded({ directives = [] }: SelectionNode): boolean {
    return directives.some(({ name, arguments: args = [] }) => {
      const value = args[0] && this.#valueOf(args[0].value)
      return (name.value === 'skip' && value === true) || (name.value === 'include' && value === false)
    })
  }

  /** The value of a node without a type. The value of a list or an object is the node. */
  #valueOf(node: ValueNode): unknown {
    switch (node.kind) {
      case Kind.VARIABLE:
        return this.#variables[node.name.value]
      case Kind.INT:
      case Kind.FLOAT:
        return Number(node.value)
      case Kind.NULL:
        return null
      case Kind.STRING:
      case Kind.BOOLEAN:
      case Kind.ENUM:
        return node.value
      default:
        return node
    }
  }
}

/** The number in a value, also in the text of an `ID` or in a `BigInt`; `undefined` if there is none. */
function numberIn(value: unknown): number | undefined {
  const isNumeric = typeof value === 'bigint' || (typeof value === 'string' && value.trim() !== '')
  const number = isNumeric ? Number(value) : value
  return typeof number === 'number' && !Number.isNaN(number) ? number : undefined
}

function isList(type: GraphQLOutputType | undefined): boolean {
  return type !== undefined && isListType(getNullableType(type))
}
