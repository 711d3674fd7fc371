import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLArgument,
  type GraphQLField,
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
import { checkCount, invalid, isPlain, optionsOf, wholeNumber } from '../../input/options.js'

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
  /**
   * Costs other than 1: whole numbers from 0, by the name of the field or, with a schema, by `'Type.field'`. The cost of
   * an interface's field is that of the types which implement it and have no own one.
   */
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
 * within input objects are not seen. The size of a list of lists is that of the outer list; each inner list has
 * `listSize` items. A field that is selected through an interface costs as in the type where it costs most. All
 * fragments and aliases count. Fields of introspection, and those that `@skip` or `@include` exclude, cost nothing.
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
  if (!Array.isArray(sizeArguments) || !sizeArguments.every((name) => typeof name === 'string')) {
    throw invalid('INVALID_OPTION', 'complexityOf: sizeArguments', 'must be an array of names', sizeArguments)
  }
  const costs = Object.entries(objectOf('fields', 'must be an object of costs by name', fields))
  return new Complexity(operation, {
    // A field may have the name of a property of all objects.
    fields: new Map(
      costs.map(([name, cost]) => {
        return [name, wholeNumber('INVALID_OPTION', `complexityOf: fields[${JSON.stringify(name)}]`, cost, 0)]
      }),
    ),
    listSize: wholeNumber('INVALID_OPTION', 'complexityOf: listSize', listSize),
    sizeArguments,
  }).cost
}

