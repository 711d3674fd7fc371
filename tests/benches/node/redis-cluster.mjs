/** Starts a real Redis Cluster for the benchmark: three masters without persistence. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '../../../scripts/free-port.mjs'
import { startRedis } from './redis-server.mjs'

const MASTERS = 3
const SLOTS = 16_384

/** The time limit for the nodes to agree. */
const FORMING_MS = 15_000

export async function startCluster() {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bench-'))
  const nodes = []
  const stop = async () => {
    await Promise.all(nodes.map((node) => node.stop()))
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    for (let number = 0; number < MASTERS; number++) {
      const bus = await freePort()
      const files = ['--dir', folder, '--cluster-config-file', `nodes-${number}.conf`]
      const node = await startRedis(['--cluster-enabled', 'yes', '--cluster-port', `${bus}`, ...files])
      nodes.push({ ...node, bus })
    }
    await form(nodes)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    /** The addresses of its nodes. */
    nodes: nodes.map(({ port }) => ({ host: '127.0.0.1', port })),
    flush: () => Promise.all(nodes.map((node) => node.flush())),
    /** The usage of all nodes. */
    async usage() {
      const all = await Promise.all(nodes.map((node) => node.usage()))
      const sum = (figure) => all.reduce((total, usage) => total + usage[figure], 0)
      return { cpuMicros: sum('cpuMicros'), scripts: sum('scripts') }
    },
    stop,
  }
}

async function form(nodes) {
  const share = Math.ceil(SLOTS / MASTERS)
  for (const [number, node] of nodes.entries()) {
    const last = Math.min((number + 1) * share, SLOTS) - 1
    await node.command('CLUSTER', 'ADDSLOTSRANGE', number * share, last)
    await node.command('CLUSTER', 'SET-CONFIG-EPOCH', number + 1)
  }
  const [first, ...others] = nodes
  for (const { port, bus } of others) {
    await first.command('CLUSTER', 'MEET', '127.0.0.1', port, bus)
  }
  const deadline = performance.now() + FORMING_MS
  while (!(await Promise.all(nodes.map(isWell))).every(Boolean)) {
    if (performance.now() > deadline) throw new Error('the nodes of the cluster do not agree')
    await sleep(50)
  }
}

async function isWell(node) {
  const info = await node.command('CLUSTER', 'INFO')
  return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${MASTERS}`)
}
