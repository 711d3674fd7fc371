import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Waits until the pipe is closed, which happens when this process ends in any way. Then kills the
 * remaining processes by the ids in the folder, and removes the folder.
 */
const WATCHER_SCRIPT = `
  cat > /dev/null
  for file in "$1"/*/pid; do
    [ -f "$file" ] && kill -9 "$(cat "$file")" 2> /dev/null
  done
  rm -rf "$1" || { sleep 1; rm -rf "$1"; }`

/** The root of this process's folders, and the pipe whose end signals that the process has gone. */
interface Watcher {
  readonly root: string
  readonly process: ChildProcess
  readonly folders: Set<string>
}

let watcher: Watcher | undefined

/** A new folder for one server. It does not outlive this process, however that ends. */
export function newFolder(name: string): string {
  watcher ??= begin()
  const folder = mkdtempSync(join(watcher.root, `${name}-`))
  watcher.folders.add(folder)
  return folder
}

/** Removes a folder. After the last one the watcher ends, too. May be called again. */
export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  if (watcher?.folders.delete(folder) && watcher.folders.size === 0) {
    watcher.process.stdin?.end()
    watcher = undefined
  }
}

/** Records in its folder that a server runs, until it has exited. */
export function recordServer(folder: string, server: ChildProcess): void {
  if (server.pid !== undefined) {
    const file = join(folder, 'pid')
    writeFileSync(file, `${server.pid}`)
    // The system may soon reuse the id.
    server.once('exit', () => rmSync(file, { force: true }))
  }
}

function begin(): Watcher {
  // Short: the path of a unix socket has room for 107 bytes.
  const root = mkdtempSync(join(tmpdir(), 'tollgate-'))
  // In its own session, so that Ctrl-C does not end it before its work starts.
  const process = spawn('/bin/sh', ['-c', WATCHER_SCRIPT, 'sh', root], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  // It does not keep this process alive.
  process.unref()
  ;(process.stdin as unknown as { unref(): void }).unref()
  return { root, process, folders: new Set() }
}
