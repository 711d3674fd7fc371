// The result of the run: the table, the check against the law, and one complete refusal.
import { paint } from './screen.mjs'
import { bound, LAW } from './server.mjs'

/**
 * Broken promises, as sentences: no client gets more than the law's bound, and a client that stays
 * below the limit is never refused.
 */
function violations(clients, most) {
  const found = []
  for (const { name, allowed, refused } of clients) {
    if (allowed > most) found.push(`${name} got ${allowed}, and the law allows ${most}`)
    if (name === 'polite' && refused > 0) found.push(`${name} kept below the limit and was refused ${refused} times`)
  }
  return found
}

/**
 * Prints the table and the check.
 *
 * @returns Whether the law held.
 */
export function printSummary(clients, run) {
  const seconds = run.elapsed()
  const most = bound(seconds)
  const row = (name, ...numbers) => `  ${name.padEnd(10)}${numbers.map((n) => String(n).padStart(12)).join('')}`
  console.log(`\n${paint('bold', row('client', 'requests', 'allowed', 'refused', 'at most'))}`)
  for (const { name, sent, allowed, refused } of clients) {
    console.log(row(name, sent, allowed, refused, most))
  }
  const found = violations(clients, most)
  for (const violation of found) {
    console.log(`\n  ${paint('red', `✗ ${violation}`)}`)
  }
  if (found.length === 0) {
    console.log(`\n  ${paint('green', '✓')} In ${seconds.toFixed(2)} s no client got more than ${most} (${LAW}).`)
    console.log(`  ${paint('green', '✓')} The polite one, who kept below the limit, was never refused.`)
  }
  return found.length === 0
}

/** Prints a 429 as it came over the wire, with highlighted rate limit headers. */
export function printRefusal(clients) {
  const client = clients.findLast(({ refusal }) => refusal !== undefined)
  if (client === undefined) return
  const { status, statusText, headers, body } = client.refusal
  console.log(`\n  What a refused client is told (the first answer of this kind to ${client.name}):\n`)
  console.log(`    ${paint('bold', `HTTP/1.1 ${status} ${statusText}`)}`)
  for (const [name, value] of headers) {
    const ours = name.startsWith('ratelimit') || name === 'retry-after'
    console.log(`    ${paint(ours ? 'cyan' : 'dim', `${name}: ${value}`)}`)
  }
  console.log(`\n    ${body}\n`)
}
