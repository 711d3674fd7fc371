import { timers } from '../platform/timers.js'
import type { LimitedJob } from './options.js'

/** The most groups and the most jobs that a process remembers. */
const MAX_REMEMBERED = 10_000

/** Turns that are further away are not kept: limits may be raised, and jobs removed. */
const MAX_AHEAD_MS = 600_000

type GroupName = string | symbol

/** What is known of a job that does not run now. */
export interface RefusedTurn {
  /** The time until the job may fit. */
  readonly retryAfterMs: number
  /** The time in which its group gets room for one such job. */
  readonly stepMs: number
}

interface GroupTurns {
  /** The last turn that was given. */
  until: number
  /** Whether a permit was released while no job was parked. */
  isVacant: boolean
  /** Jobs that are promoted when a permit is released, in the order of their turns. */
  readonly parked: Map<LimitedJob['id'], LimitedJob>
}

/**
 * The turns of the delayed jobs of each group, in this process. Each delayed job gets a turn of its own, so that about
 * one job is picked whenever the group gets room, however many jobs wait. Other processes give turns, too: of the jobs
 * with the same turn one runs, and the others get further turns.
 *
 * The limiter alone decides which job runs. Wrong turns cost picks or time.
 */
export class Turns {
  readonly #groups = new Map<GroupName, GroupTurns>()
  #parked = 0
  #timers = 0

  /** The time at which a refused job should be picked again. */
  next(name: GroupName, { retryAfterMs, stepMs }: RefusedTurn, now: number): number {
    const group = this.#group(name)
    const earliest = now + retryAfterMs
    group.until = Math.max(earliest, group.until + stepMs)
    const ahead = group.until - earliest
    return Math.ceil(ahead <= MAX_AHEAD_MS ? group.until : earliest + (MAX_AHEAD_MS + (ahead % MAX_AHEAD_MS)) / 2)
  }

  /** The group has more room than jobs with turns leave: these were removed, or other processes have run them. */
  clear(name: GroupName): void {
    const group = this.#groups.get(name)
    if (group !== undefined) {
      group.until = 0
    }
  }

  /** Keeps a delayed job for {@link promote}. */
  park(name: GroupName, job: LimitedJob): void {
    const group = this.#group(name)
    if (this.#parked < MAX_REMEMBERED) {
      this.#parked++
      group.parked.set(job.id, job)
    }
    if (group.isVacant) {
      void this.promote(name)
    }
  }

  unpark(name: GroupName, id: LimitedJob['id']): void {
    if (this.#groups.get(name)?.parked.delete(id)) {
      this.#parked--
    }
  }

  /** Ends the delay of the first job that waits for a permit. */
  async promote(name: GroupName): Promise<void> {
    const group = this.#groups.get(name)
    if (group === undefined) {
      return
    }
    group.isVacant = false
    for (const [id, job] of group.parked) {
      this.unpark(name, id)
      try {
        return await job.promote()
      } catch {
        // The job is not delayed any more: it was removed, or another process has picked it.
      }
    }
    group.isVacant = true
  }

  /** Ends the delay of a job at its turn. BullMQ does so, too, but later. */
  promoteAt(job: LimitedJob, at: number): void {
    if (this.#timers < MAX_REMEMBERED) {
      this.#timers++
      const promote = () => {
        this.#timers--
        job.promote().catch(() => {})
      }
      timers.setTimeout(promote, Math.max(0, at - Date.now())).unref()
    }
  }

  #group(name: GroupName): GroupTurns {
    let group = this.#groups.get(name)
    if (group === undefined) {
      for (const [oldest, { parked }] of this.#groups.size < MAX_REMEMBERED ? [] : this.#groups) {
        this.#parked -= parked.size
        this.#groups.delete(oldest)
        break
      }
      group = { until: 0, isVacant: false, parked: new Map() }
      this.#groups.set(name, group)
    }
    return group
  }
}
