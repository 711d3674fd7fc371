/** docs/fault-report.md and its plot are generated from the record, and the page describes all of it. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from './pages.js'

const DOCS = join(ROOT, 'docs')
const FILES = ['fault-report.md', 'fault-report.json', join('plots', 'fault-report.svg')]

interface Report {
  readonly contenders: readonly { readonly name: string }[]
  readonly scenarios: readonly { readonly name: string }[]
  readonly cells: Readonly<Record<string, Readonly<Record<string, object>>>>
}

const read = (...path: readonly string[]) => readFileSync(join(...path), 'utf8')
const record = JSON.parse(read(DOCS, 'fault-report.json')) as Report

test('page, record and plot are current', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-faults-'))
  try {
    execFileSync(process.execPath, [join(ROOT, 'tests', 'faults', 'main.mjs'), '--render', '--out', folder])
    const differing = FILES.filter((file) => read(folder, file) !== read(DOCS, file))
    expect(differing).toEqual([])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('each contender was measured in each scenario that it supports', () => {
  expect(Object.keys(record.cells)).toEqual(record.contenders.map(({ name }) => name))
  for (const row of Object.values(record.cells)) {
    expect(Object.keys(row)).toEqual(record.scenarios.map(({ name }) => name))
  }
  expect(JSON.stringify(record)).not.toContain('not measured yet')
})

test('the page describes each scenario, and no other', () => {
  const headings = [
    ...(read(DOCS, 'fault-report.md')
      .split('## Scenarios')[1]
      ?.matchAll(/^### (.*)$/gm) ?? []),
  ]
  expect(headings.map(([, name]) => name)).toEqual(record.scenarios.map(({ name }) => name))
})
