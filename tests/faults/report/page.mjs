/** Fills in the figures of docs/fault-report.md. All figures are between markers, and none is typed. */
import { list } from '../../benches/report/text.mjs'
import { findings, isOurs, kindOf } from './findings.mjs'

const MARKED = /(<!-- figures: ([a-z-]+) -->)\n.*?(<!-- end -->)/gs

/**
 * @param {string} page
 * @param {import('./record.mjs').Report} record
 */
export function filled(page, record) {
  const parts = {
    losses: losses(record),
    table: table(record),
    unsupported: unsupported(record),
    machine: machine(record),
  }
  return page.replace(MARKED, (_, begin, name, end) => `${begin}\n\n${parts[name]}\n\n${end}`)
}

/** Each finding of ours, with the number of peers that had none in the same scenario. */
function losses({ contenders, scenarios, cells }) {
  const peers = contenders.filter((contender) => !isOurs(contender))
  const rows = scenarios.flatMap((scenario) =>
    contenders
      .filter((contender) => isOurs(contender) && findings(cells[contender.name][scenario.name]).length > 0)
      .map(({ name, title }) => {
        const found = findings(cells[name][scenario.name])
        const clean = peers.filter((peer) => kindOf(cells[peer.name][scenario.name]) === 'nothing')
        return [
          scenario.title,
          title,
          found.map(({ words }) => words).join(', '),
          `${clean.length} of ${takingPart(peers, cells, scenario)}`,
        ]
      }),
  )
  return markdown(['scenario', 'contender', 'its figures', 'peers with nothing to report'], rows)
}

function takingPart(peers, cells, scenario) {
  return peers.filter(({ name }) => kindOf(cells[name][scenario.name]) !== 'unsupported').length
}

function table({ contenders, scenarios, cells }) {
  const rows = contenders.map(({ name, title }) => [
    title,
    ...scenarios.map((scenario) => {
      const cell = cells[name][scenario.name]
      if (kindOf(cell) === 'unsupported') return 'n/s'
      return (
        findings(cell)
          .map(({ letter, text }) => `${letter}&nbsp;${text}`)
          .join(' ') || '–'
      )
    }),
  ])
  return markdown(['', ...scenarios.map(({ name }) => `[${name}](#${name})`)], rows)
}

/** The reasons, once for all contenders and scenarios that share one. */
function unsupported({ contenders, scenarios, cells }) {
  const rows = scenarios.flatMap(({ name }) => {
    const reasons = grouped(contenders, (contender) => cells[contender.name][name].unsupported)
    return [...reasons]
      .filter(([reason]) => reason !== undefined)
      .map(([reason, of]) => [name, of.map(({ title }) => title).join('; '), reason])
  })
  return markdown(['scenario', 'contenders', 'reason'], rows)
}

function grouped(items, keyOf) {
  const groups = new Map()
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item])
  return groups
}

function machine({ measured, machine: { cpu, cores, memoryGiB, system }, versions }) {
  const named = Object.entries(versions).map(([name, version]) => `${name} ${version}`)
  return list([
    `Measured: ${measured.slice(0, 10)}, on ${cores} cores of ${cpu}, ${memoryGiB} GiB, ${system}.`,
    `Versions: ${named.join(', ')}.`,
  ])
}

function markdown(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')
}
