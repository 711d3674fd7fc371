import { timers } from '../platform/timers.js'
import type { LimitedJob } from './options.js'

/** The most groups and the most jobs that a process remembers. */
const MAX_REMEMBERED = 10_000

/** The most jobs of a group that a process remembers. */
const MAX_PARKED = 1_000

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

interface ParkedJob {
  readonly job: LimitedJob
  /** The turn of the job. From then on it is no longer in the delayed set, or it is there for another reason. */
  readonly at: number
}

interface GroupTurns {
  /** The last turn that was given. */
  until: number
  /** Whether a permit was released while no job was parked. */
  isVacant: boolean
  /** Whether a job of the group waits in a slot of the worker. */
  isHeld: boolean
  /** Jobs that are promoted when a permit is released, in the order in which they were refused. */
  readonly parked: Map<string, ParkedJob>
}

/**
 * The turns of the delayed jobs of each group, in this process. Each delayed job gets a turn of its own, so that about
 * one job is picked whenever the group gets room, however many jobs wait. Other processes give turns, too: of the jobs
 * with the same turn one runs, and the others get further turns.
 *
 * The limiter alone decides which job runs. Wrong turns cost picks or time.
 */
export class Turns {
  /** The group that was refused last is the last. */
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

  /** Waits for a time that is near. `false`, without a wait, if another job of the group does so. */
  async hold(name: GroupName, millis: number): Promise<boolean> {
    const group = this.#group(name)
    if (group.isHeld) {
      return false
    }
    group.isHeld = true
    await new Promise<void>((resolve) => timers.setTimeout(resolve, millis))
    group.isHeld = false
    return true
  }

  /** Keeps a job that is delayed until its turn, for {@link promote}. */
  park(name: GroupName, job: LimitedJob, at: number): void {
    const group = this.#group(name)
    this.#forgetPast(group)
    if (group.parked.size < MAX_PARKED) {
      this.unpark(name, job)
      this.#parked++
      group.parked.set(nameOf(job), { job, at })
      while (this.#parked > MAX_REMEMBERED) {
        this.#forgetGroup()
      }
    }
    if (group.isVacant) {
      void this.promote(name)
    }
  }

  unpark(name: GroupName, job: LimitedJob): void {
    if (this.#groups.get(name)?.parked.delete(nameOf(job))) {
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
    this.#forgetPast(group)
    for (const { job } of group.parked.values()) {
      this.unpark(name, job)
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

  /** A job whose turn has come may have failed since. To promote it would end the delay of its next attempt. */
  #forgetPast({ parked }: GroupTurns): void {
    const now = Date.now()
    for (const [name, { at }] of parked) {
      if (at > now) {
        return
      }
      parked.delete(name)
      this.#parked--
    }
  }

  #group(name: GroupName): GroupTurns {
    const group = this.#groups.get(name) ?? { until: 0, isVacant: false, isHeld: false, parked: new Map() }
    this.#groups.delete(name)
    this.#groups.set(name, group)
    if (this.#groups.size > MAX_REMEMBERED) {
      this.#forgetGroup()
    }
    return group
  }

  /** Forgets the group whose last refusal is the oldest. */
  #forgetGroup(): void {
    for (const [name, { parked }] of this.#groups) {
      this.#parked -= parked.size
      this.#groups.delete(name)
      return
    }
  }
}

/** Jobs of several queues may have the same id, and the same group. */
function nameOf({ id, queueQualifiedName }: LimitedJob): string {
  return `${id} ${queueQualifiedName}`
}
