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
  isInterfaceType,
  isListType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionNode,
  type SelectionSetNode,
  type ValueNode,
} from 'graphql'
import { checkCount, invalid, optionsOf, wholeNumber } from '../../input/options.js'

/** An operation whose cost is computed. Calls of `useRateLimit` and `rateLimitPlugin` are such operations. */
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
  /**
   * The costs of fields that do not cost 1: whole numbers from 0, by the name of the field or, with a
   * schema, by `'Type.field'`.
   */
  readonly fields?: { readonly [name: string]: number }
  /** The number of items of a list without a size in the request: a whole number from 1. Default: 10. */
  readonly listSize?: number
  /** The arguments that give the size of a list. Default: `['first', 'last', 'limit']`. */
  readonly sizeArguments?: readonly string[]
}

const MAX_COST = Number.MAX_SAFE_INTEGER

/** Deeper selections cost {@link MAX_COST}: they would exhaust the stack. */
const MAX_DEPTH = 200

/**
 * Computes the cost of an operation: the number of fields in the largest answer.
 *
 * Each field costs 1, and what is selected of it once more for each item: as many as an argument
 * `first`, `last` or `limit` says. With a schema, the default of such an argument counts, and a list
 * without one has `listSize` items, unless its parent is an object with one, as a connection is to its
 * `edges`. Sizes within input objects are not seen. All fragments and aliases count. Fields of introspection, and
 * those that `@skip` or `@include` exclude, cost nothing.
 *
 * The time is linear in the length of the document, whatever its fragments are.
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
  /** Whether an argument of the parent gives the number of items, as with a connection and its edges. */
  readonly isSized: boolean
}

/** The checked {@link ComplexityOptions}. */
interface CheckedComplexityOptions {
  readonly fields: ReadonlyMap<string, number>
  readonly listSize: number
  readonly sizeArguments: readonly string[]
}

/** The computation for one operation. */
class Complexity {
  readonly cost: number
  readonly #options: CheckedComplexityOptions
  readonly #schema: GraphQLSchema | undefined
  readonly #fragments = new Map<string, FragmentDefinitionNode>()
  /** The costs of fragments. A fragment that is being computed costs 0, so that a cycle ends. */
  readonly #fragmentCosts = new Map<string, number>()
  readonly #variables = new Map<string, unknown>()
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
    for (const { variable, defaultValue } of operation?.variableDefinitions ?? []) {
      const name = variable.name.value
      // The default replaces an absent variable, and not null.
      const isGiven = variables != null && Object.hasOwn(variables, name)
      this.#variables.set(name, isGiven ? variables[name] : defaultValue && this.#valueOf(defaultValue))
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
    return Math.min(MAX_COST, own + items * this.#ofSelections(field.selectionSet, child))
  }

  /**
   * The size of a list, by an argument or its default in the schema; `undefined` if there is none. 0
   * counts as no size, because many resolvers read it so.
   */
  #sizeOf({ arguments: given = [] }: FieldNode, declared: readonly GraphQLArgument[]): number | undefined {
    const sizes = this.#options.sizeArguments
      .map((size) => {
        const argument = given.find(({ name }) => name.value === size)
        return argument === undefined
          ? declared.find(({ name }) => name === size)?.defaultValue
          : this.#valueOf(argument.value)
      })
      .filter((size): size is number => typeof size === 'number' && size > 0)
    return sizes.length === 0 ? undefined : Math.min(MAX_COST, Math.ceil(Math.max(...sizes)))
  }

  /** Whether `@skip` or `@include` excludes a selection. */
  #isExcluded({ directives = [] }: SelectionNode): boolean {
    return directives.some(({ name, arguments: args = [] }) => {
      const value = args[0] && this.#valueOf(args[0].value)
      return (name.value === 'skip' && value === true) || (name.value === 'include' && value === false)
    })
  }

  /** The value of a number, a truth value or a variable; `undefined` for others. */
  #valueOf(node: ValueNode): unknown {
    switch (node.kind) {
      case Kind.INT:
        return Number(node.value)
      case Kind.BOOLEAN:
        return node.value
      case Kind.VARIABLE:
        return this.#variables.get(node.name.value)
      default:
        return undefined
    }
  }
}

function isList(type: GraphQLOutputType | undefined): boolean {
  return type !== undefined && isListType(getNullableType(type))
}
