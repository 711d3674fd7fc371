import { Presets, SingleBar } from 'cli-progress'
import type { Terminal } from './terminal.js'

/** The progress of a long command. It is shown on the standard error if that is a terminal. */
export interface CommandProgress {
  advance(units: number): void
  /** Sets the number of units of the whole work. */
  expect(total: number): void
  end(): void
}

const NONE: CommandProgress = { advance() {}, expect() {}, end() {} }

/** @param total - The number of units; `undefined` if it is unknown, and then nothing is shown. */
export function progressOf({ stderr }: Terminal, title: string, total: number | undefined): CommandProgress {
  if (stderr.isTTY !== true || total === undefined || total === 0) {
    return NONE
  }
  const options = {
    stream: stderr as NodeJS.WriteStream,
    format: `${title} [{bar}] {percentage} % | {eta_formatted} left`,
    clearOnComplete: true,
    // The handler of cli-progress ends the process with exit code 0.
    gracefulExit: false,
    etaBuffer: 50,
  }
  const bar = new SingleBar(options, Presets.legacy)
  bar.start(1, 0)
  let [done, expected, share] = [0, total, 0]
  return {
    advance: (units) => {
      done += units
      // Never back, also if more units are expected than before.
      share = Math.min(1, Math.max(share, done / expected))
      bar.update(share)
    },
    expect: (total) => {
      expected = total
    },
    end: () => bar.stop(),
  }
}
