import { Presets, SingleBar } from 'cli-progress'
import type { Terminal } from './terminal.js'

/** Shows how far a long command is: on the standard error, and only if that is a terminal. */
export interface Progress {
  /** So many units more are done. */
  advance(units: number): void
  /** Takes the bar away. */
  end(): void
}

const NONE: Progress = { advance() {}, end() {} }

/**
 * @param total - All units; `undefined` if that is not known, and then there is nothing to show.
 * @param title - What is being done.
 */
export function progressOf({ stderr }: Terminal, title: string, total: number | undefined): Progress {
  if (stderr.isTTY !== true || total === undefined || total === 0) {
    return NONE
  }
  const options = {
    stream: stderr as NodeJS.WriteStream,
    format: `${title} [{bar}] {percentage} % | {eta_formatted} left`,
    clearOnComplete: true,
    // Its own handler ends the process as if all were well.
    gracefulExit: false,
    etaBuffer: 50,
  }
  const bar = new SingleBar(options, Presets.legacy)
  bar.start(total, 0)
  return { advance: (units) => bar.increment(units), end: () => bar.stop() }
}
