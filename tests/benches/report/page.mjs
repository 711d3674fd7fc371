/**
 * Fills in the figures of the pages about performance and of the README. All figures are between markers,
 * and none is typed.
 */
import { readmeFigures } from './readme.mjs'
import { tables } from './tables.mjs'

/** A marker on a line of its own encloses blocks, and one within a line encloses words. */
const MARKED = /(<!-- figures: ([a-z0-9-]+) -->)(\n?)(.*?)(<!-- end -->)/gs

/**
 * The page with the figures of a record. Where the part has not been measured, the page says so.
 *
 * @param {string} page
 * @param {import('./record.mjs').Record_} record
 */
export function filled(page, record) {
  const made = new Map([...tables(record), ...readmeFigures(record.parts)])
  return page.replace(MARKED, (_, begin, name, lineEnd, _old, end) => {
    if (!made.has(name)) throw new Error(`there are no figures ${name}`)
    const text = made.get(name) ?? 'Not measured yet.'
    return lineEnd === '' ? `${begin}${text}${end}` : `${begin}\n\n${text}\n\n${end}`
  })
}
