/** The machine and the versions of a measurement, which are needed for comparisons. */
import { existsSync, readFileSync } from 'node:fs'
import { arch, cpus, loadavg, platform, release, totalmem } from 'node:os'

const ROOT = new URL('../../../', import.meta.url)
const HERE = new URL('./', import.meta.url)

/** The machine, without its host name. */
export function machine() {
  const cores = cpus()
  return {
    cpu: cores[0]?.model.trim() ?? 'unknown',
    cores: cores.length,
    memoryGiB: Number((totalmem() / 2 ** 30).toFixed(1)),
    system: `${platform()} ${release()} ${arch()}`,
    load: Number(loadavg()[0].toFixed(2)),
  }
}

/**
 * The versions of Node, of tollgate and of other packages.
 *
 * @param {string[]} packages
 * @returns {Record<string, string>}
 */
export function versions(packages) {
  const others = packages.map((name) => [name, versionIn(folderOf(name))])
  return { node: process.versions.node, tollgate: versionIn(ROOT), ...Object.fromEntries(others) }
}

/** The folder of a package: that of the benchmarks, or the root. */
function folderOf(name) {
  const own = new URL(`node_modules/${name}/`, HERE)
  return existsSync(own) ? own : new URL(`node_modules/${name}/`, ROOT)
}

// Read as a file: not every package exports its package.json.
function versionIn(folder) {
  return JSON.parse(readFileSync(new URL('package.json', folder), 'utf8')).version
}

/** @param {{ machine: ReturnType<typeof machine>, versions: ReturnType<typeof versions> }} surroundings */
export function printSurroundings({ machine: { cpu, cores, memoryGiB, system, load }, versions }) {
  const named = Object.entries(versions).map(([name, version]) => `${name} ${version}`)
  console.log(`${cpu}, ${cores} cores, ${memoryGiB} GiB, ${system}`)
  console.log(named.join(', '))
  if (load > cores / 2) {
    console.log(`The machine is not quiet (load ${load}): a busy neighbour can double every figure.`)
  }
}
