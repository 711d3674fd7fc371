import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Command } from 'commander'
import { EXIT, type ExitCode } from '../exit-codes.js'
import { environmentError } from '../failure.js'
import { parser, wholeNumberIn } from '../redis/connect/options.js'
import type { Terminal } from '../terminal.js'

interface PlaygroundOptions {
  readonly port: number
}

interface PlaygroundServer {
  serve(folder: string, port: number): Promise<string>
}

const DESCRIPTION = `Serves the playground on localhost: a page that sends the same traffic through several policies, with the \
real engine, and draws what each admits. It needs no network.`

export function playgroundCommand(terminal: Terminal, done: (code: ExitCode) => void): Command {
  return new Command('playground')
    .summary('compare policies on the same traffic, in a browser')
    .description(DESCRIPTION)
    .option('--port <port>', 'the port to listen on; 0 picks a free one', parser(wholeNumberIn(0, 65_535)), 4_321)
    .addHelpText('after', '\nExample:\n  npx tollgate-cli playground')
    .action(async ({ port }: PlaygroundOptions) => {
      // From dist/cli/, where the command line is bundled.
      const folder = join(__dirname, '..', 'playground')
      const module = join(folder, 'serve.mjs')
      if (!existsSync(module)) {
        throw environmentError('this copy of tollgate has no playground: in a clone, run npm run playground')
      }
      const { serve } = (await import(pathToFileURL(module).href)) as PlaygroundServer
      const address = await serve(folder, port).catch((error: Error) => {
        throw environmentError(`${error.message}; another port: npx tollgate-cli playground --port 0`)
      })
      terminal.stdout.write(`${address}\nCtrl-C ends it.\n`)
      done(EXIT.fine)
    })
}
