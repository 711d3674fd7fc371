import { TollgateError } from '../../api/error.js'
import { invalid, oneOf, optionalFunction, shown } from '../../input/options.js'
import { suggestionFor } from '../../input/suggestion.js'
import type { AnyNestOptions, NestNamedLimiter } from './options.js'

/** Checks the options of Nest alone. `where` says where they are, for messages. */
export function checkOwnOptions(where: string, options: AnyNestOptions): void {
  for (const name of ['requestOf', 'responseOf'] as const) {
    optionalFunction(`${where}: ${name}`, options[name])
  }
  const { scope = 'limiter', limiter } = options
  oneOf('INVALID_OPTION', `${where}: scope`, scope, ['limiter', 'handler'])
  if (scope === 'handler' && Object.values(limiter?.policies ?? {}).some(({ per }) => per !== undefined)) {
    const rule = "scope cannot be 'handler': the limiter's keys have several parts"
    const advice = `write the handler into a part of the key, such as \`\${context.getHandler().name}:\${account}\``
    throw new TollgateError('INVALID_OPTION', `${where}: ${rule}: ${advice}`)
  }
}

export function namesOf({ limiters }: AnyNestOptions): readonly string[] {
  if (limiters === undefined) {
    return []
  }
  if (typeof limiters !== 'object' || limiters === null || Object.keys(limiters).length === 0) {
    const rule = 'must be an object of named limiters'
    throw invalid('INVALID_OPTION', 'RateLimit: limiters', rule, limiters, 'write { login: { limiter } }')
  }
  return Object.keys(limiters)
}

/** The options of a named limiter. `place` says where its name is used, for messages. */
export function namedLimiter(options: AnyNestOptions, name: string, place: string): NestNamedLimiter {
  const names = namesOf(options)
  if (!names.includes(name)) {
    const meant = suggestionFor(name, names)
    const advice = meant === undefined ? '' : `; did you mean ${shown(meant)}?`
    const known = names.length === 0 ? 'RateLimitModule has no limiters' : `limiters has ${names.map(shown).join(', ')}`
    const unknown = `RateLimit(${shown(name)}) of ${place} names an unknown limiter`
    throw new TollgateError('INVALID_OPTION', `${unknown}: ${known}${advice}`)
  }
  const named: unknown = options.limiters?.[name]
  if (typeof named !== 'object' || named === null || !('limiter' in named)) {
    const rule = 'must be an object of options with a limiter'
    throw invalid('INVALID_OPTION', `RateLimit: limiters.${name}`, rule, named, 'write { limiter }')
  }
  return named as NestNamedLimiter
}
