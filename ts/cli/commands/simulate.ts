import { Command, InvalidArgumentError, Option } from 'commander'
import { millisOf } from '../../input/duration.js'
import { GLOBAL } from '../../policies/key-dimension.js'
import { policySetOf } from '../../policies/policy-set.js'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { asUsageError, environmentError, usageError } from '../failure.js'
import { writeResult } from '../output.js'
import { type LimiterPolicies, makePolicy, policiesFromFile, policiesFromTexts } from '../policies.js'
import { type CommandProgress, progressOf } from '../progress.js'
import { collect } from '../redis/connect/options.js'
import { bytesOf } from '../simulate/log/chunks.js'
import { KEY_RULE, type KeySpec, keySpecOf, prefixOf } from '../simulate/log/key.js'
import type { LogFormat } from '../simulate/log/line.js'
import { Peaks, windowOf, windowsOf } from '../simulate/peaks.js'
import { type AccessLog, type ReplayResult, replay } from '../simulate/replay.js'
import { reportOf, type SimulationReport } from '../simulate/report/report.js'
import { htmlReport } from '../simulate/report/report-html.js'
import { textReport } from '../simulate/report/report-text.js'
import {
  DEFAULT_SHAPES,
  goalOf,
  type LackingOptions,
  lacksNumber,
  type PolicyCandidate,
  REPLAYS_OF_SEARCH,
  type RefusalGoal,
  suggest,
  withoutNumber,
} from '../simulate/suggest.js'
import { ReportTally } from '../simulate/tally.js'
import { columnsOf, type Paint, paintFor, plain, type Terminal, wrapped } from '../terminal.js'

interface SimulateOptions {
  readonly policy?: readonly string[]
  readonly policies?: string
  readonly key?: readonly string[]
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
  readonly failOnBroken?: boolean
  readonly progress: boolean
}

const DESCRIPTION = `Replays an access log through policies, at the times in the log, and reports what each would have refused.

Logs are in the common or combined format of Apache and nginx, or JSON lines, and may be compressed by gzip; - is the \
standard input. Several files are read one after the other, as one log. The engine is that of the library, with a clock \
that follows the times of the log.`

const MORE = `
A policy is the name of an algorithm's function and its options, as in docs/algorithms.md. An amount per duration is \
written as a rate:
  gcra limit=100 period=1m burst=20          fixedWindow limit=100 window=1m
  tokenBucket capacity=50 refill=10/1s       slidingWindow limit=100 window=1m
  leakyBucket capacity=50 leak=10/1s         slidingLog limits.burst=10/1s limits.day=1000/1d
  calendarWindow limit=5000 every=day timeZone=Europe/Berlin

Examples:
  npx tollgate-cli simulate access.log --policy 'gcra limit=100 period=1m burst=20' --key ip
  zcat access.log.*.gz | npx tollgate-cli simulate - --policies limits.json --format html --output report.html
  npx tollgate-cli simulate access.log --key user --suggest '0.1% of requests'

Exit codes: 0 success; 1 the condition of --fail-above or --fail-on-broken is met; 2 wrong usage, such as a --key that no \
request has; 3 a file cannot be read or written, or no line of the log can be read; 130 interrupted.`

export function simulateCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  return new Command('simulate')
    .summary('replay an access log through policies, and report what they would have refused')
    .description(DESCRIPTION)
    .argument('<log...>', 'the files of the log, or - for the standard input')
    .optionsGroup('What to try:')
    .option('-p, --policy <policy>', 'a policy in a line of text; may be given several times', collect)
    .option('--policies <file>', 'policies by name in a JSON file, also several that decide together')
    .option(
      '-k, --key <key>',
      `the key of a request: ${KEY_RULE}; or dimension=key for policies with a per (default: ip)`,
      collect,
    )
    .option('--cost <field>', 'the field with the cost of a request, such as bytes (default: each costs 1)')
    .option(
      '--suggest <share>',
      "suggest numbers that refuse at most this share: '1%', '1% of keys'; a policy may omit its number",
    )
    .optionsGroup('The report:')
    .addOption(
      new Option('-f, --format <format>', 'the format of the report').choices(['text', 'json', 'html']).default('text'),
    )
    .option('-o, --output <file>', 'write the report to a file')
    .option('--top <count>', 'how many keys the report lists for each policy', countOf, 10)
    .option(
      '--fail-above <share>',
      'exit with 1 if a policy refuses more than this share of requests, such as 1%',
      shareOf,
    )
    .option('--fail-on-broken', 'exit with 1 if a line cannot be read')
    .option('--no-progress', 'show no progress bar')
    .optionsGroup('How to read the log:')
    .addOption(
      new Option('--log-format <format>', 'the format of the log').choices(['auto', 'common', 'json']).default('auto'),
    )
    .option('--time-field <path>', 'the JSON field with the time (default: time, timestamp, @timestamp, ts, …)')
    .option('--reorder <duration>', 'how far behind the newest a line may be and still be sorted', '1m')
    .option('--ipv6-prefix <bits>', 'the bits of an IPv6 address that make a key', bitsOf, 56)
    .addHelpText('after', MORE)
    .action(async (files: readonly string[], options: SimulateOptions) => {
      done(await simulate(files, options, terminal))
    })
}

