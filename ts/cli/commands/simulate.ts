import { Command, InvalidArgumentError, Option } from 'commander'
import { millisOf } from '../../input/duration.js'
import { GLOBAL } from '../../policies/key-dimension.js'
import { compoundOf } from '../../policies/policy-set.js'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { checked, failedOutside, wrongUsage } from '../failure.js'
import { deliver } from '../output.js'
import { exactly, type NamedPolicy, policiesFromFile, policiesFromTexts } from '../policies.js'
import { progressOf } from '../progress.js'
import { bytesOf } from '../simulate/log/chunks.js'
import { KEY_RULE, type KeySpec, keySpecOf, prefixOf } from '../simulate/log/key.js'
import type { LogFormat } from '../simulate/log/line.js'
import { type Log, type Replay, replay } from '../simulate/replay.js'
import { type Report, reportOf } from '../simulate/report/report.js'
import { htmlReport } from '../simulate/report/report-html.js'
import { textReport } from '../simulate/report/report-text.js'
import {
  DEFAULT_SHAPES,
  type Goal,
  goalOf,
  lacksNumber,
  type Suggestion,
  suggest,
  withoutNumber,
} from '../simulate/suggest.js'
import { FullTally } from '../simulate/tally.js'
import type { Terminal } from '../terminal.js'

interface Options {
  readonly policy: readonly string[]
  readonly policies?: string
  readonly key: readonly string[]
  readonly cost?: string
  readonly suggest?: string
  readonly format: 'text' | 'json' | 'html'
  readonly output?: string
  readonly top: number
  readonly logFormat: LogFormat
  readonly timeField?: string
  readonly reorder: string
  readonly ipv6Prefix: number
  readonly failAbove?: number
  readonly failOnBroken: boolean
  readonly progress: boolean
}

const DESCRIPTION = `Replays an access log through policies, at the times in the log, and tells what each would have refused.

Logs are in the common or combined format of Apache and nginx, or JSON lines; compressed by gzip or not; - is the standard \
input. Several are read one after the other, as one log. The engine is that of the library, with a clock that shows the \
times of the log.`

const MORE = `
A policy is an algorithm's function and its options, as docs/algorithms.md has them; an amount for a length of time is \
written as one:
  gcra limit=100 period=1m burst=20          fixedWindow limit=100 window=1m
  tokenBucket capacity=50 refill=10/1s       slidingWindow limit=100 window=1m
  leakyBucket capacity=50 leak=10/1s         slidingLogs limits.burst=10/1s limits.day=1000/1d
  calendarWindow limit=5000 every=day timeZone=Europe/Berlin

Examples:
  npx tollgate simulate access.log --policy 'gcra limit=100 period=1m burst=20' --key ip
  zcat access.log.*.gz | npx tollgate simulate - --policies limits.json --format html --output report.html
  npx tollgate simulate access.log --key user --suggest '0.1% of requests'

Exit codes: 0 fine; 1 --fail-above or --fail-on-broken says so; 2 wrong usage, such as a --key that no request has; 3 a file \
cannot be read or written, or no line of the log can; 130 interrupted.`

/** `tollgate simulate`: what policies would have done to the requests of an access log. */
export function simulateCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  return new Command('simulate')
    .summary('replay an access log through policies, and tell what they would have refused')
    .description(DESCRIPTION)
    .argument('<log...>', 'the files of the log, or - for the standard input')
    .option('-p, --policy <policy>', 'a policy in a line of text; may be given several times', collected, [])
    .option('--policies <file>', 'policies by name in a JSON file, also several that decide together')
    .option(
      '-k, --key <key>',
      `what is limited: ${KEY_RULE}; or subject=key for policies with a per (default: ip)`,
      collected,
      [],
    )
    .option('--cost <field>', 'the field that tells what a request costs, such as bytes (default: each costs 1)')
    .option(
      '--suggest <share>',
      "propose numbers that refuse at most this share: '1%', '1% of keys'; a policy may lack its number",
    )
    .addOption(new Option('-f, --format <format>', 'of the report').choices(['text', 'json', 'html']).default('text'))
    .option('-o, --output <file>', 'write the report to a file')
    .option('--top <count>', 'how many keys the report names for each policy', countOf, 10)
    .addOption(new Option('--log-format <format>', 'of the log').choices(['auto', 'common', 'json']).default('auto'))
    .option('--time-field <path>', 'the JSON field that has the time (default: time, timestamp, @timestamp, ts, …)')
    .option('--reorder <duration>', 'how far behind the newest a line may be and still be put in order', '1m')
    .option('--ipv6-prefix <bits>', 'the bits of an IPv6 address that make a key', bitsOf, 56)
    .option(
      '--fail-above <share>',
      'exit with 1 if a policy refuses more than this share of requests, such as 1%',
      shareOf,
    )
    .option('--fail-on-broken', 'exit with 1 if a line cannot be read', false)
    .option('--no-progress', 'show no progress bar')
    .addHelpText('after', MORE)
    .action(async (files: readonly string[], options: Options) => {
      done(await simulate(files, options, terminal))
    })
}

