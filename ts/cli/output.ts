import { randomBytes } from 'node:crypto'
import { writeFile as writeOpenFile } from 'node:fs'
import { open, readlink, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { environmentError } from './failure.js'
import type { Terminal } from './terminal.js'

/** The names of files that this process has open. A text is appended to them. */
const OPEN_FILE = /^\/(?:dev\/(?:std(?<name>out|err)|fd\/(?<fd>\d+))|proc\/self\/fd\/(?<own>\d+))$/

/** The most symbolic links of a path, as on Linux. */
const MAX_LINKS = 40

/** Prints a result or writes it to a file. A regular file is replaced atomically, also behind a symbolic link. */
export async function writeResult(text: string, file: string | undefined, terminal: Terminal): Promise<void> {
  if (file === undefined) {
    terminal.stdout.write(text)
    return
  }
  try {
    await writeTo(file, text, terminal)
  } catch (error) {
    throw environmentError(`${file} cannot be written: ${(error as Error).message}`)
  }
}

async function writeTo(file: string, text: string, { stdout, stderr }: Terminal): Promise<void> {
  const target = await targetOf(file)
  const fd = openFileOf(target)
  if (fd === 1 || fd === 2) {
    ;(fd === 1 ? stdout : stderr).write(text)
    return
  }
  if (fd !== undefined) {
    await promisify(writeOpenFile)(fd, text)
    return
  }
  const existing = await unlessMissing(stat(target))
  if (existing === undefined || existing.isFile()) {
    await replaceFile(target, text, existing?.mode)
  } else {
    // A folder rejects this with a message that names it.
    await writeFile(target, text)
  }
}

function openFileOf(path: string): number | undefined {
  const { name, fd, own } = OPEN_FILE.exec(path)?.groups ?? {}
  const number = name === undefined ? (fd ?? own) : name === 'out' ? 1 : 2
  return number === undefined ? undefined : Number(number)
}

/** Replaces a file, or creates it. A file keeps its permissions. */
async function replaceFile(target: string, text: string, mode: number | undefined): Promise<void> {
  // In the same folder, because a file cannot be renamed to another file system.
  const unfinished = join(dirname(target), `.tollgate-${randomBytes(8).toString('hex')}.tmp`)
  // Not over an existing name, which may be a link that somebody else has put there.
  const handle = await open(unfinished, 'wx')
  try {
    try {
      if (mode !== undefined) {
        await handle.chmod(mode & 0o777)
      }
      await handle.writeFile(text)
    } finally {
      await handle.close()
    }
    await rename(unfinished, target)
  } catch (error) {
    await rm(unfinished, { force: true }).catch(() => {})
    throw error
  }
}

/** The path of the file that symbolic links lead to. It need not exist. */
async function targetOf(file: string): Promise<string> {
  let path = resolve(file)
  for (let links = 0; links <= MAX_LINKS; links++) {
    const link = openFileOf(path) !== undefined ? undefined : await unlessMissing(readlink(path))
    if (link === undefined) {
      return path
    }
    path = isAbsolute(link) ? link : `${await realpath(dirname(path))}/${link}`
  }
  throw new Error('too many symbolic links')
}

/** The result of a call on a path; `undefined` if nothing is there, or not a link. */
async function unlessMissing<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    // Windows reports a file that is no link as UNKNOWN.
    if (['ENOENT', 'EINVAL', 'UNKNOWN'].includes(code)) {
      return undefined
    }
    throw error
  }
}
