import type { Decision, NotAllowed } from '../../api/decision.js'
import type { InvalidInputAnswer, Message } from './options.js'

/** A response of the middleware itself. */
export interface OwnResponse {
  readonly status: number
  readonly message: Message
  /** The media type of an object. Default: `application/json`. */
  readonly type?: 'application/problem+json' | undefined
}

export const IMPOSSIBLE_STATUS = 413

export const REFUSAL_MESSAGE = 'Too many requests, please try again later.'

export const IMPOSSIBLE_MESSAGE =
  'This request costs more than its limit can ever allow. Do not send it again unchanged.'

export const STORE_FAILURE_MESSAGE = 'Service unavailable, please try again later.'

const INVALID_MESSAGE = 'Bad Request'

/** The answer to a client that has gone, where there must be one. Servers log this status for it. */
export const CLIENT_GONE: OwnResponse = { status: 499, message: 'Client Closed Request' }

const REGISTRY = 'https://iana.org/assignments/http-problem-types#'

/** The answer to a request that has no decision because the store failed. */
export const UNAVAILABLE: OwnResponse = { status: 503, message: 'Service Unavailable' }

/** The response to a request without a valid key or cost. `answer` is the return value of `onInvalidInput`. */
export function invalidInputResponse(answer: unknown, isProblem: boolean): OwnResponse {
  const { statusCode, message } = (answer ?? {}) as InvalidInputAnswer<unknown>
  const status = statusCode ?? 400
  if (!isProblem) {
    return { status, message: message ?? INVALID_MESSAGE }
  }
  // A problem without its own type has the title of the status (RFC 9457, 4.2.1).
  const title = status === 400 ? { title: INVALID_MESSAGE } : {}
  return problem({ type: 'about:blank', ...title, status }, message)
}

/** The response to a refused request. `message` is the configured body; `itemNameOf` is the name in headers. */
export function refusalResponse(
  decision: NotAllowed,
  status: number,
  message: Message,
  isProblem: boolean,
  itemNameOf: (name: string, limitCount: number) => string,
): OwnResponse {
  if (!isProblem) {
    return { status, message }
  }
  const limitCount = Object.keys(decision.policies).length
  const violated = violatedBy(decision).map((name) => itemNameOf(name, limitCount))
  return problem({ ...problemTypeOf(decision), status, 'violated-policies': violated }, message)
}

/** The name of a refusal in protocols whose errors have codes in place of statuses. */
export function refusalCodeOf({ source, status }: NotAllowed) {
  return source === 'none' ? 'SERVICE_UNAVAILABLE' : status === 'impossible' ? 'PAYLOAD_TOO_LARGE' : 'TOO_MANY_REQUESTS'
}

/** A message as a text, for protocols whose errors have one. */
export function messageText(message: unknown): string {
  return typeof message === 'string' ? message : JSON.stringify(message)
}

/** A problem of RFC 9457. A text becomes its `detail`; the members of an object are added. */
function problem(members: object, message: Message | undefined): OwnResponse {
  const added = typeof message === 'string' ? { detail: message } : message
  return {
    status: (members as OwnResponse).status,
    message: { ...members, ...added },
    type: 'application/problem+json',
  }
}

function problemTypeOf({ source, status }: Decision): { readonly type: string; readonly title: string } {
  if (source === 'none') {
    return {
      type: `${REGISTRY}temporary-reduced-capacity`,
      title: 'Request cannot be satisfied due to temporary server capacity constraints',
    }
  }
  if (status === 'impossible') {
    // The registered types describe requests that may succeed later.
    return { type: 'about:blank', title: 'Content Too Large' }
  }
  if (status === 'blocked') {
    return {
      type: `${REGISTRY}abnormal-usage-detected`,
      title: 'Request not satisfied due to detection of abnormal request pattern',
    }
  }
  return {
    type: `${REGISTRY}quota-exceeded`,
    title: 'Request cannot be satisfied as assigned quota has been exceeded',
  }
}

function violatedBy({ policies, source }: Decision): readonly string[] {
  // Without a store no limit was compared.
  return source === 'none' ? [] : Object.keys(policies).filter((name) => policies[name]?.retryAfterMs !== 0)
}
