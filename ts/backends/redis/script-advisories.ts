/**
 * The first patch level, by release line, that has the fixes of CVE-2025-49844 ("RediShell"), CVE-2025-46817,
 * CVE-2025-46818 and CVE-2025-46819 in the Lua engine: Redis 6.2.20, 7.2.11, 7.4.6, 8.0.4 and 8.2.2
 * (advisory GHSA-4789-qfc9-5f9q of redis/redis, docker-library/official-images#20011), and Valkey 7.2.11 and 8.1.4
 * (valkey-io/valkey#3473). Valkey's 8.0 line has them from 8.0.6 on; servers do not tell a client which of the two
 * they are, so the line has Redis's level.
 *
 * Other lines have no fixed release, or no affected one. Distributions patch the former under an old version.
 */
const FIXED: ReadonlyMap<string, number> = new Map([
  ['6.2', 20],
  ['7.2', 11],
  ['7.4', 6],
  ['8.0', 4],
  ['8.1', 4],
  ['8.2', 2],
])

/** The warning about a server whose version lacks fixes of its Lua engine. */
export function scriptAdvisory(version: string): string | undefined {
  const [, line = '', patch] = /^(\d+\.\d+)\.(\d+)$/.exec(version) ?? []
  const fixed = FIXED.get(line)
  if (fixed === undefined || Number(patch) >= fixed) {
    return undefined
  }
  return (
    `the server's version ${version} lacks fixes of its Lua engine (CVE-2025-49844), by which a user who may run ` +
    `scripts can run any code there: use ${line}.${fixed} or later, unless your provider has patched this version`
  )
}
