/**
 * The state of the page, also as the part of its address after `#`:
 * `traffic=steady+rate=4+length=60s&policy=gcra+limit=20+period=10s`. Unknown parts are ignored.
 */
import { ALGORITHMS, type AlgorithmName, isAlgorithm } from './algorithms.js'
import { carriedValues, type FieldLeaf, type FieldValues, initialValues } from './fields.js'
import { isShape, SHAPES, type ShapeName } from './traffic.js'

/** A policy, as text. */
export interface TypedPolicy {
  readonly algorithm: AlgorithmName
  readonly values: FieldValues
}

/** The traffic, as text. */
export interface TypedTraffic {
  readonly shape: ShapeName
  readonly values: FieldValues
}

/** The whole state of the page. */
export interface PageState {
  readonly traffic: TypedTraffic
  readonly policies: readonly TypedPolicy[]
  /** The key whose level is plotted. Default: the busiest key. */
  readonly watch?: string
}

/** The maximum number of policies. */
export const MAX_POLICIES = 3

/** Longer texts are left out of the address, because browsers limit its length. */
const MAX_TEXT = 30_000

/** The default state, for an address without a state. */
export const DEFAULT_STATE: PageState = {
  traffic: trafficOf('edge'),
  policies: [policyOf('fixedWindow'), policyOf('slidingWindow'), policyOf('gcra')],
}

/** A policy with its initial numbers, replaced by those of `values` that it has fields for. */
export function policyOf(algorithm: AlgorithmName, values: FieldValues = {}): TypedPolicy {
  return { algorithm, values: withInitial(ALGORITHMS[algorithm].leaves, values) }
}

/** Traffic with its initial numbers, replaced by those of `values` that it has fields for. */
export function trafficOf(shape: ShapeName, values: FieldValues = {}): TypedTraffic {
  return { shape, values: withInitial(SHAPES[shape].leaves, values) }
}

/** Another algorithm. Numbers of the same meaning are kept. */
export function switchedPolicy({ algorithm, values }: TypedPolicy, to: AlgorithmName): TypedPolicy {
  return policyOf(to, carriedValues(ALGORITHMS[algorithm].leaves, values, ALGORITHMS[to].leaves))
}

/** Another shape of traffic. Numbers of the same meaning are kept. */
export function switchedTraffic({ shape, values }: TypedTraffic, to: ShapeName): TypedTraffic {
  return trafficOf(to, carriedValues(SHAPES[shape].leaves, values, SHAPES[to].leaves))
}

/** The part of an address after `#`. */
export function hashOf({ traffic, policies, watch }: PageState): string {
  const parts = [
    `traffic=${textOf(traffic.shape, SHAPES[traffic.shape].leaves, traffic.values)}`,
    ...policies.map(({ algorithm, values }) => `policy=${textOf(algorithm, ALGORITHMS[algorithm].leaves, values)}`),
    ...(watch === undefined ? [] : [`watch=${escaped(watch)}`]),
  ]
  return parts.join('&')
}

/** Whether the whole state fits into an address. */
export function fits({ traffic }: PageState): boolean {
  return Object.values(traffic.values).every((text) => text.length <= MAX_TEXT)
}

/** The state of an address. Missing parts have their default. */
export function stateOf(hash: string): PageState {
  const parts = hash
    .replace(/^#/, '')
    .split('&')
    .map((part) => part.split(/=(.*)/s) as [string, string?])
  const all = (name: string) => parts.flatMap(([key, text]) => (key === name && text !== undefined ? [text] : []))
  const traffics = all('traffic')
    .map(read)
    .filter(([name]) => isShape(name))
  const policies = all('policy')
    .map(read)
    .filter(([name]) => isAlgorithm(name))
  const [watch] = all('watch').map(unescaped)
  const [shape, values] = traffics[0] ?? [DEFAULT_STATE.traffic.shape, {}]
  return {
    traffic: trafficOf(shape as ShapeName, values),
    policies:
      policies.length === 0
        ? DEFAULT_STATE.policies
        : policies.slice(0, MAX_POLICIES).map(([name, values]) => policyOf(name as AlgorithmName, values)),
    ...(watch ? { watch } : {}),
  }
}

/** The values of existing fields. An unknown choice is dropped. */
function withInitial(leaves: readonly FieldLeaf[], values: FieldValues): FieldValues {
  const entries = leaves.flatMap(({ path, choices }) => {
    const text = Object.hasOwn(values, path) ? values[path] : undefined
    const isValid = text !== undefined && (choices === undefined || choices.includes(text))
    return isValid ? [[path, text] as const] : []
  })
  return { ...initialValues(leaves), ...Object.fromEntries(entries) }
}

function textOf(name: string, leaves: readonly FieldLeaf[], values: FieldValues): string {
  const explicit = leaves.filter(({ path, initial, choices, kind }) => {
    const text = values[path] ?? ''
    const isDefault = text === '' ? initial === '' : choices?.[0] === text
    return !isDefault && !(kind === 'lines' && text.length > MAX_TEXT)
  })
  return [name, ...explicit.map(({ path }) => `${path}=${escaped(values[path] ?? '')}`)].join('+')
}

function read(text: string): readonly [name: string, values: FieldValues] {
  const [name = '', ...rest] = text.split('+')
  const values = rest.map((word) => word.split(/=(.*)/s)).map(([path = '', value = '']) => [path, unescaped(value)])
  return [unescaped(name), Object.fromEntries(values)]
}

/** Escapes only the characters that require it, because people read addresses. */
function escaped(text: string): string {
  const wellFormed = text.replace(/\p{Surrogate}/gu, '\ufffd')
  return encodeURIComponent(wellFormed).replace(/%(3A|2F|2C)/g, (code) => decodeURIComponent(code))
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text).slice(0, MAX_TEXT)
  } catch {
    return ''
  }
}
