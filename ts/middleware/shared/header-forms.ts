import { TollgateError } from '../../api/error.js'
import { invalid } from '../../input/options.js'

/**
 * A form of the response headers: draft 11, draft 8 (also 9) or draft 6 of draft-ietf-httpapi-ratelimit-headers, or the
 * older `X-RateLimit-*`.
 *
 * @example
 * const headers: HeaderForm[] = ['draft-6', 'draft-8']
 * rateLimitHeaders(limiter, decision, { headers })
 */
export type HeaderForm = 'draft-11' | 'draft-8' | 'draft-6' | 'legacy'

const FORMS: readonly unknown[] = ['draft-11', 'draft-8', 'draft-6', 'legacy'] satisfies HeaderForm[]

/** Checks a form, or an array of forms. `others` are the other values of the option, for messages. */
export function headerFormsOf(option: string, value: unknown, others = ''): readonly HeaderForm[] {
  const forms: readonly unknown[] = Array.isArray(value) ? value : [value]
  const other = forms.find((form) => !FORMS.includes(form))
  if (other !== undefined || forms.length === 0 || forms.includes(undefined)) {
    const rule = `must be 'draft-11', 'draft-8', 'draft-6', 'legacy'${others === '' ? ' or' : ','} an array of these${others}`
    throw invalid('INVALID_OPTION', option, rule, forms.length === 0 ? value : other)
  }
  if (new Set(forms).size < forms.length) {
    throw new TollgateError('INVALID_OPTION', `${option} must have each form only once`)
  }
  if (forms.includes('draft-8') && forms.includes('draft-11')) {
    const rule = "must not have both 'draft-8' and 'draft-11', which use the same headers"
    throw new TollgateError('INVALID_OPTION', `${option} ${rule}; choose one of them`)
  }
  return forms as readonly HeaderForm[]
}