/** Checks an object of values by name. A `Map` or a promise has no such values, and they would be ignored. */
function objectOf(name: string, rule: string, value: unknown): { readonly [name: string]: unknown } {
  if (typeof value === 'object' && value !== null && isPlain(value)) {
    return value as { readonly [name: string]: unknown }
  }
  const advice = value instanceof Map ? 'write Object.fromEntries(map)' : undefined
  throw invalid('INVALID_OPTION', `complexityOf: ${name}`, rule, value, advice)
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

/** An argument that may give the size of a list. */
interface SizeArgument {
  readonly name: string
  readonly definition: GraphQLArgument | undefined
  /** The size if the argument is not given: the largest default of all types; 0 if none has one. */
  readonly defaultSize: number
  /** Whether it has a default in each type. */
  readonly isAlwaysSized: boolean
}

/** What the cost of a field needs to know of its type, or of all types that implement the interface. */
interface FieldCosts {
  readonly type: GraphQLNamedType | undefined
  /** The lists around the type: 2 for a list of lists. */
  readonly listCount: number
  readonly own: number
  readonly sizeArguments: readonly SizeArgument[]
}

class Complexity {
  readonly cost: number
  readonly #options: CheckedComplexityOptions
  readonly #schema: GraphQLSchema | undefined
  readonly #fragments = new Map<string, FragmentDefinitionNode>()
  /** The costs of fragments. A fragment costs 0 while it is computed, so that a cycle ends. */
  readonly #fragmentCosts = new Map<string, number>()
  /** By the type of the parent and the name. An interface may have many types, and an operation many fields. */
  readonly #fieldCosts = new Map<GraphQLNamedType | undefined, Map<string, FieldCosts>>()
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
    const { type, listCount, own, sizeArguments } = this.#costsOf(parentType, name)
    if (field.selectionSet === undefined) {
      return own
    }
    const { listSize } = this.#options
    const usual = listCount > 0 && !isSized ? listSize : 1
    const sizes = sizeArguments.map((argument) => this.#sizeIn(field, argument))
    const size = Math.min(MAX_COST, Math.ceil(Math.max(0, ...sizes.map(({ size }) => size))))
    // A default of some types only: in the others a list, or a list of the object, has the usual size.
    const least = sizes.some(({ isCertain }) => isCertain) ? 1 : listCount > 0 ? usual : listSize
    const outer = size === 0 ? usual : Math.max(size, least)
    const items = Math.min(MAX_COST, outer * listSize ** Math.max(0, listCount - 1))
    const selected = this.#ofSelections(field.selectionSet, { type, isSized: size > 0 && listCount === 0 })
    // An item exists even if only its `__typename` is selected, or nothing.
    return Math.min(MAX_COST, own + items * (items > 1 ? Math.max(1, selected) : selected))
  }

  #costsOf(parentType: GraphQLNamedType | undefined, name: string): FieldCosts {
    const known = this.#fieldCosts.get(parentType) ?? new Map<string, FieldCosts>()
    this.#fieldCosts.set(parentType, known)
    const existing = known.get(name)
    if (existing !== undefined) {
      return existing
    }
    const definition = fieldIn(parentType, name)
    // The resolver and the defaults are those of an object's type, also if a field is selected through an interface.
    const types = isInterfaceType(parentType) ? (this.#schema?.getPossibleTypes(parentType) ?? []) : []
    const costs = types.map((type) => this.#ownCost(type, name))
    const ofInterface = this.#options.fields.get(`${parentType?.name}.${name}`) ?? 0
    const made: FieldCosts = {
      type: definition && getNamedType(definition.type),
      listCount: definition === undefined ? 0 : listCountOf(definition.type),
      own: costs.length === 0 ? this.#ownCost(parentType, name) : Math.max(ofInterface, ...costs),
      sizeArguments: this.#options.sizeArguments.map((argument) => {
        const inTypes = types.map((type) => argumentIn(fieldIn(type, name), argument))
        return sizeArgumentOf(argument, argumentIn(definition, argument), inTypes)
      }),
    }
    known.set(name, made)
    return made
  }

  /** The cost of a field of a type: its own one, that of an interface, that of its name, or 1. */
  #ownCost(type: GraphQLNamedType | undefined, name: string): number {
    const { fields } = this.#options
    const own = fields.get(`${type?.name}.${name}`)
    if (own !== undefined) {
      return own
    }
    const interfaces = isObjectType(type) || isInterfaceType(type) ? type.getInterfaces() : []
    const costs = interfaces.map((type) => fields.get(`${type.name}.${name}`)).filter((cost) => cost !== undefined)
    return costs.length === 0 ? (fields.get(name) ?? 1) : Math.max(...costs)
  }

  /**
   * The size in an argument, and whether each type has one; 0 counts as no size, as for many resolvers. An argument that
   * is no number counts as the largest size, because a resolver may read it as a size, or as all items. A default in the
   * schema is its author's choice.
   */
  #sizeIn({ arguments: given = [] }: FieldNode, argument: SizeArgument): { size: number; isCertain: boolean } {
    const node = given.find(({ name }) => name.value === argument.name)?.value
    const value = node && this.#coerced(node, argument.definition)
    if (value === undefined) {
      return { size: argument.defaultSize, isCertain: argument.isAlwaysSized }
    }
    const size = value === null ? 0 : (numberIn(value) ?? MAX_COST)
    return { size: size < 0 ? MAX_COST : size, isCertain: size !== 0 }
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

/** A field of an object or an interface. */
function fieldIn(type: GraphQLNamedType | undefined, name: string): GraphQLField<unknown, unknown> | undefined {
  return isObjectType(type) || isInterfaceType(type) ? type.getFields()[name] : undefined
}

function argumentIn(field: GraphQLField<unknown, unknown> | undefined, name: string): GraphQLArgument | undefined {
  return field?.args.find((argument) => argument.name === name)
}

/** @param inTypes - The argument in each type that implements the interface; empty for an object. */
function sizeArgumentOf(
  name: string,
  definition: GraphQLArgument | undefined,
  inTypes: readonly (GraphQLArgument | undefined)[],
): SizeArgument {
  const own = defaultSizeOf(definition)
  const others = inTypes.map(defaultSizeOf)
  const isAlwaysSized = others.length === 0 ? own > 0 : others.every((size) => size > 0)
  return { name, definition, defaultSize: Math.max(own, ...others), isAlwaysSized }
}

/** The size that the default of an argument states. The result is 0 if the default is no size. */
function defaultSizeOf(definition: GraphQLArgument | undefined): number {
  return Math.max(0, numberIn(definition?.defaultValue) ?? 0)
}

/** The lists around a type: 2 for a list of lists. */
function listCountOf(type: GraphQLOutputType): number {
  const inner = getNullableType(type)
  return isListType(inner) ? 1 + listCountOf(inner.ofType) : 0
}
