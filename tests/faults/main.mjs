/**
 * `npm run report:faults`: the same load, faults and checker for tollgate and its peers, over a real Redis.
 * docs/fault-report.md describes the scenarios and the figures. The head comment of each file of
 * contenders/ names the documentation that its configuration follows.
 */
import { parseArgs } from 'node:util'
import { merged, read, write } from './report/record.mjs'

const USAGE = `Usage: npm run report:faults -- [options]

Runs all contenders through all scenarios, and writes fault-report.json, its page and its plot.
With --only or --fault it runs a part, and prints its figures.

Options:
  --only NAME    only this contender; repeatable
  --fault NAME   only this scenario; repeatable
  --write        also adds a part to the record
  --render       runs nothing; makes page and plot of the record
  --out DIR      the folder to write to, in place of docs/
  --list         prints the names
  --help         prints this`

const OPTIONS = {
  only: { type: 'string', multiple: true, default: [] },
  fault: { type: 'string', multiple: true, default: [] },
  write: { type: 'boolean', default: false },
  render: { type: 'boolean', default: false },
  out: { type: 'string' },
  list: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
}

/** The asked names, or all of them. */
function asked(all, names) {
  const unknown = names.filter((name) => !all.includes(name))
  if (unknown.length > 0) throw new Error(`No such name: ${unknown.join(', ')}. --list prints the names.`)
  return all.filter((name) => names.length === 0 || names.includes(name))
}

async function measure({ only, fault, list, out, write: writes }) {
  // The page is made where these packages are not installed.
  const { CONTENDERS, loaded } = await import('./contenders/all.mjs')
  const { SCENARIOS } = await import('./scenarios/all.mjs')
  const { surroundings } = await import('./report/surroundings.mjs')
  if (list) {
    console.log(`Contenders:\n  ${CONTENDERS.join('\n  ')}\n\nScenarios:`)
    console.log(SCENARIOS.map(({ name, title }) => `  ${name}: ${title}`).join('\n'))
    return
  }
  const faults = asked(
    SCENARIOS.map(({ name }) => name),
    fault,
  )
  const cells = {}
  for (const contender of await loaded(asked(CONTENDERS, only))) {
    const row = {}
    cells[contender.name] = row
    for (const scenario of SCENARIOS.filter(({ name }) => faults.includes(name))) {
      const unsupported = contender.unsupported[scenario.needs]
      row[scenario.name] = unsupported === undefined ? await scenario.run(contender) : { unsupported }
      console.log(`${contender.name} ${scenario.name} ${JSON.stringify(row[scenario.name])}`)
    }
  }
  const isPart = only.length + fault.length > 0
  if (isPart && !writes) return
  const all = await loaded(CONTENDERS)
  const named = ({ name, title }) => ({ name, title })
  const part = { ...surroundings(all), contenders: all.map(named), scenarios: SCENARIOS.map(named), cells }
  write(merged(isPart ? read() : { cells: {} }, part), out)
}

async function main() {
  const { values } = parseArgs({ options: OPTIONS })
  if (values.help) console.log(USAGE)
  else if (values.render) write(read(), values.out)
  else await measure(values)
}

main().catch((error) => {
  console.error(error)
  process.exitCode = 1
})
