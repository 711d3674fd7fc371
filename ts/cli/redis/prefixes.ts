import { formatDuration, formatNumber } from '../format.js'
import { escapeControls, table } from '../terminal.js'
import type { Connection } from './connect/connection.js'
import { registeredTexts } from './registry.js'
import { type ScanExtent, scan } from './scan.js'
import { type KeyState, kindOf } from './state.js'
import { formatPolicy } from './usage.js'

export interface UsedPrefix {
  readonly prefix: string
  /** The number of scanned keys. SCAN may count a key twice while a server's table grows. */
  readonly keys: number
  readonly policies: readonly (Pick<KeyState, 'policy' | 'algorithm' | 'layout'> & { readonly keys: number })[]
  /** The texts of the policies that limiters have used in the last 90 minutes, or the last ones within 30 days. */
  readonly registered: readonly string[]
}

/** The prefixes of all limiters' keys. */
export interface PrefixList extends ScanExtent {
  readonly prefixes: readonly UsedPrefix[]
}

/** Finds the prefixes of limiters. It reads the names of keys alone, and the registered policies. */
export async function listPrefixes(connection: Connection, forMs: number): Promise<PrefixList> {
  const found = new Map<string, Map<string, UsedPrefix['policies'][number]>>()
  const extent = await scan(connection, { prefix: '', pattern: '*:{*', forMs }, (page) => {
    for (const { prefix, policy, tag, keys } of page.owners) {
      const policies = found.get(prefix) ?? new Map()
      const known = policies.get(`${policy}:${tag}`)
      policies.set(`${policy}:${tag}`, { policy, ...kindOf(tag), keys: keys + (known?.keys ?? 0) })
      found.set(prefix, policies)
    }
    return false
  })
  const prefixes: UsedPrefix[] = []
  for (const [prefix, policies] of [...found].sort()) {
    const registered = await registeredTexts(connection, prefix)
    const all = [...policies.values()]
    prefixes.push({ prefix, keys: all.reduce((sum, { keys }) => sum + keys, 0), policies: all, registered })
  }
  return { prefixes, ...extent }
}

export function formatPrefixes(
  server: string,
  { prefixes, scanned, isComplete, ms }: PrefixList,
  columns?: number,
): string {
  const rows = prefixes.flatMap(({ prefix, keys, policies, registered }) => {
    const used = policies.map((one) => formatPolicy(one)).sort()
    // The registered texts have the numbers.
    const lines = registered.length === 0 ? [used.join(', ')] : registered.map(escapeControls)
    return lines.map((line, index) =>
      index === 0 ? [escapeControls(prefix), formatNumber(keys), line] : ['', '', line],
    )
  })
  const shown =
    rows.length === 0
      ? '  no key is that of a limiter\n'
      : table([['prefix', 'keys', 'policies'], ...rows], { columns, cut: [2] })
  const part = isComplete ? 'all keys' : 'a part of all keys: increase --for'
  return `Prefixes at ${server}\n\n${shown}\nScanned ${formatNumber(scanned)} keys in ${formatDuration(ms)}: ${part}.\n`
}
