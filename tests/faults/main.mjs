/**
 * `npm run report:faults`: the same faults for tollgate and its peers, over a real Redis.
 * docs/fault-report.md describes the scenarios and the figures. Each file of contenders/ names the
 * documentation that its configuration follows.
 */
import { parseArgs } from 'node:util'
import { contenders } from './contenders/all.mjs'
import { SCENARIOS } from './scenarios/all.mjs'

const USAGE = `Usage: npm run report:faults -- [options]

Options:
  --only NAME    only this contender; repeatable
  --fault NAME   only this scenario; repeatable
  --list         prints the names
  --help         prints this`

const OPTIONS = {
  only: { type: 'string', multiple: true, default: [] },
  fault: { type: 'string', multiple: true, default: [] },
  list: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
}

async function main() {
  const { values } = parseArgs({ options: OPTIONS })
  const all = await contenders()
  for (const contender of all.filter(({ file }) => values.only.length === 0 || values.only.includes(file))) {
    for (const scenario of SCENARIOS.filter(({ name }) => values.fault.length === 0 || values.fault.includes(name))) {
      const unsupported = contender.unsupported[scenario.needs]
      const begin = performance.now()
      const cell = unsupported === undefined ? await scenario.run(contender) : { unsupported }
      console.log(contender.file, scenario.name, ((performance.now() - begin) / 1e3).toFixed(1), JSON.stringify(cell))
    }
  }
}
await main()
