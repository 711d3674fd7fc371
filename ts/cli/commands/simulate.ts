import { Command } from 'commander'
import type { ExitCode } from '../exit-codes.js'
import type { Terminal } from '../terminal.js'

/** `tollgate simulate`: what policies would have done to the requests of an access log. */
export function simulateCommand(_terminal: Terminal, _done: (code: ExitCode) => void): Command {
  return new Command('simulate')
    .summary('replay an access log through policies, and tell what they would have refused')
    .argument('<log...>', 'the log')
    .action(async () => {})
}
