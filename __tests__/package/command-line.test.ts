/** The command line from its package, installed beside the main package as from the registry. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CLI, MAIN, Release, run } from './release.js'

let release: Release
let consumer: string

beforeAll(async () => {
  release = await Release.make()
  consumer = await release.installCli('cli-consumer')
})

afterAll(() => release.remove())

/** The program behind both commands. */
const program = () => join(consumer, 'node_modules', CLI, 'dist', 'cli', 'main.js')

test('npm links both commands to the program', async () => {
  const npm = process.platform === 'win32' ? 'npx.cmd' : 'npx'
  for (const command of [CLI, MAIN]) {
    const words = ['--no', '--', command, '--version']
    expect(await run(npm, words, consumer, process.platform === 'win32')).toBe(`${release.main.version}\n`)
  }
  expect(existsSync(join(consumer, 'node_modules', CLI, 'node_modules'))).toBe(false)
})

test('simulate replays a log through the installed engine, and writes a report', async () => {
  const line = (second: number) => `192.0.2.1 - - [31/Jan/2026:10:00:0${second} +0000] "GET / HTTP/1.1" 200 1\n`
  writeFileSync(join(consumer, 'access.log'), [1, 2, 3].map(line).join(''))
  const words = ['simulate', 'access.log', '--policy', 'gcra limit=1 period=1h', '--key', 'ip']
  const { policies } = JSON.parse(await run('node', [program(), ...words, '--format', 'json'], consumer)) as {
    readonly policies: readonly object[]
  }
  expect(policies).toMatchObject([{ requests: 3, refused: 2 }])
  expect(await run('node', [program(), ...words, '--format', 'html'], consumer)).toContain('</html>')
})

test('the demo sends requests to a limited server', async () => {
  const output = await run('node', [program(), 'demo', '--seconds', '1'], consumer)
  expect(output).toContain('no client got more than')
})

test('a command for Redis reaches the client of the addon', async () => {
  const words = [program(), 'prefixes', 'redis://127.0.0.1:1']
  await expect(run('node', words, consumer)).rejects.toThrow(/tollgate: .*127\.0\.0\.1:1/)
})

test('the playground serves its page with its engine', async () => {
  const server = spawn('node', [program(), 'playground', '--port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] })
  try {
    const [line] = (await once(server.stdout, 'data')) as [Buffer]
    const [address = ''] = String(line).split('\n')
    expect(address).toMatch(/^http:\/\/localhost:\d+\/$/)
    const page = await (await fetch(address)).text()
    const files = [...page.matchAll(/(?:src|href)="\.?\/?([\w.-]+)"/g)].map(([, file]) => file)
    expect(files).toEqual(expect.arrayContaining(['page.js', 'style.css']))
    for (const file of [...files, 'worker.js']) {
      expect((await fetch(address + file)).status).toBe(200)
    }
    expect((await fetch(`${address}..%2fcli%2fmain.js`)).status).toBe(404)
  } finally {
    server.kill()
    await once(server, 'exit')
  }
})
