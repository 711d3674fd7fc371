import type { LimitedJob } from '../../ts/bullmq/index.js'

/** A job as a worker passes it to a processor. It records where it was moved. */
export class FakeJob implements LimitedJob {
  readonly timestamp = 1_780_272_000_000
  readonly queueQualifiedName = 'bull:mail'
  attemptsMade = 0
  attemptsStarted = 1
  /** The delays, from the time at which each began. */
  readonly delays: number[] = []
  /** The times until which it was delayed. */
  readonly turns: number[] = []
  readonly tokens: (string | undefined)[] = []
  promotions = 0

  constructor(
    readonly id: string,
    readonly data: { readonly customer: string; readonly size?: number } = { customer: 'a' },
  ) {}

  async moveToDelayed(timestamp: number, token?: string): Promise<void> {
    this.turns.push(timestamp)
    this.delays.push(timestamp - Date.now())
    this.tokens.push(token)
  }

  async promote(): Promise<void> {
    this.promotions++
  }
}
