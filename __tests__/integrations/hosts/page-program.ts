/** The programs of the pages, as files of a package that has installed this one. */
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { newFolder, removeFolder } from '../../servers/run-folder.js'

const ROOT = join(__dirname, '..', '..', '..')

/** The first program below a heading of a page. */
export function codeOf(page: string, heading: string): string {
  const [, below] = readFileSync(join(ROOT, 'docs', page), 'utf8').split(`\n## ${heading}\n`)
  const code = /^```js\n(.*?)^```$/ms.exec(below ?? '')?.[1]
  if (code === undefined) {
    throw new Error(`${page} has no program below ${heading}`)
  }
  return code
}

/** A program in a folder of its own. */
export interface ProgramFile extends AsyncDisposable {
  readonly file: string
}

/** Writes a program whose Redis is at `redisUrl`. */
export function programFile(code: string, redisUrl: string): ProgramFile {
  const folder = newFolder('page')
  const file = join(folder, 'program.mjs')
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(ROOT, join(folder, 'node_modules', 'tollgate'))
  writeFileSync(file, code.replace('redis://localhost:6379', redisUrl))
  return { file, [Symbol.asyncDispose]: () => removeFolder(folder) }
}
