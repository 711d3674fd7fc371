/** What all commands have in common: words, help, exit codes, and how they end. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { start, tollgate } from './command.js'

const { version } = JSON.parse(readFileSync(join(__dirname, '..', '..', 'package.json'), 'utf8')) as { version: string }

test('--version tells the version of the package', async () => {
  expect(await tollgate(['--version'])).toEqual({ code: 0, signal: null, stdout: `${version}\n`, stderr: '' })
})

test('--help lists the commands and what exit codes mean', async () => {
  const { code, stdout, stderr } = await tollgate(['--help'])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^ {2}simulate .*replay an access log/m)
  for (const line of ['0   success', '1   negative result', '2   wrong usage', '3   environment failure']) {
    expect(stdout).toContain(line)
  }
})

test.each([['help simulate'], ['simulate --help']])('%s prints what the command takes', async (words) => {
  const { code, stdout, stderr } = await tollgate(words.split(' '))
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^Usage: tollgate simulate /)
})

test('no command at all is wrong usage, answered by the help', async () => {
  const { code, stdout, stderr } = await tollgate([])
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toMatch(/^Usage: tollgate /)
})

test.each([
  ['simulat', "tollgate: unknown command 'simulat'\n(Did you mean simulate?)\n"],
  ['--verbos', "tollgate: unknown option '--verbos'\n"],
  ['simulate', "tollgate: missing required argument 'log'\n"],
  ['simulate access.log --polcy x', "tollgate: unknown option '--polcy'\n"],
])('%s is wrong usage, told in a line and not by a stack', async (words, complaint) => {
  const { code, stdout, stderr } = await tollgate(words.split(' '))
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr.startsWith(complaint)).toBe(true)
  expect(stderr).not.toMatch(/^\s+at /m)
})

test('a reader that has seen enough ends it quietly', async () => {
  const child = start(['--help'])
  let complaint = ''
  child.stderr?.on('data', (text) => {
    complaint += text
  })
  child.stdout?.destroy()
  const code = await new Promise((resolve) => child.on('close', resolve))
  expect({ code, complaint }).toEqual({ code: 0, complaint: '' })
})
