import type { EnginePolicies, EnginePolicy } from '../../backends/engine.js'
import type { Desk } from './scratch.js'

/** What takes policies for a limiter that is to be opened next, one by one. */
export interface DraftGlue {
  startDraft(): void
  draftPolicy(kind: number, count: number, subject: number): void
  draftNumbers(kind: number, count: number): void
}

/** A policy as numbers: an engine has its own only in a limiter. */
export class Numbers {
  constructor(
    readonly kind: number,
    readonly numbers: readonly number[],
    readonly timeZone: string,
  ) {}

  /** Lays it on a desk, and tells how many numbers it has. */
  lay(desk: Desk): number {
    desk.layText(this.timeZone, 1)
    return desk.layNumbers(this.numbers)
  }
}

/** What a limiter enforces, until it is drafted. */
export class Enforced {
  constructor(
    readonly isSingle: boolean,
    readonly policies: readonly EnginePolicy[],
    readonly names: readonly string[],
    readonly subjects: readonly number[],
  ) {}
}

/** Drafts policies for a limiter that is to be opened next, and tells whether it is a single one without a name. */
export function draft(glue: DraftGlue, desk: Desk, policies: EnginePolicies): boolean {
  const enforced = policies as Enforced
  glue.startDraft()
  enforced.policies.forEach((policy, index) => {
    const numbers = policy as Numbers
    desk.layText(enforced.names[index] as string, 0)
    glue.draftPolicy(numbers.kind, numbers.lay(desk), enforced.subjects[index] as number)
  })
  return enforced.isSingle
}

/** Drafts the numbers of a key's own. */
export function draftNumbers(glue: DraftGlue, desk: Desk, policies: readonly (EnginePolicy | undefined)[]): void {
  glue.startDraft()
  for (const policy of policies) {
    const numbers = policy as Numbers | undefined
    // No policy has no numbers.
    glue.draftNumbers(numbers?.kind ?? 0, numbers?.lay(desk) ?? 0)
  }
}