async function simulate(files: readonly string[], options: SimulateOptions, terminal: Terminal): Promise<ExitCode> {
  const goal = options.suggest === undefined ? undefined : goalOf(options.suggest)
  const policies = policiesOf(options, goal)
  if (goal !== undefined && files.includes('-')) {
    throw usageError('--suggest replays the log several times, so it cannot read the standard input: give a file')
  }
  if (options.failAbove !== undefined && policies.every(({ lacking }) => lacking !== undefined)) {
    throw usageError('--fail-above needs a policy with all of its numbers: --policy, or --policies')
  }
  const log: AccessLog = { files, stdin: terminal.stdin, ...keysOf(options, policies), ...logOptionsOf(options) }
  const title = goal === undefined ? 'replaying' : 'searching'
  const total = options.progress ? await bytesOf(files) : undefined
  const progress = progressOf(terminal, title, total)
  const { replayed, complete, found } = await replayAll(log, policies, goal, options, progress, total).finally(() =>
    progress.end(),
  )
  const report = reportOf(files, replayed, complete, found, options.top)
  const [paint, columns] = options.output === undefined ? [paintFor(terminal), columnsOf(terminal.stdout)] : [plain]
  await writeResult(render(report, options.format, paint, columns), options.output, terminal)
  const isTooMuch = report.policies.some(({ share }) => share > (options.failAbove ?? 1))
  const hasBroken = replayed.summary.broken > 0
  return isTooMuch || (options.failOnBroken === true && hasBroken) ? EXIT.no : EXIT.fine
}

/** Replays the log through the policies, and then for the search. One progress bar counts all replays. */
async function replayAll(
  log: AccessLog,
  policies: readonly PolicyCandidate[],
  goal: RefusalGoal | undefined,
  options: SimulateOptions,
  progress: CommandProgress,
  total = 0,
) {
  const peaks = goal === undefined ? [] : windowsOf(policies).map((windowMs) => new Peaks(windowMs))
  let replays = 0
  const replayOnce = (replayed: Parameters<typeof replay>[1], more: number, counted: readonly Peaks[] = []) => {
    replays++
    progress.expect(total * (replays + more))
    return replay(log, replayed, (bytes) => progress.advance(bytes), counted)
  }
  // A policy without its number takes part only in the search.
  const complete = policies
    .filter(({ lacking }) => lacking === undefined)
    .map((named) => [named, new ReportTally()] as const)
  const replayed = await replayOnce(complete, goal === undefined ? 0 : REPLAYS_OF_SEARCH, peaks)
  expectRequests(log, replayed)
  expectFields(replayed, options)
  const gaps = new Map(peaks.map(({ windowMs, report }) => [windowMs as number | undefined, report.gap]))
  const gapOf = (policy: LimiterPolicies['policy']) => gaps.get(windowOf(policy)) ?? null
  const suggestions = goal === undefined ? [] : await suggest(policies, goal, replayOnce, gapOf)
  return { replayed, complete, found: { suggestions, peaks } }
}

function expectRequests({ files }: AccessLog, { summary }: ReplayResult): void {
  const { lines, requests, firstBroken } = summary
  if (lines === 0) {
    throw environmentError(
      `the log is empty: ${files.map((file) => (file === '-' ? 'the standard input' : file)).join(', ')}`,
    )
  }
  if (requests === 0) {
    const { file, line, reason } = firstBroken[0] as (typeof firstBroken)[0]
    throw environmentError(`no line of the log can be read; the first, ${file}:${line}: ${reason}`)
  }
}

