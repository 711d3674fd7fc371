/**
 * What a person fills in. Forms, links and code are made of one description of the fields, so an option is written
 * once. What has been typed is kept as text: only the engine says whether it is right.
 */

/** What is typed into a field, and how it is read. */
export type Kind = 'whole' | 'number' | 'duration' | 'choice' | 'flag' | 'name' | 'lines' | 'limits'

/** One option. */
export interface Field {
  readonly kind: Kind
  readonly label: string
  /** What stands in it at first; an option that may be left out has `''`. */
  readonly initial: string
  /** What holds while it is empty, or what it is counted in. */
  readonly hint?: string
  /** Of a choice; the first is what holds if none is made. */
  readonly choices?: readonly string[]
}

/** Fields by the names of their options; options within an option stand in a tree of their own. */
export interface Tree {
  readonly [name: string]: Field | Tree
}

/** A field for each option of a function, without `per`, as a playground has no parts of keys. */
export type FieldsFor<O> = {
  readonly [Name in keyof O as Exclude<Name, 'per'>]-?: FieldFor<NonNullable<O[Name]>>
}

type FieldFor<T> = T extends object ? (string extends keyof T ? Field : FieldsFor<T>) : Field

/** A field with the way to it: `refill.tokens`. */
export interface Leaf extends Field {
  readonly path: string
}

/** What has been typed, by the paths of the fields. */
export type Values = Readonly<Record<string, string>>

/** All fields of a tree, in order. */
export function leavesOf(tree: Tree, prefix = ''): readonly Leaf[] {
  return Object.entries(tree).flatMap(([name, node]) =>
    isField(node) ? [{ ...node, path: prefix + name }] : leavesOf(node, `${prefix}${name}.`),
  )
}

/** What stands in the fields at first. */
export function initialValues(leaves: readonly Leaf[]): Values {
  return Object.fromEntries(leaves.map(({ path, initial }) => [path, initial]))
}

/** The options that the fields hold; those that are empty are left out. */
export function optionsFrom(tree: Tree, values: Values, prefix = ''): Record<string, unknown> {
  const entries = Object.entries(tree).map(([name, node]): [string, unknown] => {
    const path = prefix + name
    return [name, isField(node) ? meaningOf(node, values[path] ?? '') : optionsFrom(node, values, `${path}.`)]
  })
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined))
}

/** What a text means in a field. What cannot be read is passed on as it is, for the engine to refuse. */
export function meaningOf(field: Field, typed: string): unknown {
  const text = typed.trim()
  if (text === '') {
    return undefined
  }
  switch (field.kind) {
    case 'whole':
    case 'number':
    case 'duration':
      return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text
    case 'flag':
      return text === 'true' ? true : undefined
    case 'choice':
      return text === field.choices?.[0] ? undefined : text
    case 'limits':
      return limitsFrom(text)
    default:
      return typed
  }
}

/** A limit with its name, as typed. */
export interface TypedLimit {
  readonly name: string
  readonly limit: string
  readonly window: string
}

/** Limits as one text: `second:3/1s,hour:100/1h`. */
export function typedLimits(text: string): readonly TypedLimit[] {
  return text.split(',').map((one) => {
    const [, name = '', limit = '', window = ''] = /^([^:]*):?([^/]*)\/?(.*)$/s.exec(one) ?? []
    return { name, limit, window }
  })
}

/** The text of limits; what parts them cannot be in them. */
export function limitsText(limits: readonly TypedLimit[]): string {
  const plain = (text: string) => text.replace(/[,:/]/g, '')
  return limits.map(({ name, limit, window }) => `${plain(name)}:${plain(limit)}/${plain(window)}`).join(',')
}

function limitsFrom(text: string): Record<string, unknown> {
  const [whole, duration] = (['whole', 'duration'] as const).map((kind) => ({ kind, label: '', initial: '' }))
  return Object.fromEntries(
    typedLimits(text).map(({ name, limit, window }) => [
      name.trim(),
      { limit: meaningOf(whole as Field, limit), window: meaningOf(duration as Field, window) },
    ]),
  )
}

function isField(node: Field | Tree): node is Field {
  const { kind } = node
  return typeof kind === 'string'
}