async function simulate(files: readonly string[], options: Options, terminal: Terminal): Promise<ExitCode> {
  const goal = options.suggest === undefined ? undefined : goalOf(options.suggest)
  const policies = policiesOf(options, goal)
  if (goal !== undefined && files.includes('-')) {
    throw wrongUsage('--suggest replays the log several times, which the standard input cannot be: give a file')
  }
  if (options.failAbove !== undefined && policies.every(({ isWhole }) => !isWhole)) {
    throw wrongUsage('--fail-above needs a policy with all of its numbers: --policy, or --policies')
  }
  const log: Log = { files, stdin: terminal.stdin, ...keysOf(options, policies), ...readingOf(options) }
  const total = await bytesOf(files)
  const replayer = async (judged: Parameters<typeof replay>[1], title: string) => {
    const progress = progressOf(terminal, title, options.progress ? total : undefined)
    try {
      return await replay(log, judged, (bytes) => progress.advance(bytes))
    } finally {
      progress.end()
    }
  }
  // A policy that lacks its number is there only to be searched for.
  const full = policies.filter(({ isWhole }) => isWhole).map((named) => [named, new FullTally()] as const)
  const replayed = await replayer(full, 'replaying')
  const { lines, requests, broken, firstBroken } = replayed.reading
  if (lines === 0) {
    throw failedOutside(
      `the log is empty: ${files.map((file) => (file === '-' ? 'the standard input' : file)).join(', ')}`,
    )
  }
  if (requests === 0) {
    const { file, line, reason } = firstBroken[0] as (typeof firstBroken)[0]
    throw failedOutside(`no line of the log can be read; the first, ${file}:${line}: ${reason}`)
  }
  expectFields(replayed, options)
  let suggestions: Suggestion[] = []
  if (goal !== undefined) {
    suggestions = await suggest(policies, goal, (judged) => replayer(judged, 'searching'))
  }
  const report = reportOf(files, replayed, full, suggestions, options.top)
  await deliver(written(report, options.format), options.output, terminal)
  const isTooMuch = report.policies.some(({ share }) => share > (options.failAbove ?? 1))
  return isTooMuch || (options.failOnBroken && broken > 0) ? EXIT.no : EXIT.fine
}

/** Expects that the log has what `--key` and `--cost` name: otherwise nothing would be judged, and so nothing refused. */
function expectFields({ reading: { requests, withoutCost }, tables }: Replay, { key, cost }: Options): void {
  for (const { spec, requests: of, tooLong } of tables) {
    if (of[0] === requests) {
      const option = key.find((text) => text === spec.text || text.endsWith(`=${spec.text}`)) ?? spec.text
      const lack = tooLong > 0 ? 'has only keys above 1024 bytes there' : 'has no request with it'
      const fields = 'a field such as ip, user or path, a JSON field by its path, or a regular expression'
      throw wrongUsage(`--key ${option}: the log ${lack}; give ${fields}`)
    }
  }
  if (cost !== undefined && withoutCost === requests) {
    throw wrongUsage(
      `--cost ${cost}: the log has no request with a number there; give bytes, or a JSON field by its path`,
    )
  }
}

