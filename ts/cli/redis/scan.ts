import type * as native from '../../../generated/native.js'
import { formatDuration, formatShare } from '../format.js'
import type { Connection } from './connect/connection.js'

/** The number of keys that a server examines for one page of a scan, approximately. */
const PAGE = 1_000

/** The bounds of a sample of the keys of a prefix. */
export interface SampleBounds {
  readonly prefix: string
  /** The maximum duration, in milliseconds. */
  readonly forMs: number
  /** The maximum number of the prefix's keys to read. */
  readonly sample: number
  /** The number of keys that a server examines for one page, approximately. */
  readonly count: number
}

export interface ScanRequest {
  /** The prefix of the keys to read. No key has the empty prefix. */
  readonly prefix: string
  /** The pattern of the names to return, as in `SCAN`. */
  readonly pattern: string
  readonly forMs: number
  /** The number of keys that a server examines for one page, approximately. */
  readonly count?: number
  /** The keys whose reservations and remembered ids to read. */
  readonly heldKeys?: readonly string[]
}

export interface ScanExtent {
  /** The number of names that matched. SCAN may return one twice while a server's table grows. */
  readonly scanned: number
  readonly isComplete: boolean
  /** The scanned share of all keys, from 0 to 1; absent if the servers do not report their sizes. */
  readonly scannedShare?: number
  readonly ms: number
}

/** Scans keys, one page of each master in turn, until all are scanned, the time is over, or `onPage` returns true. */
export async function scan(
  { reader, masters }: Connection,
  { prefix, pattern, forMs, count = PAGE, heldKeys = [] }: ScanRequest,
  onPage: (page: native.NativeInspectorReply) => boolean,
): Promise<ScanExtent> {
  const start = performance.now()
  const cursors = masters.names.map((_, master) => ({ master, cursor: '0', pages: 0 }))
  let unfinished = cursors
  let [scanned, isEnough] = [0, false]
  do {
    for (const one of unfinished) {
      const { master, cursor } = one
      const page = await reader.page({ prefix, master, cursor, pattern, count, heldKeys: [...heldKeys] })
      Object.assign(one, { cursor: page.cursor, pages: one.pages + 1 })
      scanned += page.scanned
      isEnough = onPage(page) || isEnough
    }
    unfinished = unfinished.filter(({ cursor }) => cursor !== '0')
  } while (unfinished.length > 0 && !isEnough && performance.now() - start < forMs)
  const isComplete = unfinished.length === 0
  const share = isComplete ? 1 : scannedShare(cursors, masters.sizes, count)
  const ms = Math.round(performance.now() - start)
  return { scanned, isComplete, ...(share === undefined ? {} : { scannedShare: share }), ms }
}

/** An estimate, by `count` keys for each page. */
function scannedShare(
  cursors: readonly { readonly cursor: string; readonly pages: number }[],
  sizes: readonly number[],
  count: number,
): number | undefined {
  if (sizes.some((size) => size < 0)) {
    return undefined
  }
  const all = sizes.reduce((sum, size) => sum + size, 0)
  const examined = cursors.map(({ cursor, pages }, master) =>
    cursor === '0' ? (sizes[master] as number) : Math.min(pages * count, sizes[master] as number),
  )
  return all === 0 ? 1 : examined.reduce((sum, keys) => sum + keys, 0) / all
}

/** The extent as text: `Scanned in 24 ms: all keys`. */
export function formatExtent({ scannedShare, isComplete, ms }: ScanExtent): string {
  const share = scannedShare === undefined ? 'a part of all keys' : `about ${formatShare(scannedShare, 1)} of all keys`
  const part = isComplete ? 'all keys' : `${share} (a sample: increase --for or --sample for more)`
  return `Scanned in ${formatDuration(ms)}: ${part}`
}
