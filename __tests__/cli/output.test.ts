/** `--output`: regular files are replaced atomically, links stay, and devices and FIFOs get the text. */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { writeResult } from '../../ts/cli/output.js'

const TERMINAL = {
  stdin: new PassThrough(),
  stdout: new PassThrough(),
  stderr: new PassThrough(),
  env: {},
}

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-output-'))
})

afterEach(() => rmSync(folder, { recursive: true }))

function write(name: string, text = 'new'): Promise<void> {
  return writeResult(text, name.startsWith('/') ? name : join(folder, name), TERMINAL)
}

function read(name: string): string {
  return readFileSync(join(folder, name), 'utf8')
}

test('a regular file is created, and replaced with its permissions', async () => {
  await write('report')
  expect(read('report')).toBe('new')
  chmodSync(join(folder, 'report'), 0o600)
  const { ino } = statSync(join(folder, 'report'))
  await write('report', 'newer')
  expect(read('report')).toBe('newer')
  const replaced = statSync(join(folder, 'report'))
  expect(replaced.mode & 0o777).toBe(0o600)
  expect(replaced.ino).not.toBe(ino)
  expect(readdirSync(folder)).toEqual(['report'])
})

test('a name of 255 bytes can be written', async () => {
  await write('x'.repeat(255))
  expect(read('x'.repeat(255))).toBe('new')
})

test('symbolic links stay, and their file is written, also if it does not exist', async () => {
  mkdirSync(join(folder, 'inner'))
  symlinkSync('inner', join(folder, 'folder'))
  symlinkSync('second', join(folder, 'first'))
  symlinkSync('folder/../inner/target', join(folder, 'second'))
  for (const text of ['new', 'newer']) {
    await write('first', text)
    expect(read('inner/target')).toBe(text)
  }
  expect(['first', 'second'].map((name) => readlinkSync(join(folder, name)))).toEqual([
    'second',
    'folder/../inner/target',
  ])
  expect(readdirSync(join(folder, 'inner'))).toEqual(['target'])
})

test('links in a circle, a folder and a missing folder are failures', async () => {
  symlinkSync('two', join(folder, 'one'))
  symlinkSync('one', join(folder, 'two'))
  mkdirSync(join(folder, 'here'))
  for (const name of ['one', 'here', 'nowhere/report']) {
    await expect(write(name)).rejects.toThrow(/ cannot be written: /)
  }
  expect(readdirSync(folder).sort()).toEqual(['here', 'one', 'two'])
})

test('a device stays a device', async () => {
  const before = statSync('/dev/null')
  await write('/dev/null')
  symlinkSync('/dev/null', join(folder, 'null'))
  await write('null')
  const after = lstatSync('/dev/null')
  expect(after.isCharacterDevice()).toBe(true)
  expect([after.ino, after.rdev]).toEqual([before.ino, before.rdev])
  expect(readdirSync(folder)).toEqual(['null'])
})

test('a FIFO gets the text, and stays', async () => {
  const fifo = join(folder, 'fifo')
  execFileSync('mkfifo', [fifo])
  const [text] = await Promise.all([readFile(fifo, 'utf8'), write('fifo')])
  expect(text).toBe('new')
  expect(lstatSync(fifo).isFIFO()).toBe(true)
})

test('standard output is written by its name, after what is there', () => {
  const program = join(__dirname, '..', '..', 'dist', 'cli', 'main.js')
  const log = join(folder, 'access.log')
  writeFileSync(log, '10.0.0.1 - - [31/Jan/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 10\n')
  const simulate = `"${process.execPath}" "${program}" simulate "${log}" --policy 'gcra limit=1 period=1s' --format json`
  const piped = execFileSync('sh', ['-c', `${simulate} --output /dev/stdout | cat`], { encoding: 'utf8' })
  expect(JSON.parse(piped)).toMatchObject({ requests: 1 })
  execFileSync('sh', ['-c', `{ echo before; ${simulate} --output /dev/stdout; echo after; } > "${folder}/all"`])
  const lines = read('all').trim().split('\n')
  expect([lines[0], lines.at(-1)]).toEqual(['before', 'after'])
  expect(JSON.parse(lines.slice(1, -1).join('\n'))).toMatchObject({ requests: 1 })
})

test('an existing file with a name like an unfinished one is not written', async () => {
  // A link that somebody has put at the name which the process would choose, if it could be guessed.
  symlinkSync('/dev/full', join(folder, `report.${process.pid}.tmp`))
  await write('report')
  expect(read('report')).toBe('new')
  expect(readdirSync(folder).sort()).toEqual(['report', `report.${process.pid}.tmp`])
})
