/** Budgets: parallel streams of unknown length, counted in three ways. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { BUDGET, PROCESSES, STREAMS } from './budget-plans.mjs'
import { end, failureOf, minded } from './children.mjs'
import { startRedis } from './redis-server.mjs'
import { median, printColumns } from './report.mjs'

export const title = 'Budgets: 64 parallel streams of unknown length, three processes over Redis'

export const peers = ['ioredis']

export const paces = { full: { rounds: 5 }, quick: { rounds: 1 } }

const WAYS = {
  checkThenAdd: 'check, then add at the end',
  countAfterwards: 'count at the end',
  tollgate: 'tollgate: reserve, extend, commit',
}

/** Streams answers in one way, until the budget refuses all of them. */
export async function runOnce(way, seed) {
  const redis = await startRedis()
  const children = Array.from({ length: PROCESSES }, (_, index) => {
    const file = fileURLToPath(new URL('budgets-child.mjs', import.meta.url))
    const streams = Math.floor((STREAMS + index) / PROCESSES)
    return minded(fork(file, [way, redis.url, `${seed * PROCESSES + index + 1}`, `${streams}`]))
  })
  try {
    const messages = () =>
      Promise.all(children.map((child) => Promise.race([once(child, 'message'), failureOf(child, way)])))
    await messages()
    const reports = messages()
    for (const child of children) child.send('start')
    const all = (await reports).map(([report]) => report)
    const sum = (figure) => all.reduce((total, report) => total + figure(report), 0)
    const used = Object.fromEntries(Object.keys(BUDGET).map((meter) => [meter, sum((report) => report.used[meter])]))
    return { ...used, answers: sum(({ answers }) => answers), cut: sum(({ cut }) => cut) }
  } finally {
    await Promise.all(children.map(end))
    await redis.stop()
  }
}

/** @param {{ rounds: number }} pace */
export async function run({ rounds }) {
  const measured = new Map(Object.keys(WAYS).map((way) => [way, []]))
  for (let round = 0; round < rounds; round++) {
    for (const [way, rows] of measured) rows.push(await runOnce(way, round))
  }
  const results = [...measured].map(([way, rows]) => {
    const share = (meter) => median(rows.map((row) => row[meter] / BUDGET[meter]))
    const most = Math.max(...rows.flatMap((row) => Object.keys(BUDGET).map((meter) => row[meter] / BUDGET[meter])))
    const [answers, cut] = ['answers', 'cut'].map((figure) => median(rows.map((row) => row[figure])))
    return { name: WAYS[way], tokens: share('tokens'), money: share('microcents'), most, answers, cut, rounds: rows }
  })
  return { results }
}

/** @param {Awaited<ReturnType<typeof run>>} result */
export function print({ results }) {
  const percent = (share) => `${(100 * share).toFixed(1)} %`
  printColumns(
    ['way', 'tokens used', 'money used', 'most in a round', 'answers', 'cut short'],
    results.map(({ name, tokens, money, most, answers, cut }) =>
      [name, percent(tokens), percent(money), percent(most), answers, cut].map(String),
    ),
  )
}
