/** Options that are often confused, with the names that other packages use for them. */
const SYNONYMS: readonly { readonly ours: readonly string[]; readonly theirs: readonly string[] }[] = [
  {
    ours: ['limit', 'capacity', 'tokens', 'units'],
    theirs: ['points', 'max', 'maxRequests', 'requests', 'count', 'amount', 'rate', 'quota'],
  },
  { ours: ['for'], theirs: ['duration', 'blockDuration'] },
  {
    ours: ['period', 'window', 'every'],
    theirs: ['duration', 'windowMs', 'windowSize', 'interval', 'intervalMs', 'timeWindow', 'within'],
  },
  { ours: ['maxOwed'], theirs: ['debt', 'maxDebt', 'overdraft', 'maxOverdraft', 'overage', 'maxOverage'] },
  { ours: ['burst'], theirs: ['maxBurst', 'burstCapacity', 'bucketSize', 'capacity'] },
  { ours: ['refill', 'leak'], theirs: ['refillRate', 'leakRate', 'rate', 'tokensPerInterval', 'refillAmount'] },
  { ours: ['timeZone'], theirs: ['tz', 'zone'] },
  {
    ours: ['limiter'],
    theirs: ['limit', 'max', 'points', 'windowMs', 'duration', 'timeWindow', 'period', 'window', 'store'],
  },
  { ours: ['cost'], theirs: ['points', 'weight', 'units', 'tokens', 'amount', 'count', 'consume'] },
  { ours: ['store'], theirs: ['redis', 'client', 'redisClient', 'storeClient', 'connection', 'datastore'] },
  { ours: ['prefix'], theirs: ['keyPrefix', 'namespace', 'name', 'id'] },
  { ours: ['onStoreFailure'], theirs: ['insuranceLimiter', 'passOnStoreError', 'skipOnError', 'failOpen', 'onError'] },
  { ours: ['maxWait', 'commandTimeout'], theirs: ['timeout', 'timeoutMs'] },
  { ours: ['onError'], theirs: ['passOnStoreError', 'skipOnError', 'failOpen'] },
  { ours: ['blockFor'], theirs: ['blockDuration', 'blockDurationMs'] },
  { ours: ['local'], theirs: ['inMemoryBlockOnConsumed', 'inMemoryBlockDuration', 'ephemeralCache'] },
  { ours: ['database'], theirs: ['db'] },
  { ours: ['ttl'], theirs: ['duration', 'expires', 'expiresIn', 'expiry', 'forget'] },
  { ours: ['key'], theirs: ['keyGenerator', 'getTracker', 'identifier', 'ipv6Subnet'] },
  { ours: ['id'], theirs: ['idempotencyKey', 'requestId', 'jobId', 'messageId', 'callId'] },
  { ours: ['statusCode'], theirs: ['status'] },
  { ours: ['headers'], theirs: ['standardHeaders', 'legacyHeaders'] },
  { ours: ['refundWhen'], theirs: ['skipFailedRequests', 'skipSuccessfulRequests'] },
  { ours: ['observe'], theirs: ['dryRun', 'shadow'] },
  { ours: ['requestProperty'], theirs: ['requestPropertyName', 'decorator'] },
  { ours: ['quantile'], theirs: ['percentile', 'percent', 'confidence'] },
  { ours: ['samples'], theirs: ['window', 'windowSize', 'size', 'history'] },
  { ours: ['known'], theirs: ['input', 'inputTokens', 'prompt', 'promptTokens'] },
  { ours: ['atMost'], theirs: ['capacity', 'limit', 'max', 'maximum'] },
  { ours: ['onRefused'], theirs: ['onLimitReached', 'onExceeded', 'onExceeding', 'onBlocked'] },
]

/** The most letters that may differ in a typing error. */
const MAX_EDITS = 2

/** The option that an unknown name probably means; `undefined` if it cannot be guessed. */
export function suggestionFor(given: string, names: readonly string[]): string | undefined {
  const sameLetters = names.find((name) => name.toLowerCase() === given.toLowerCase())
  if (sameLetters !== undefined) {
    return sameLetters
  }
  for (const { ours, theirs } of SYNONYMS) {
    const meant = ours.includes(given) || theirs.includes(given) ? names.find((name) => ours.includes(name)) : undefined
    if (meant !== undefined) {
      return meant
    }
  }
  return closestTo(given, names)
}

function closestTo(given: string, names: readonly string[]): string | undefined {
  const maxEdits = Math.min(MAX_EDITS, Math.floor(given.length / 2))
  const near = names
    .map((name) => ({ name, edits: editsBetween(given, name) }))
    .filter(({ edits }) => edits <= maxEdits)
  return near.sort((a, b) => a.edits - b.edits)[0]?.name
}

/** The edit distance of two texts: letters added, removed or replaced. */
function editsBetween(from: string, to: string): number {
  if (Math.abs(from.length - to.length) > MAX_EDITS) {
    return Number.POSITIVE_INFINITY
  }
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1]
    for (let at = 0; at < to.length; at++) {
      const replaced = (row[at] as number) + (letter === to[at] ? 0 : 1)
      next.push(Math.min(replaced, (row[at + 1] as number) + 1, (next[at] as number) + 1))
    }
    row = next
  }
  return row[to.length] as number
}