function written(report: Report, format: Options['format']): string {
  switch (format) {
    case 'json':
      return `${JSON.stringify(report, null, 2)}\n`
    case 'html':
      return htmlReport(report)
    default:
      return textReport(report)
  }
}

interface Candidate extends NamedPolicy {
  /** Whether it has all numbers, and not only a shape. */
  readonly isWhole: boolean
}

function policiesOf({ policy, policies: file }: Options, goal: Goal | undefined): Candidate[] {
  const shapes = policy.length === 0 && file === undefined && goal !== undefined ? DEFAULT_SHAPES : policy
  const lacking = new Set<unknown>()
  const make: typeof exactly = (options, where) => {
    if (goal === undefined) {
      return exactly(options, where)
    }
    const made = withoutNumber(options, where)
    if (lacksNumber(options)) {
      lacking.add(made)
    }
    return made
  }
  const all = [...policiesFromTexts(shapes, make), ...(file === undefined ? [] : policiesFromFile(file, make))]
  if (all.length === 0) {
    throw wrongUsage("no policy is given: --policy 'gcra limit=100 period=1m', --policies limits.json, or --suggest 1%")
  }
  const twice = all.find(({ name }, index) => all.findIndex((other) => other.name === name) !== index)
  if (twice !== undefined) {
    throw wrongUsage(`the policy ${JSON.stringify(twice.name)} is given twice`)
  }
  return all.map(({ name, policy }) => {
    const isWhole = !lacking.has(policy)
    // The number that stands for the one that is searched for is nobody's.
    return { name: isWhole ? name : name.replace(/ (limit|capacity)=1(?= |$)/, ''), policy, isWhole }
  })
}

/** The keys: the first is that of the requests, the others those of policies' subjects. */
function keysOf({ key, ipv6Prefix }: Options, policies: readonly NamedPolicy[]): Pick<Log, 'keys' | 'kindOf'> {
  const subjects = new Set(policies.flatMap(({ policy }) => compoundOf(policy).subjects ?? []))
  subjects.delete(GLOBAL)
  const given = new Map<string | undefined, string>()
  for (const text of key) {
    const [, subject, spec] = /^([A-Za-z][\w.-]{0,31})=(.+)$/.exec(text) ?? []
    if (subject !== undefined && !subjects.has(subject)) {
      throw wrongUsage(`--key ${JSON.stringify(text)}: no policy has per: ${JSON.stringify(subject)}`)
    }
    if (given.has(subject)) {
      throw wrongUsage(`--key ${subject === undefined ? '' : `${subject}=… `}is given twice: keys are joined by +`)
    }
    given.set(subject, spec ?? text)
  }
  const isPlain = policies.some(({ policy }) => compoundOf(policy).subjects === undefined)
  const kinds: (string | undefined)[] = isPlain || subjects.size === 0 ? [undefined, ...subjects] : [...subjects]
  const keys = kinds.map((kind): KeySpec => keySpecOf(given.get(kind) ?? kind ?? 'ip', ipv6Prefix))
  return { keys, kindOf: (subject) => kinds.indexOf(subject) }
}

function readingOf(options: Options): Pick<Log, 'format' | 'timeField' | 'cost' | 'window'> {
  const { logFormat, timeField, cost, ipv6Prefix, reorder } = options
  return {
    format: logFormat,
    timeField,
    cost: cost === undefined ? undefined : keySpecOf(cost, ipv6Prefix),
    window: reorder === '0' ? 0 : checked('--reorder', () => millisOf('INVALID_OPTION', 'it', reorder)),
  }
}

function collected(value: string, before: readonly string[]): string[] {
  return [...before, value]
}

function countOf(text: string): number {
  const count = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(count)) {
    throw new InvalidArgumentError('It must be a whole number.')
  }
  return count
}

function bitsOf(text: string): number {
  return prefixOf(countOf(text))
}

function shareOf(text: string): number {
  const [, percent] = /^(\d+(?:\.\d+)?)%$/.exec(text.trim()) ?? []
  if (percent === undefined) {
    throw new InvalidArgumentError("It must be a share such as '1%'.")
  }
  return Number(percent) / 100
}
