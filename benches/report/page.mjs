/**
 * Fills in the tables of docs/performance.md. All figures are between markers, and none is typed.
 */
import { tables } from './tables.mjs'

const MARKED = /^(<!-- figures: ([a-z0-9-]+) -->\n).*?^(<!-- end -->\n)/gms

/**
 * The page with the tables of a record. A table whose part has not been measured says so.
 *
 * @param {string} page
 * @param {import('./record.mjs').Record_} record
 */
export function filled(page, record) {
  const made = tables(record)
  return page.replace(MARKED, (_, begin, name, end) => {
    if (!made.has(name)) throw new Error(`docs/performance.md: there are no figures ${name}`)
    return `${begin}\n${made.get(name) ?? 'Not measured yet.'}\n\n${end}`
  })
}
