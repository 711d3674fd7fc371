/**
 * Runtimes besides Node.js, from packages that ship their binaries. They run and serve programs of
 * a consumer's folder.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { build, type Plugin } from 'esbuild'
import { newFolder, recordServer, removeFolder } from '../servers/run-folder.js'

/** The command that runs a program. */
export interface Runtime {
  readonly name: string
  readonly command: string
  /** The arguments before the program. `rights` are Deno's permissions. */
  words(rights: readonly string[]): readonly string[]
}

/**
 * The binaries themselves: until their install scripts have run, the packages have a script or
 * nothing in their place.
 */
const installed = (...path: readonly string[]) => join(__dirname, 'node_modules', ...path)
const isArm = process.arch === 'arm64'
const WORKERD = installed('@cloudflare', `workerd-linux-${isArm ? 'arm64' : '64'}`, 'bin', 'workerd')

export const NODE: Runtime = { name: 'Node.js', command: process.execPath, words: () => [] }

export const DENO: Runtime = {
  name: 'Deno',
  command: installed('@deno', `linux-${process.arch}-glibc`, 'deno'),
  words: (rights) => ['run', '--no-prompt', ...rights],
}

/** Its install script moves the binary. */
const unmovedBun = installed('@oven', `bun-linux-${isArm ? 'aarch64' : 'x64'}`, 'bin', 'bun')

export const BUN: Runtime = {
  name: 'Bun',
  command: existsSync(unmovedBun) ? unmovedBun : installed('bun', 'bin', 'bun.exe'),
  words: () => ['run'],
}

/** The Deno permissions that the addon needs. */
export const ADDON_RIGHTS = ['--allow-ffi', '--allow-read', '--allow-env']

/** A program's output, parsed as JSON. Its time limit is half a minute. */
export async function jsonOutput(
  { command, words }: Runtime,
  folder: string,
  program: string,
  rights: readonly string[] = [],
  ...args: readonly string[]
): Promise<unknown> {
  const line = [...words(rights), program, ...args]
  const limits = { timeout: 30_000, killSignal: 'SIGKILL', maxBuffer: 2 ** 24 } as const
  const { stdout } = await promisify(execFile)(command, line, { cwd: folder, env: envOf(folder), ...limits })
  return JSON.parse(stdout)
}

/**
 * The environment: runtimes start without caches, leave none behind, and do not check for updates.
 */
function envOf(folder: string): NodeJS.ProcessEnv {
  return {
    ...process.env,
    NO_COLOR: '1',
    DENO_DIR: join(folder, '.deno'),
    DENO_NO_UPDATE_CHECK: '1',
    BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0',
    DO_NOT_TRACK: '1',
  }
}

/** A serving program. */
export interface ServedProgram extends AsyncDisposable {
  readonly url: string
}

/** Serves the app of `programs/` with a program that prints its URL. */
export function serve({ command, words }: Runtime, folder: string): Promise<ServedProgram> {
  return started(command, [...words(['--allow-net=127.0.0.1']), 'serve.mjs'], folder, (line) => line)
}

/** Bundles the app of `programs/` as a Worker, and serves it with workerd. */
export async function serveByWorkerd(folder: string): Promise<ServedProgram> {
  const bundle = await bundleWorker(folder)
  const words = ['serve', 'config.capnp', '--control-fd=1']
  return started(WORKERD, words, bundle, (line) => {
    const { port } = JSON.parse(line) as { readonly port: number }
    return `http://127.0.0.1:${port}`
  })
}

/** The modules beside a Worker's program, which workerd compiles. */
function compiled(bundle: string, modules: string[]): Plugin {
  return {
    name: 'compiled',
    setup(build) {
      build.onResolve({ filter: /\.wasm$/ }, ({ path, resolveDir }) => {
        const name = basename(path)
        copyFileSync(join(resolveDir, path), join(bundle, name))
        modules.push(name)
        return { path: `./${name}`, external: true }
      })
    },
  }
}

/**
 * Builds the deployed form of the app, like Cloudflare's own tools: one program, and compiled
 * modules beside it.
 */
async function bundleWorker(folder: string): Promise<string> {
  const bundle = join(folder, 'worker')
  mkdirSync(bundle)
  const modules: string[] = []
  await build({
    entryPoints: [join(folder, 'app.mjs')],
    bundle: true,
    format: 'esm',
    target: 'es2022',
    // Modules of Node cannot be resolved: importing one, or the addon, fails here.
    platform: 'browser',
    conditions: ['workerd', 'worker', 'browser'],
    outfile: join(bundle, 'worker.mjs'),
    logLevel: 'silent',
    plugins: [compiled(bundle, modules)],
  })
  const embedded = modules.map((name) => `, (name = "${name}", wasm = embed "${name}")`)
  const config = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "app", worker = (
      modules = [(name = "worker.mjs", esModule = embed "worker.mjs")${embedded.join('')}],
      compatibilityDate = "2026-10-01",
    )),
    # Where it may fetch from: this machine.
    (name = "internet", network = (allow = ["private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "app")],
);
`
  writeFileSync(join(bundle, 'config.capnp'), config)
  return bundle
}

/**
 * Starts a server, and waits for the line with its URL. The server does not outlive this process.
 */
async function started(
  command: string,
  words: readonly string[],
  cwd: string,
  urlOf: (line: string) => string,
): Promise<ServedProgram> {
  const folder = newFolder('runtime')
  const child = spawn(command, words, { cwd, env: envOf(cwd), stdio: ['ignore', 'pipe', 'pipe'] })
  recordServer(folder, child)
  const complaints: string[] = []
  child.stderr.on('data', (chunk) => complaints.push(`${chunk}`))
  const dispose = async () => {
    await ended(child)
    await removeFolder(folder)
  }
  const lines = createInterface(child.stdout)
  try {
    const [line] = await Promise.race([once(lines, 'line'), once(lines, 'close')])
    if (line === undefined) {
      throw new Error(`${command} did not say where it serves: ${complaints.join('')}`)
    }
    return { url: urlOf(line), [Symbol.asyncDispose]: dispose }
  } catch (error) {
    await dispose()
    throw error
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
}
