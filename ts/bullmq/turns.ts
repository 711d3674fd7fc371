import { timers } from '../platform/timers.js'
import type { LimitedJob } from './options.js'

/** The most groups and the most jobs that a process remembers. */
const MAX_REMEMBERED = 10_000

/** Turns that are further away are not kept: limits may be raised, and jobs removed. */
const MAX_AHEAD_MS = 600_000

/** How much sparser than its rate a group's turns become, if other processes take most of its room. */
const MAX_SPARSENESS = 64

type GroupName = string | symbol

/** Why a job does not run now. */
export interface Refusal {
  /** The time until the job may fit. */
  readonly retryAfterMs: number
  /** The time in which its group gets room for one such job. */
  readonly stepMs: number
  /** Whether the job had a turn before. */
  readonly isLate: boolean
}

interface Group {
  /** The last turn that was given. */
  until: number
  stepMs: number
  sparseness: number
  changedAt: number
  /** Whether a permit was released while no job was parked. */
  isVacant: boolean
  /** Jobs that are promoted when a permit is released, in the order of their turns. */
  readonly parked: Map<LimitedJob['id'], LimitedJob>
}

/**
 * The turns of the delayed jobs of each group, in this process. Each delayed job gets a turn of its own, so that about
 * one job is picked whenever the group gets room, however many jobs wait. Other processes give turns, too: of two jobs
 * with the same turn one gets a further turn. If that is frequent, turns become sparser.
 *
 * The limiter alone decides which job runs. Wrong turns cost picks or time.
 */
export class Turns {
  readonly #groups = new Map<GroupName, Group>()
  #parked = 0
  #timers = 0

  /** The time at which a refused job should be picked again. */
  next(name: GroupName, { retryAfterMs, stepMs, isLate }: Refusal, now: number): number {
    const earliest = now + retryAfterMs
    if (isLate && retryAfterMs <= stepMs / 2) {
      // It was picked a little early: the job before it was late.
      return earliest
    }
    const group = this.#group(name)
    group.stepMs = stepMs
    if (isLate) {
      adapt(group, 1.1, now)
    }
    group.until = Math.max(earliest, group.until + stepMs * group.sparseness)
    const ahead = group.until - earliest
    return ahead <= MAX_AHEAD_MS ? group.until : earliest + (MAX_AHEAD_MS + (ahead % MAX_AHEAD_MS)) / 2
  }

  /**
   * A job runs.
   *
   * @param hasRoom - Whether the group had more room than one job with a turn leaves. Then its turns are out of date:
   * the jobs were removed, or other processes have run them.
   */
  admit(
    name: GroupName,
    { isLate, hasRoom }: { readonly isLate: boolean; readonly hasRoom: boolean },
    now: number,
  ): void {
    const group = this.#groups.get(name)
    if (group !== undefined) {
      group.until = hasRoom ? 0 : group.until
      if (isLate) {
        adapt(group, 0.7, now)
      }
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

  #group(name: GroupName): Group {
    let group = this.#groups.get(name)
    if (group === undefined) {
      for (const [oldest, { parked }] of this.#groups.size < MAX_REMEMBERED ? [] : this.#groups) {
        this.#parked -= parked.size
        this.#groups.delete(oldest)
        break
      }
      group = { until: 0, stepMs: 0, sparseness: 1, changedAt: 0, isVacant: false, parked: new Map() }
      this.#groups.set(name, group)
    }
    return group
  }
}

/** Once in each turn: many jobs whose turns came while no worker ran are one sign. */
function adapt(group: Group, factor: number, now: number): void {
  if (now - group.changedAt >= group.stepMs * group.sparseness) {
    group.sparseness = Math.min(MAX_SPARSENESS, Math.max(1, group.sparseness * factor))
    group.changedAt = now
  }
}
