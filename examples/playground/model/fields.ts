/**
 * The fields of a form. Forms, links and code are generated from one description of the fields, so
 * an option is written once. Input is kept as text: only the engine validates it.
 */

/** The type of a field: how its input is read. */
export type FieldKind = 'whole' | 'number' | 'duration' | 'choice' | 'flag' | 'name' | 'lines' | 'limits'

/** One option. */
export interface FormField {
  readonly kind: FieldKind
  readonly label: string
  /** The initial text; `''` for an option that may be omitted. */
  readonly initial: string
  /** A hint for an empty field: the default value, or the unit. */
  readonly hint?: string
  /** The values of a choice. The first is the default. */
  readonly choices?: readonly string[]
  /** Fields of different forms keep their text when the form changes, if they mean the same. */
  readonly meaning?: string
}

/** Fields by the names of their options. Nested options form a subtree. */
export interface FieldTree {
  readonly [name: string]: FormField | FieldTree
}

/** A field for each option of a function, except those of keys, costs and settlements: the traffic has one key and all costs. */
export type FieldsFor<O> = {
  readonly [Name in keyof O as Exclude<Name, 'per' | 'defaultCost' | 'maxOwed'>]-?: FieldFor<NonNullable<O[Name]>>
}

// The type of an option that needs a type argument is `never`.
type FieldFor<T> = [T] extends [never]
  ? FormField
  : T extends object
    ? string extends keyof T
      ? FormField
      : FieldsFor<T>
    : FormField

/** A field with its path: `refill.tokens`. */
export interface FieldLeaf extends FormField {
  readonly path: string
}

/** Input texts, by the paths of the fields. */
export type FieldValues = Readonly<Record<string, string>>

/** All fields of a tree, in order. */
export function leavesOf(tree: FieldTree, prefix = ''): readonly FieldLeaf[] {
  return Object.entries(tree).flatMap(([name, node]) =>
    isField(node) ? [{ ...node, path: prefix + name }] : leavesOf(node, `${prefix}${name}.`),
  )
}

/** The initial texts of the fields. */
export function initialValues(leaves: readonly FieldLeaf[]): FieldValues {
  return Object.fromEntries(leaves.map(({ path, initial }) => [path, initial]))
}

/** The texts of the old form's fields that mean the same as fields of the new form. */
export function carriedValues(from: readonly FieldLeaf[], values: FieldValues, to: readonly FieldLeaf[]): FieldValues {
  const entries = to.flatMap(({ path, meaning }) => {
    const same = meaning === undefined ? undefined : from.find((leaf) => leaf.meaning === meaning)
    return same === undefined ? [] : [[path, values[same.path] ?? ''] as const]
  })
  return Object.fromEntries(entries)
}

/** The options from the input texts. Empty fields are omitted. */
export function optionsFrom(tree: FieldTree, values: FieldValues, prefix = ''): Record<string, unknown> {
  const entries = Object.entries(tree).map(([name, node]): [string, unknown] => {
    const path = prefix + name
    return [name, isField(node) ? parseField(node, values[path] ?? '') : optionsFrom(node, values, `${path}.`)]
  })
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined))
}

/**
 * The value of an input text. A text that cannot be read is returned unchanged, and the engine
 * rejects it.
 */
export function parseField(field: FormField, typed: string): unknown {
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

/** A named limit, as text. */
export interface TypedLimit {
  readonly name: string
  readonly limit: string
  readonly window: string
}

/** Parses limits from one text: `second:3/1s,hour:100/1h`. */
export function typedLimits(text: string): readonly TypedLimit[] {
  return text.split(',').map((one) => {
    const [, name = '', limit = '', window = ''] = /^([^:]*):?([^/]*)\/?(.*)$/s.exec(one) ?? []
    return { name, limit, window }
  })
}

/** Joins limits into one text. Separators inside of them are removed. */
export function limitsText(limits: readonly TypedLimit[]): string {
  const plain = (text: string) => text.replace(/[,:/]/g, '')
  return limits.map(({ name, limit, window }) => `${plain(name)}:${plain(limit)}/${plain(window)}`).join(',')
}

function limitsFrom(text: string): Record<string, unknown> {
  const [whole, duration] = (['whole', 'duration'] as const).map((kind) => ({ kind, label: '', initial: '' }))
  return Object.fromEntries(
    typedLimits(text).map(({ name, limit, window }) => [
      name.trim(),
      { limit: parseField(whole as FormField, limit), window: parseField(duration as FormField, window) },
    ]),
  )
}

function isField(node: FormField | FieldTree): node is FormField {
  const { kind } = node
  return typeof kind === 'string'
}
