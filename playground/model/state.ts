/**
 * What is on the page, and as the part of its address after `#`:
 * `traffic=steady+rate=4+length=60s&policy=gcra+limit=20+period=10s`. Whatever else stands there is passed over.
 */
import { ALGORITHMS, type AlgorithmName, isAlgorithm } from './algorithms.js'
import { initialValues, type Leaf, type Values } from './fields.js'
import { isShape, SHAPES, type ShapeName } from './traffic.js'

/** A policy as typed. */
export interface TypedPolicy {
  readonly algorithm: AlgorithmName
  readonly values: Values
}

/** The traffic as typed. */
export interface TypedTraffic {
  readonly shape: ShapeName
  readonly values: Values
}

/** All that a person can change. */
export interface State {
  readonly traffic: TypedTraffic
  readonly policies: readonly TypedPolicy[]
  /** The key whose level is shown; without one the busiest. */
  readonly watch?: string
}

/** The most policies side by side. */
export const MOST_POLICIES = 3

/** Texts that are longer stay out of the address, which browsers cut somewhere. */
const LONGEST_TEXT = 30_000

/** What is shown to who comes without an address. */
export const DEFAULT_STATE: State = {
  traffic: trafficOf('edge'),
  policies: [policyOf('fixedWindow'), policyOf('slidingWindow'), policyOf('gcra')],
}

/** A policy with its first numbers, and those of `values` that it has fields for. */
export function policyOf(algorithm: AlgorithmName, values: Values = {}): TypedPolicy {
  return { algorithm, values: known(ALGORITHMS[algorithm].leaves, values) }
}

/** Traffic with its first numbers, and those of `values` that it has fields for. */
export function trafficOf(shape: ShapeName, values: Values = {}): TypedTraffic {
  return { shape, values: known(SHAPES[shape].leaves, values) }
}

/** The part of an address after `#`. */
export function hashOf({ traffic, policies, watch }: State): string {
  const parts = [
    `traffic=${words(traffic.shape, SHAPES[traffic.shape].leaves, traffic.values)}`,
    ...policies.map(({ algorithm, values }) => `policy=${words(algorithm, ALGORITHMS[algorithm].leaves, values)}`),
    ...(watch === undefined ? [] : [`watch=${escaped(watch)}`]),
  ]
  return parts.join('&')
}

/** Whether all of a state fits into an address. */
export function fits({ traffic }: State): boolean {
  return Object.values(traffic.values).every((text) => text.length <= LONGEST_TEXT)
}

/** The state that an address tells of; what it does not tell is as at first. */
export function stateOf(hash: string): State {
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
        : policies.slice(0, MOST_POLICIES).map(([name, values]) => policyOf(name as AlgorithmName, values)),
    ...(watch ? { watch } : {}),
  }
}

/** The values of fields that there are; a choice that there is not is none. */
function known(leaves: readonly Leaf[], values: Values): Values {
  const entries = leaves.flatMap(({ path, choices }) => {
    const text = Object.hasOwn(values, path) ? values[path] : undefined
    const isKnown = text !== undefined && (choices === undefined || choices.includes(text))
    return isKnown ? [[path, text] as const] : []
  })
  return { ...initialValues(leaves), ...Object.fromEntries(entries) }
}

function words(name: string, leaves: readonly Leaf[], values: Values): string {
  const said = leaves.filter(({ path, initial, choices, kind }) => {
    const text = values[path] ?? ''
    const goesWithoutSaying = text === '' ? initial === '' : choices?.[0] === text
    return !goesWithoutSaying && !(kind === 'lines' && text.length > LONGEST_TEXT)
  })
  return [name, ...said.map(({ path }) => `${path}=${escaped(values[path] ?? '')}`)].join('+')
}

function read(text: string): readonly [name: string, values: Values] {
  const [name = '', ...rest] = text.split('+')
  const values = rest.map((word) => word.split(/=(.*)/s)).map(([path = '', value = '']) => [path, unescaped(value)])
  return [unescaped(name), Object.fromEntries(values)]
}

/** What need not be escaped after `#` is not: people read addresses. */
function escaped(text: string): string {
  const wellFormed = text.replace(/\p{Surrogate}/gu, '\ufffd')
  return encodeURIComponent(wellFormed).replace(/%(3A|2F|2C)/g, (code) => decodeURIComponent(code))
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text).slice(0, LONGEST_TEXT)
  } catch {
    return ''
  }
}
