import { Argument, type Command, InvalidArgumentError, Option } from 'commander'
import { TollgateError } from '../../../api/error.js'
import { millisOf } from '../../../input/duration.js'
import { nameOf } from '../../../input/options.js'
import type { PlaceOptions } from './endpoint.js'

/** The options of all commands that look into Redis. */
export interface CommonOptions extends PlaceOptions {
  readonly prefix: string
  /** In milliseconds. */
  readonly timeout: number
  readonly format: 'text' | 'json'
}

const PLACE_HELP = `
Where Redis is:
  A URL may hold a password, and every user of the machine may see a command's arguments: give such a URL in
  REDIS_URL or --url-file, or the password in REDIS_PASSWORD (and REDIS_USERNAME). Nothing that is printed holds it.
  A node of a Redis Cluster stands for all of it; with --sentinel the URL is that of a sentinel, whose own
  password is REDIS_SENTINEL_PASSWORD.`

/** Adds what all commands that look into Redis take. */
export function withPlace(command: Command): Command {
  return command
    .addArgument(new Argument('[url]', 'redis://, rediss:// (TLS) or redis+unix://; default: REDIS_URL'))
    .option('--url-file <file>', 'a file with the URL')
    .requiredOption(
      '--prefix <prefix>',
      "the limiter's prefix",
      parsed((text) => nameOf('it', text)),
    )
    .option('--sentinel <master>', 'the URL is that of a sentinel, which knows this master')
    .option('--cluster-tags <n>', "the store's cluster.tags, if it has any", parsed(wholeFrom(1, 16_384)))
    .option('--ca <file>', 'trust these certificates (PEM) in place of those that Mozilla trusts')
    .option('--cert <file>', "the client's certificate (PEM)")
    .option('--cert-key <file>', 'its key (PEM)')
    .option('--server-name <name>', "the name that the server's certificate must be for")
    .addOption(
      new Option('--timeout <duration>', 'how long Redis may take to answer')
        .default(5_000, '5s')
        .argParser(parsed(lengthOfTime)),
    )
    .addOption(new Option('--format <format>', 'how to print').choices(['text', 'json']).default('text'))
    .addHelpText('after', PLACE_HELP)
}

/** Adds what says whose key it is. */
export function withKey(command: Command): Command {
  return command
    .requiredOption('--key <key>', 'the key; kind=key, once for each, if the policies have a per', collected)
    .option('--tag <tag>', "the limiter's or the call's own tag, if it has one")
}

/** Adds what says what the limiter enforces. */
export function withPolicies(command: Command, why: string): Command {
  return command
    .option('--policy <policy>', `the limiter's policy, such as 'gcra limit=100 period=1m burst=20'${why}`)
    .option('--policies <file>', 'or its policies: JSON of one, or of several by name')
}

/** A function for an option's value whose errors are those of wrong usage. */
export function parsed<T>(read: (text: string) => T): (text: string) => T {
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

/** A length of time in milliseconds. */
export function lengthOfTime(text: string): number {
  return millisOf('INVALID_OPTION', 'it', text)
}

/** A whole number of a range. */
export function wholeFrom(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (!/^\d+$/.test(text) || number < least || number > most) {
      throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`)
    }
    return number
  }
}

/** Of an option that may be given several times: all of its values. */
export function collected(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value]
}
