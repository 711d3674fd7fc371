import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Waits until the pipe is closed, which the end of this process does, however it ends; then ends what still
 * runs, by the numbers in the folder, and removes the folder.
 */
const MINDER = `
  cat > /dev/null
  for file in "$1"/*/pid; do
    [ -f "$file" ] && kill -9 "$(cat "$file")" 2> /dev/null
  done
  rm -rf "$1" || { sleep 1; rm -rf "$1"; }`

/** Where the folders of this process are, and whose end of a pipe says that it is still there. */
interface Minded {
  readonly root: string
  readonly minder: ChildProcess
  readonly folders: Set<string>
}

let minded: Minded | undefined

/** A new folder for one server. Whatever becomes of this process, it does not outlive it. */
export function newFolder(name: string): string {
  minded ??= begin()
  const folder = mkdtempSync(join(minded.root, `${name}-`))
  minded.folders.add(folder)
  return folder
}

/** Removes a folder. After the last nothing is left, and nobody minds. May be called again. */
export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  if (minded?.folders.delete(folder) && minded.folders.size === 0) {
    minded.minder.stdin?.end()
    minded = undefined
  }
}

/** Notes in its folder that a server runs, until it has ended. */
export function mind(folder: string, server: ChildProcess): void {
  if (server.pid !== undefined) {
    const file = join(folder, 'pid')
    writeFileSync(file, `${server.pid}`)
    // The number may soon be another's.
    server.once('exit', () => rmSync(file, { force: true }))
  }
}

function begin(): Minded {
  // Short: the path of a unix socket has room for 107 bytes.
  const root = mkdtempSync(join(tmpdir(), 'tollgate-'))
  // In a session of its own, so that Ctrl-C does not end it before its work begins.
  const minder = spawn('/bin/sh', ['-c', MINDER, 'sh', root], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  // It does not keep this process alive.
  minder.unref()
  ;(minder.stdin as unknown as { unref(): void }).unref()
  return { root, minder, folders: new Set() }
}
