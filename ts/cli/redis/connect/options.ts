import { Argument, type Command, InvalidArgumentError, Option } from 'commander'
import { TollgateError } from '../../../api/error.js'
import { millisOf } from '../../../input/duration.js'
import { prefixOf } from '../../../input/options.js'
import type { EndpointOptions } from './endpoint.js'

/** The options of all commands that use Redis. */
export interface RedisOptions extends EndpointOptions {
  /** In milliseconds. */
  readonly timeout: number
  readonly format: 'text' | 'json'
}

export interface RedisCommandOptions extends RedisOptions {
  readonly prefix: string
}

const ENDPOINT_HELP = `
The address of Redis:
  A URL may contain a password, and every user of the machine can see a command's arguments: put such a URL into \
REDIS_URL or --url-file, or the password into REDIS_PASSWORD (and REDIS_USERNAME). No output contains it.
  For a Redis Cluster, give the URL of any node. With --sentinel, give the URL of a sentinel; the password of the \
sentinel itself is REDIS_SENTINEL_PASSWORD.`

export function withEndpointOptions(command: Command): Command {
  return withRedisOptions(command, () =>
    command.requiredOption(
      '--prefix <prefix>',
      "the limiter's prefix",
      parser((text) => prefixOf(text, 'it')),
    ),
  )
}

/** Adds the options of all commands that use Redis. `addSubject` adds those that follow the address in the help. */
export function withRedisOptions(command: Command, addSubject: () => void = () => {}): Command {
  command
    .optionsGroup('The limiter:')
    .addArgument(new Argument('[url]', 'redis://, rediss:// (TLS) or redis+unix://; default: REDIS_URL'))
    .option('--url-file <file>', 'a file with the URL')
  addSubject()
  return command
    .optionsGroup('The connection:')
    .option('--sentinel <master>', 'the URL is that of a sentinel that monitors this master')
    .option(
      '--nat <pair>',
      "an address that nodes or sentinels report, and how to reach it: '10.0.0.1:6379=redis.example:7001'; may be given several times",
      collect,
    )
    .option('--cluster-tags <n>', "the store's cluster.tags, if it has any", parser(wholeNumberIn(1, 16_384)))
    .option('--ca <file>', 'the trusted certificates (PEM), in place of those of Mozilla')
    .option('--cert <file>', "the client's certificate (PEM)")
    .option('--cert-key <file>', "the certificate's private key (PEM)")
    .option('--server-name <name>', "the name that the server's certificate must have")
    .addOption(durationOption('--timeout <duration>', 'maximum time for an answer of Redis').default(5_000, '5s'))
    .optionsGroup('The output:')
    .addOption(new Option('--format <format>', 'the output format').choices(['text', 'json']).default('text'))
    .addHelpText('after', ENDPOINT_HELP)
}

export function withKeyOptions(command: Command): Command {
  return command
    .optionsGroup('The key:')
    .requiredOption('--key <key>', 'the key; dimension=key, once for each, if the policies have a per', collect)
    .option('--tag <tag>', 'the tag of the limiter or of the call, if it has one')
}

export function withPolicyOptions(command: Command, why: string): Command {
  return command
    .optionsGroup('The policies:')
    .option('--policy <policy>', `the limiter's policy, such as 'gcra limit=100 period=1m burst=20'${why}`)
    .option('--policies <file>', 'or its policies: a JSON file with one, or with several by name')
    .option('--tier <tier>', 'the tier whose numbers are meant, if the limiter has tiers')
}

export interface SampleOptions {
  /** In milliseconds. */
  readonly for: number
  /** The maximum number of the limiter's keys to read. */
  readonly sample: number
  /** The number of keys that a server examines for one page, approximately. */
  readonly count: number
}

export function withSampleOptions(command: Command): Command {
  return command
    .addOption(durationOption('--for <duration>', 'maximum time for scanning keys').default(5_000, '5s'))
    .option(
      '--sample <keys>',
      "maximum number of the limiter's keys to read",
      parser(wholeNumberIn(1, 1_000_000_000)),
      1_000_000,
    )
    .option(
      '--count <n>',
      "keys that a server examines for one page: SCAN's COUNT",
      parser(wholeNumberIn(10, 10_000)),
      1_000,
    )
}

/** A parser for the value of an option. Its errors become usage errors. */
export function parser<T>(read: (text: string) => T): (text: string) => T {
  return (text) => {
    try {
      return read(text)
    } catch (error) {
      if (TollgateError.is(error) || error instanceof InvalidArgumentError) {
        throw new InvalidArgumentError(error.message.replace(/^it /, 'It '))
      }
      throw error
    }
  }
}

/** An option with a duration, in milliseconds. */
export function durationOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser(parser((text) => millisOf('INVALID_OPTION', 'it', text)))
}

export function wholeNumberIn(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (!/^\d+$/.test(text) || number < least || number > most) {
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`)
    }
    return number
  }
}

/** Collects the values of an option that may be given several times. */
export function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value]
}
