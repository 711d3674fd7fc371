/** The record of what was measured: docs/fault-report.json, from which page and plot are made. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { text } from '../../benches/report/record.mjs'
import { filled } from './page.mjs'
import { plot } from './plot.mjs'

/**
 * @typedef {object} Report
 * @property {string} measured When the last cell was.
 * @property {ReturnType<typeof import('../../benches/node/surroundings.mjs').machine>} machine
 * @property {Record<string, string>} versions
 * @property {{ name: string, title: string }[]} contenders
 * @property {{ name: string, title: string }[]} scenarios
 * @property {Record<string, Record<string, object>>} cells By contender and scenario.
 */

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
export const DOCS = join(ROOT, 'docs')

/** @returns {Report} */
export function read(file = join(DOCS, 'fault-report.json')) {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : { cells: {} }
}

/** Adds cells to a record. The other cells stay. */
export function merged(record, { cells, ...rest }) {
  const { contenders, scenarios } = rest
  const cellOf = (contender, scenario) =>
    cells[contender]?.[scenario] ?? record.cells[contender]?.[scenario] ?? { unsupported: 'not measured yet' }
  const rowOf = ({ name }) => scenarios.map((scenario) => [scenario.name, cellOf(name, scenario.name)])
  return { ...rest, cells: Object.fromEntries(contenders.map((one) => [one.name, Object.fromEntries(rowOf(one))])) }
}

/** Writes the record, the page and its plot. */
export function write(record, out = DOCS) {
  mkdirSync(join(out, 'plots'), { recursive: true })
  writeFileSync(join(out, 'fault-report.json'), text(record))
  writeFileSync(join(out, 'plots', 'fault-report.svg'), plot(record))
  writeFileSync(join(out, 'fault-report.md'), filled(readFileSync(join(DOCS, 'fault-report.md'), 'utf8'), record))
}

/** The versions of Node.js and of packages, wherever they are installed. */
export function versions(packages) {
  const places = [new URL('../node_modules/', import.meta.url), new URL('../../../node_modules/', import.meta.url)]
  const found = packages.map((name) => {
    const files =
      name === 'tollgate'
        ? [join(ROOT, 'package.json')]
        : places.map((place) => fileURLToPath(new URL(`${name}/package.json`, place)))
    return [
      name,
      JSON.parse(
        readFileSync(
          files.find((file) => existsSync(file)),
          'utf8',
        ),
      ).version,
    ]
  })
  return { 'Node.js': process.versions.node, ...Object.fromEntries(found) }
}
