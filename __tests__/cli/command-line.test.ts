/** Features of all commands: argument parsing, help, exit codes and exit behaviour. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { start, tollgate } from './command.js'

const { version } = JSON.parse(readFileSync(join(__dirname, '..', '..', 'package.json'), 'utf8')) as { version: string }

test('--version prints the version of the package', async () => {
  expect(await tollgate(['--version'])).toEqual({ code: 0, signal: null, stdout: `${version}\n`, stderr: '' })
})

test('--help lists the commands and the exit codes', async () => {
  const { code, stdout, stderr } = await tollgate(['--help'])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^ {2}simulate .*replay an access log/m)
  for (const line of ['0   success', '1   negative result', '2   wrong usage', '3   environment failure']) {
    expect(stdout).toContain(line)
  }
})

test.each([['help simulate'], ['simulate --help']])('%s prints the arguments of the command', async (words) => {
  const { code, stdout, stderr } = await tollgate(words.split(' '))
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^Usage: tollgate-cli simulate /)
})

test('running without a command is a usage error and prints the help', async () => {
  const { code, stdout, stderr } = await tollgate([])
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(/^Usage: tollgate-cli /)
})

const TWICE = 'is given twice: it takes one value, so remove one\n'

test.each([
  ['simulat', "tollgate: unknown command 'simulat'\n(Did you mean simulate?)\n"],
  ['--verbos', "tollgate: unknown option '--verbos'\n"],
  ['simulate', "tollgate: missing required argument 'log'\n"],
  ['simulate access.log --polcy x', "tollgate: unknown option '--polcy'\n"],
  ['simulate a.log --policies a.json --policies b.json', `tollgate: --policies ${TWICE}`],
  ['simulate a.log --cost bytes --cost bytes', `tollgate: --cost ${TWICE}`],
  ['inspect --prefix a --key k --prefix b', `tollgate: --prefix ${TWICE}`],
  ['inspect --prefix a --key k --tier a --tier=b', `tollgate: --tier ${TWICE}`],
  ['top --prefix a --watch --watch 1s', `tollgate: --watch ${TWICE}`],
  ['demo --seconds 1 --seconds 2', `tollgate: --seconds ${TWICE}`],
  [
    'prefixes redis://localhost:1 --nat a:1=b:2 --nat a:1=c:3',
    'tollgate: --nat a:1=… is given twice: each reported address has one translation, so remove one\n',
  ],
])('%s is a usage error: one line, without a stack', async (words, complaint) => {
  const { code, stdout, stderr } = await tollgate(words.split(' '))
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr.startsWith(complaint)).toBe(true)
  expect(stderr).not.toMatch(/^\s+at /m)
})

test('a reader that closes the pipe early ends the command quietly', async () => {
  const child = start(['--help'])
  let complaint = ''
  child.stderr?.on('data', (text) => {
    complaint += text
  })
  child.stdout?.destroy()
  const code = await new Promise((resolve) => child.on('close', resolve))
  expect({ code, complaint }).toEqual({ code: 0, complaint: '' })
})
