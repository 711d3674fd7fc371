import { formatDuration, formatNumber, formatTime } from '../format.js'
import { escapeControls, type Paint, shortened, table } from '../terminal.js'
import type { Connection } from './connect/connection.js'
import { keyWordOf } from './policies.js'
import { dimensionsOf, registeredConfigs, registeredTexts } from './registry.js'
import { formatExtent, type SampleBounds, type ScanExtent, scan } from './scan.js'
import { keyStateOf } from './state.js'
import { type PrefixUsage, scanUsage } from './usage.js'

/** A block of a key, as `--format json` prints it. */
export interface BlockedKey {
  readonly key: string
  /** The key dimension of the policies, if it is known. */
  readonly dimension?: string
  readonly tag?: string
  /** The names of the policies that refuse the key's calls. */
  readonly policies: readonly string[]
  /** A block by an operator or a program, or a ban by strikes. */
  readonly kind: 'block' | 'ban'
  /** The number of the ban's length: 1 for the first. */
  readonly step?: number
  readonly blockedForMs: number
  /** The end, by the server's clock. */
  readonly until: string
}

export interface BlockedKeys {
  readonly prefix: string
  readonly server: string
  /** The blocks, the last to end first. */
  readonly blocked: readonly BlockedKey[]
  /** `read` is the number of the prefix's keys that were read. */
  readonly sample: ScanExtent & { readonly read: number }
  /** The usage of the prefix, if it has no keys. */
  readonly usage?: PrefixUsage
}

export async function listBlocked(connection: Connection, query: SampleBounds): Promise<BlockedKeys> {
  const { prefix, forMs, sample, count } = query
  const dimensions = dimensionsOf(registeredConfigs(await registeredTexts(connection, prefix), prefix))
  const blocked = new Map<string, BlockedKey>()
  let read = 0
  const extent = await scan(connection, { prefix, pattern: `${prefix}:*`, forMs, count }, (page) => {
    for (const stored of page.found) {
      read++
      const { key, policy, tag, blockedForMs, ban } = keyStateOf(stored, page.nowUs)
      if (blockedForMs !== undefined) {
        const dimension = dimensions.get(policy)
        const step = ban?.isInForce === true ? ban.step : undefined
        // A block of a key is stored under each policy that counts by it.
        const id = JSON.stringify([key, dimension, tag, step, stored.blockedUntilUs])
        const policies = new Set([...(blocked.get(id)?.policies ?? []), policy])
        blocked.set(id, {
          key,
          ...(dimension === undefined ? {} : { dimension }),
          ...(tag === undefined ? {} : { tag }),
          policies: [...policies].sort(),
          ...(step === undefined ? { kind: 'block' } : { kind: 'ban', step }),
          blockedForMs,
          until: new Date(stored.blockedUntilUs / 1_000).toISOString(),
        })
      }
    }
    return read >= sample
  })
  const all = [...blocked.values()].sort(
    (one, other) => other.blockedForMs - one.blockedForMs || (one.key < other.key ? -1 : 1),
  )
  const usage = read === 0 ? await scanUsage(connection, { prefix, forMs }) : undefined
  return { prefix, server: connection.name, blocked: all, sample: { ...extent, read }, ...(usage && { usage }) }
}

export function formatBlocked(
  { prefix, server, blocked, sample }: BlockedKeys,
  paint: Paint,
  columns?: number,
): string {
  const rows = blocked.map(({ key, dimension, tag, policies, kind, step, blockedForMs, until }) => [
    shortened(keyWordOf({ key, dimension }), KEY_COLUMNS),
    step === undefined ? kind : `${kind} ${step}`,
    formatDuration(blockedForMs),
    formatTime(Date.parse(until)),
    escapeControls(policies.join(', ')),
    tag === undefined ? '' : shortened(`(tag ${tag})`, KEY_COLUMNS),
  ])
  const head = ['key', 'kind', 'for', 'until', 'policies', ''].map((name) => paint('bold', name))
  const shown =
    rows.length === 0 ? '  no key is blocked\n' : table([head, ...rows], { columns, cut: [0, 5], omit: [4] })
  const counts = `${formatNumber(sample.read)} of this limiter, ${formatNumber(blocked.length)} blocked`
  return `Blocked keys of ${prefix} at ${server}\n\n${shown}\n${formatExtent(sample)}; ${counts}.\n`
}

/** The maximum width of a key in the table. `--format json` prints the whole key. */
const KEY_COLUMNS = 60
