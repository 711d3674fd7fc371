import { TollgateError } from '../api/error.js'
import type { Policy } from '../policies/policy.js'
import type { AuthInfoLike, ToolCall, ToolKey } from './options.js'

/** The caller of a call. A user may register any number of clients, so the subject of a token comes first. */
export function principalOf(authInfo: AuthInfoLike | undefined): string | undefined {
  const subject = authInfo?.extra?.['sub']
  if (typeof subject === 'string' && subject !== '') {
    return `sub:${subject}`
  }
  return authInfo === undefined ? undefined : `client:${authInfo.clientId}`
}

const PARTS: { readonly [Part in keyof ToolKey]: (call: ToolCall) => string } = {
  principal: knownPrincipal,
  tool: ({ tool }) => tool,
  principalTool: (call) => JSON.stringify([knownPrincipal(call), call.tool]),
}

/** The function that makes the keys of calls if the options name none. */
export function defaultKeyFor(policies: { readonly [name: string]: Policy }): (call: ToolCall) => unknown {
  const dimensions = Object.values(policies).flatMap(({ per }) => (per === undefined ? [] : [per]))
  if (dimensions.length === 0) {
    return knownPrincipal
  }
  const unknown = dimensions.find((name) => name !== 'global' && !Object.hasOwn(PARTS, name))
  if (unknown !== undefined) {
    const known = Object.keys(PARTS).join(', ')
    throw new TollgateError('INVALID_OPTION', `limitTools: key must be given: its part ${unknown} is none of ${known}`)
  }
  const parts = (Object.keys(PARTS) as (keyof ToolKey)[]).filter((part) => dimensions.includes(part))
  return (call) => Object.fromEntries(parts.map((part) => [part, PARTS[part](call)]))
}

function knownPrincipal({ principal }: ToolCall): string {
  if (principal === undefined) {
    const fix = 'verify tokens (requireBearerAuth), or give limitTools a key'
    throw new TollgateError('INVALID_KEY', `the request has no access token, and so no principal; ${fix}`)
  }
  return principal
}