/** Throws if the log has not the fields of `--key` and `--cost`: no request would be decided. */
function expectFields(
  { summary: { requests, withoutCost }, tables }: ReplayResult,
  { key = [], cost }: SimulateOptions,
): void {
  for (const { spec, requests: requestsByKey, tooLong } of tables) {
    if (requestsByKey[0] === requests) {
      const option = key.find((text) => text === spec.text || text.endsWith(`=${spec.text}`)) ?? spec.text
      const problem = tooLong > 0 ? 'has only keys above 1024 bytes there' : 'has no request with it'
      const fields = 'a field such as ip, user or path, a JSON field by its path, or a regular expression'
      throw usageError(`--key ${option}: the log ${problem}; give ${fields}`)
    }
  }
  if (cost !== undefined && withoutCost === requests) {
    throw usageError(
      `--cost ${cost}: the log has no request with a number there; give bytes, or a JSON field by its path`,
    )
  }
}

function render(
  report: SimulationReport,
  format: SimulateOptions['format'],
  paint: Paint,
  columns: number | undefined,
): string {
  if (format === 'json') {
    return `${JSON.stringify(report, null, 2)}\n`
  }
  return format === 'html' ? htmlReport(report) : wrapped(textReport(report, paint, columns), columns)
}

function policiesOf(
  { policy = [], policies: file }: SimulateOptions,
  goal: RefusalGoal | undefined,
): PolicyCandidate[] {
  const shapes = policy.length === 0 && file === undefined && goal !== undefined ? DEFAULT_SHAPES : policy
  const lackingBy = new Map<LimiterPolicies['policy'], LackingOptions>()
  const make: typeof makePolicy = (options, where) => {
    if (goal === undefined) {
      return makePolicy(options, where)
    }
    const made = withoutNumber(options, where)
    if (lacksNumber(options)) {
      lackingBy.set(made, options)
    }
    return made
  }
  const all = [...policiesFromTexts(shapes, make), ...(file === undefined ? [] : policiesFromFile(file, make))]
  if (all.length === 0) {
    throw usageError("no policy is given: --policy 'gcra limit=100 period=1m', --policies limits.json, or --suggest 1%")
  }
  const twice = all.find(({ name }, index) => all.findIndex((other) => other.name === name) !== index)
  if (twice !== undefined) {
    throw usageError(`the policy ${JSON.stringify(twice.name)} is given twice`)
  }
  const metered = all.find(({ policy }) => policySetOf(policy).meters !== undefined)
  if (metered !== undefined) {
    throw usageError(`the policy ${JSON.stringify(metered.name)}: a request has one cost; leave out meter`)
  }
  return all.map(({ name, policy }) => {
    const lacking = lackingBy.get(policy)
    // Removes the placeholder number from the name.
    return { name: lacking === undefined ? name : name.replace(/ (limit|capacity)=1(?= |$)/, ''), policy, lacking }
  })
}

/** The keys: the first is the key of policies without `per`, the others belong to key dimensions. */
function keysOf(
  { key = [], ipv6Prefix }: SimulateOptions,
  policies: readonly LimiterPolicies[],
): Pick<AccessLog, 'keys' | 'kindOf'> {
  const dimensions = new Set(policies.flatMap(({ policy }) => policySetOf(policy).dimensions ?? []))
  dimensions.delete(GLOBAL)
  const given = new Map<string | undefined, string>()
  for (const text of key) {
    const [, dimension, spec] = /^([A-Za-z][\w.-]{0,31})=(.+)$/.exec(text) ?? []
    if (dimension !== undefined && !dimensions.has(dimension)) {
      throw usageError(`--key ${JSON.stringify(text)}: no policy has per: ${JSON.stringify(dimension)}`)
    }
    if (given.has(dimension)) {
      throw usageError(`--key ${dimension === undefined ? '' : `${dimension}=… `}is given twice: keys are joined by +`)
    }
    given.set(dimension, spec ?? text)
  }
  const isPlain = policies.some(({ policy }) => policySetOf(policy).dimensions === undefined)
  const kinds: (string | undefined)[] = isPlain || dimensions.size === 0 ? [undefined, ...dimensions] : [...dimensions]
  const keys = kinds.map((kind): KeySpec => keySpecOf(given.get(kind) ?? kind ?? 'ip', ipv6Prefix))
  return { keys, kindOf: (dimension) => kinds.indexOf(dimension) }
}

function logOptionsOf(options: SimulateOptions): Pick<AccessLog, 'format' | 'timeField' | 'cost' | 'window'> {
  const { logFormat, timeField, cost, ipv6Prefix, reorder } = options
  return {
    format: logFormat,
    timeField,
    cost: cost === undefined ? undefined : keySpecOf(cost, ipv6Prefix),
    window: reorder === '0' ? 0 : asUsageError('--reorder', () => millisOf('INVALID_OPTION', 'it', reorder)),
  }
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
